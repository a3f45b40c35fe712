"""Reading a configuration: the effective values, their origins, and a message for every mistake."""

import re
import tomllib
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.config import Config, LoadedConfig, Origin, OriginKind, read_config
from accord.config.check import KEY_ADVICE, LEVELS, MESSAGES, URL_ADVICE
from accord.config.read import VARIABLES
from accord.config.starter import STARTER
from accord.errors import ConfigError

FULL = """\
policy = "permissive"
unknown = "try"
default_agent = "helper"
retention_days = 30

[agents]
helper = "my.agents:helper"

[[backends]]
name = "local"
kind = "openai"
model = "llama3.2"
base_url = "http://localhost:11434/v1"
key_env = "LOCAL_KEY"
manifest = "declared"
overrides = { streaming = "native", tool_bash = { restricted = { reason = "sandbox" } } }
[backends.options]
keep_alive = "5m"
since = "2026-01-01"

[[backends]]
name = "cloud"
kind = "anthropic"

[emulation]
preset = { tool_use = true, streaming = false }
max_retries = 0
[emulation.strategies.logprobs]
type = "disabled"
reason = "No"

[limits]
max_blocks = 10
turn_s = 30

[store]
kind = "postgres"
url_env = "PG_URL"
"""


def mistakes(text: str, **given: Any) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        read_config(text, "a.toml", **given)
    return str(raised.value).split("\n")


def test_without_a_file_the_defaults_are_in_effect():
    loaded = read_config(None)
    assert loaded == LoadedConfig(Config(), {}, None)
    assert read_config("").config == Config()


def test_every_key_can_be_set():
    config = read_config(FULL).config
    assert [backend.name for backend in config.backends] == ["local", "cloud"]
    assert config.backends[0].overrides["tool_bash"].reason == "sandbox"
    assert config.backends[0].manifest_file is None
    assert config.emulation.preset == {"tool_use": True, "streaming": False}
    assert (config.limits.max_blocks, config.limits.turn_s, config.limits.gap_s) == (10, 30.0, 60.0)
    assert config.backend("cloud") == config.backends[1]
    assert config.backend("none") is None


ORIGINS = [
    (("policy",), "a.toml:1"),
    (("agents", "helper"), "a.toml:7"),
    (("backends", 0, "model"), "a.toml:12"),
    (("backends", 0, "overrides", "tool_bash", "restricted", "reason"), "a.toml:16"),
    (("backends", 1, "model"), "default"),
    (("emulation", "preset", "tool_use"), "a.toml:26"),
    (("limits", "gap_s"), "default"),
    (("limits", "turn_s"), "env ACCORD_LIMITS_TURN_S"),
    (("unknown",), "flag --unknown"),
    ((), "default"),
]


@pytest.mark.parametrize(("path", "origin"), ORIGINS)
def test_the_origin_of_every_value_is_known(path: tuple[str | int, ...], origin: str):
    loaded = read_config(
        FULL,
        "a.toml",
        environ={"ACCORD_LIMITS_TURN_S": "9", "ACCORD_UNKNOWN": "deny"},
        flags=[(("unknown",), "try", "--unknown")],
    )
    assert str(loaded.origin(path)) == origin


def test_a_flag_overrides_the_environment_which_overrides_the_file():
    assert read_config("").config.policy == "standard"
    assert read_config('policy = "strict"').config.policy == "strict"
    environ = {"ACCORD_POLICY": "permissive"}
    assert read_config('policy = "strict"', environ=environ).config.policy == "permissive"
    flags = [(("policy",), "standard", "--policy")]
    loaded = read_config('policy = "strict"', environ=environ, flags=flags)
    assert loaded.config.policy == "standard"
    assert loaded.origin(["policy"]) == Origin(OriginKind.FLAG, "--policy")


def test_overriding_the_preset_replaces_all_of_it():
    loaded = read_config("emulation.preset.tool_use = true", environ={"ACCORD_EMULATION_PRESET": "off"})
    assert loaded.config.emulation.preset == {}
    assert str(loaded.origin(["emulation", "preset"])) == "env ACCORD_EMULATION_PRESET"


def test_overriding_the_kind_of_store_drops_its_address():
    assert read_config(FULL, environ={"ACCORD_STORE_KIND": "memory"}).config.store.kind == "memory"


MISTAKES = [
    ('polici = "strict"', ["a.toml:1:1: polici: unknown key; did you mean policy?"]),
    (
        "[store]\nzzz = 1",
        ["a.toml:2:1: store.zzz: unknown key; use one of kind, path, url_env"],
    ),
    ("[[backends]]\nname='a'\nkind='x'\nmodle='m'", ["a.toml:4:1: backends[0].modle: unknown key; did you mean model?"]),
    ("limits = {turns_s = 1}", ["a.toml:1:11: limits.turns_s: unknown key; did you mean turn_s?"]),
    ('policy = "strikt"', ["a.toml:1:1: policy: expected one of strict, standard, permissive"]),
    ("unknown = 1", ["a.toml:1:1: unknown: expected one of deny, try"]),
    ("retention_days = 0", ["a.toml:1:1: retention_days: expected a number of at least 1"]),
    ("server.page = 1", ["a.toml:1:8: server.page: expected true or false"]),
    ("retention_days = '3'", ["a.toml:1:1: retention_days: expected a whole number"]),
    ("retention_days = 3.0", ["a.toml:1:1: retention_days: expected a whole number"]),
    ("retention_days = true", ["a.toml:1:1: retention_days: expected a whole number"]),
    ("default_agent = 'unknown'", ["a.toml:1:1: default_agent: expected one of the agents: demo, relay"]),
    (
        "default_agent = 'a b'",
        ["a.toml:1:1: default_agent: expected a name of letters, digits, dots, dashes and underscores"],
    ),
    ("[agents]\na = 'mod'", ["a.toml:2:1: agents.a: expected module:name, such as my_agents:helper"]),
    ("[agents]\na = 7", ["a.toml:2:1: agents.a: expected text"]),
    ("agents = 7", ["a.toml:1:1: agents: expected a table"]),
    ("limits = 7", ["a.toml:1:1: limits: expected a table"]),
    ("[backends]\nname = 'a'", ["a.toml:1:1: backends: expected an array of tables, [[…]]"]),
    ("server.rates = 7", ["a.toml:1:8: server.rates: expected an array, [ … ]"]),
    ("backends = [7]", ["a.toml:1:13: backends[0]: expected a table"]),
    ("[[backends]]\nname = 'a'", ["a.toml:1:1: backends[0].kind: is missing"]),
    (
        "[[backends]]\nname='a'\nkind='x'\n[[backends]]\nname='a'\nkind='y'",
        ["a.toml:5:1: backends[1].name: expected a name that no other backend has"],
    ),
    ("[[backends]]\nname='a'\nkind='x'\nmodel=''", ["a.toml:4:1: backends[0].model: expected text that is not empty"]),
    (
        "[[backends]]\nname='a'\nkind='x'\nbase_url='localhost'",
        ["a.toml:4:1: backends[0].base_url: expected an address that begins with http:// or https://"],
    ),
    (
        "[[backends]]\nname='a'\nkind='x'\nbase_url='http://[::1'",
        ["a.toml:4:1: backends[0].base_url: expected an address that begins with http:// or https://"],
    ),
    (
        "[[backends]]\nname='a'\nkind='x'\nbase_url='https://me:pw@host'",
        [
            "a.toml:4:1: backends[0].base_url: expected an address without a user or password; put the secret in a variable and name it in key_env"
        ],
    ),
    (
        "[[backends]]\nname='a'\nkind='x'\nkey_env='sk-123'",
        ["a.toml:4:1: backends[0].key_env: expected the name of an environment variable, such as OPENAI_API_KEY"],
    ),
    ("[[backends]]\nname='a'\nkind='x'\noverrides={streaming='yes'}", [f"a.toml:4:12: backends[0].overrides.streaming: {LEVELS}"]),
    ("[[backends]]\nname='a'\nkind='x'\noverrides={streaming={restricted={}}}", [f"a.toml:4:12: backends[0].overrides.streaming: {LEVELS}"]),
    ("[[backends]]\nname='a'\nkind='x'\noverrides={Streming='native'}", ['a.toml:4:12: backends[0].overrides.Streming: unknown capability "Streming"; did you mean streaming?']),
    ("[[backends]]\nname='a'\nkind='x'\noverrides={vison='native'}", ['a.toml:4:12: backends[0].overrides.vison: unknown capability "vison"; did you mean vision?']),
    ("[emulation.strategies.tool_us]\ntype='disabled'\nreason='x'", ['a.toml:1:1: emulation.strategies.tool_us: unknown capability "tool_us"; did you mean tool_use?']),
    (
        "[[backends]]\nname='a'\nkind='x'\noptions={x=[{y=2026-01-01}]}",
        ["a.toml:4:1: backends[0].options: expected no date or time; put it in quotes, since options are sent as JSON"],
    ),
    (
        "[[backends]]\nname='a'\nkind='x'\noptions={x=nan}",
        ["a.toml:4:1: backends[0].options: Numbers should be finite: JSON has no NaN and no Infinity"],
    ),
    ("[emulation]\npreset = 'all'", ["a.toml:2:1: emulation.preset: expected true, false, or a table of capabilities that are true or false"]),
    ("[emulation.preset]\ntool_use = 'on'", ["a.toml:2:1: emulation.preset.tool_use: expected true or false"]),
    (
        "[emulation.preset]\nlogprobs = true",
        [
            "a.toml:2:1: emulation.preset.logprobs: expected a capability of the preset: extended_thinking, image_input, json_mode, stop_sequences, streaming, structured_output_json_schema, system_message, tool_use"
        ],
    ),
    (
        "[[backends]]\nname='a'\nkind='x'\n[emulation]\ndescribe_images_with = 'b'",
        ["a.toml:5:1: emulation.describe_images_with: expected one of the backends: a"],
    ),
    (
        "emulation.describe_images_with = 'b'",
        ["a.toml:1:11: emulation.describe_images_with: expected one of the backends: none is configured"],
    ),
    ("emulation.describe_images_with = 7", ["a.toml:1:11: emulation.describe_images_with: expected text"]),
    ("emulation.max_retries = 21", ["a.toml:1:11: emulation.max_retries: expected a number of at most 20"]),
    ("[emulation.strategies.x]\ntype = 'magic'", ["a.toml:1:1: emulation.strategies.x: expected a type that is one of system_prompt_injection, post_processing, disabled"]),
    ("[emulation.strategies.x]\nreason = 'y'", ["a.toml:1:1: emulation.strategies.x: expected a type that is one of system_prompt_injection, post_processing, disabled"]),
    ("[emulation.strategies.x]\ntype = 'disabled'", ["a.toml:1:1: emulation.strategies.x.reason: is missing"]),
    ("[emulation.strategies]\nx = 7", ["a.toml:2:1: emulation.strategies.x: expected a table"]),
    ("[emulation.strategies.1]\ntype = 'disabled'\nreason = ''", ["a.toml:1:1: emulation.strategies.1: expected a capability such as tool_use: at most 128 letters, digits and underscores, a letter first"]),
    (f"[emulation.strategies.{'x' * 129}]\ntype = 'disabled'\nreason = ''", [f"a.toml:1:1: emulation.strategies.{'x' * 129}: expected a capability such as tool_use: at most 128 letters, digits and underscores, a letter first"]),
    ("[limits]\nturn_s = 'long'", ["a.toml:2:1: limits.turn_s: expected a number"]),
    ("[limits]\nturn_s = 0", ["a.toml:2:1: limits.turn_s: expected a number greater than 0"]),
    ("[limits]\nturn_s = inf", ["a.toml:2:1: limits.turn_s: expected a finite number"]),
    ("[store]\nkind = 'memory'\npath = 'x'", ['a.toml:3:1: store.path: expected kind = "sqlite": a memory store has no path']),
    ("[store]\nurl_env = 'X'", ['a.toml:2:1: store.url_env: expected kind = "postgres": a sqlite store has no address']),
    ("[store]\nurl = 'postgres://u:p@h'", [f"a.toml:2:1: store.url: {URL_ADVICE}"]),
    ("policy =", ["a.toml:1:9: expected TOML: Invalid value"]),
    ("a = 1\na = 2", ["a.toml:2:6: expected TOML: Cannot overwrite a value"]),
    ("x = " + "[" * 20000, ["a.toml: nested too deeply"]),
    (
        "polici = 1\npolicy = 2\n[limits]\ngap_s = 0",
        [
            "a.toml:1:1: polici: unknown key; did you mean policy?",
            "a.toml:2:1: policy: expected one of strict, standard, permissive",
            "a.toml:4:1: limits.gap_s: expected a number greater than 0",
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "messages"), MISTAKES, ids=lambda value: str(value)[:40])
def test_every_mistake_is_reported_with_its_place(text: str, messages: list[str]):
    assert mistakes(text) == messages


def test_every_message_of_the_table_is_tested():
    unused = {"model_attributes_type", "literal_error"}  # pydantic's other names for the same findings
    makers = {kind: make for kind, make in MESSAGES.items() if kind not in unused}
    context = {"expected": "", "expected_tags": "", "gt": 0, "ge": 1, "le": 20}
    tested = "\n".join(line for _, lines in MISTAKES for line in lines)
    assert [kind for kind, make in makers.items() if make(context) not in tested] == []


@pytest.mark.parametrize(
    "word",
    [
        "key",
        "api_key",
        "API_KEY",
        "token",
        "password",
        "secret",
        "options.token",
        "options.headers.Authorization",
        'options.list = [{x-api-key = "sk-123"}]#',
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(word: str):
    (message,) = mistakes(f'[[backends]]\nname = "a"\nkind = "x"\n{word} = "sk-123"')
    assert message.startswith("a.toml:4:")
    assert message.endswith(KEY_ADVICE)
    assert "sk-123" not in message


VARIABLE_MISTAKES = [
    ({"ACCORD_POLICY": "x"}, "env ACCORD_POLICY: policy: expected one of strict, standard, permissive"),
    ({"ACCORD_RETENTION_DAYS": "x"}, "env ACCORD_RETENTION_DAYS: retention_days: expected a whole number"),
    ({"ACCORD_LIMITS_TURN_S": "soon"}, "env ACCORD_LIMITS_TURN_S: limits.turn_s: expected a number"),
    ({"ACCORD_LIMITS_TURN_S": "-1"}, "env ACCORD_LIMITS_TURN_S: limits.turn_s: expected a number greater than 0"),
    ({"ACCORD_EMULATION_PRESET": "maybe"}, "env ACCORD_EMULATION_PRESET: emulation.preset: expected true or false"),
    (
        {"ACCORD_EMULATION_DESCRIBE_IMAGES_WITH": "b"},
        "env ACCORD_EMULATION_DESCRIBE_IMAGES_WITH: emulation.describe_images_with: expected one of the backends: none is configured",
    ),
    ({"ACCORD_STORE_KIND": "disk"}, "env ACCORD_STORE_KIND: store.kind: expected one of memory, sqlite, postgres"),
]


@pytest.mark.parametrize(("environ", "message"), VARIABLE_MISTAKES)
def test_a_mistake_in_the_environment_names_the_variable(environ: dict[str, str], message: str):
    assert mistakes("", environ=environ) == [message]


def test_an_empty_variable_counts_as_unset():
    assert read_config(None, environ=dict.fromkeys(VARIABLES, "")).config == Config()


def test_a_variable_does_not_hide_a_mistake_of_the_file():
    assert mistakes("limits = 7", environ={"ACCORD_LIMITS_GAP_S": "1"}) == ["a.toml:1:1: limits: expected a table"]


def test_the_starter_file_lists_every_variable():
    listed = dict(re.findall(r"^# +(ACCORD_\w+) +(\S+)$", STARTER, re.MULTILINE))
    assert listed == {name: ".".join(path) for name, (path, _, _) in VARIABLES.items()}


def test_the_starter_file_changes_nothing():
    assert read_config(STARTER).config == Config()


def test_every_setting_of_the_starter_file_is_a_valid_one():
    lines = [line[1:] if line.startswith("#") and line[1:2].strip() else line for line in STARTER.splitlines()]
    config = read_config("\n".join(lines).replace('default_agent = "demo"', 'default_agent = "helper"')).config
    default = Config()
    assert config.backends[0].overrides["tool_bash"].reason == "sandbox only"
    limits = config.limits.model_copy(update={"max_user_bytes": None})  # an example: by default there is none
    assert (limits, config.store.kind, config.store.path) == (default.limits, "sqlite", "accord.db")
    missing = [name for name in Config.model_fields if name not in config.model_fields_set]
    assert missing == []


def outcome(text: str) -> LoadedConfig | ConfigError:
    try:
        return read_config(text, "a.toml")
    except ConfigError as error:
        return error


@given(st.text())
def test_any_text_gives_a_configuration_or_our_error(text: str):
    found = outcome(text)
    assert isinstance(found, LoadedConfig) or found.problems


words = st.sampled_from(
    "policy unknown agents backends emulation limits store name kind key preset strategies type overrides options turn_s x".split()
)
scalars = (
    st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    | st.sampled_from(["native", "strict", "disabled"])
)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4), max_leaves=12
)


def toml(value: Any) -> str:
    """The value as TOML writes it on one line."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{key} = {toml(inner)}" for key, inner in members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, cast("list[Any]", value))) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(letter):08x}" for letter in value) + '"'
    return str(value).lower()


@given(st.dictionaries(words, trees))
def test_any_tables_give_a_configuration_or_errors_with_their_place(tree: dict[str, Any]):
    text = "\n".join(f"{key} = {toml(value)}" for key, value in tree.items())
    tomllib.loads(text)
    found = outcome(text)
    assert isinstance(found, LoadedConfig) or all(
        re.match(r"a\.toml:\d+:\d+$", mistake.place) for mistake in found.problems
    )
