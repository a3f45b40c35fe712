"""The options of model backends."""

from typing import Any

import pytest

from accord.backends.evidence import BackendEvidence
from accord.backends.model_options import APIS, make_upstream, model_backend
from accord.backends.upstream import UpstreamTimeouts
from accord.backends.upstream_aiohttp import AiohttpUpstream
from accord.backends.upstream_direct import DirectUpstream
from accord.config import BackendConfig, read_config
from accord.config.probed import add_probed_line
from accord.core.work.evidence import Evidence
from accord.errors import ConfigError, UsageError
from accord.wire.manifest import SupportLevel

KEY = "sk-very-secret-12345"
URL = "http://127.0.0.1:9/v1"


def config(kind: str = "openai", **options: Any) -> BackendConfig:
    return BackendConfig(name="a", kind=kind, model="m", base_url=URL, key_env="A_KEY", options=options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"api": "assistants"}, "options.api should be one of chat, responses, not 'assistants'"),
        ({"colour": 1}, 'unknown option "colour"; known are api, connect_s'),
        ({"retrys": 1}, 'unknown option "retrys"; did you mean retries?'),
        ({"connect_s": 0}, "options.connect_s should be a number of seconds above 0, not 0"),
        ({"gap_s": True}, "options.gap_s should be a number of seconds above 0, not True"),
        ({"retries": -1}, "options.retries should be a whole number from 0 to 20, not -1"),
        ({"retry_patience_s": "long"}, "options.retry_patience_s should be a number of seconds above 0"),
        ({"ca_file": "ca.pem"}, "options.ca_file should be the absolute path of a file that exists, not 'ca.pem'"),
        ({"ca_file": __file__}, "options.ca_file should hold certificates in PEM form"),
        ({"headers": ["x"]}, "options.headers should be a table of strings"),
        ({"headers": {"x": "a\nb"}}, "options.headers has a name or value that HTTP does not allow: 'x'"),
        ({"headers": {"x y": "a"}}, "options.headers has a name or value that HTTP does not allow: 'x y'"),
        ({"header_env": {"x": "UNSET"}}, "options.header_env takes x from the variable UNSET, which is not set"),
        ({"transport": "pigeon"}, "options.transport should be one of direct, aiohttp, not 'pigeon'"),
        ({"top_k": "yes"}, "options.top_k has the wrong type or value: Input should be a valid boolean"),
        ({"max_tokens_field": "limit"}, "options.max_tokens_field has the wrong type or value: Input should be"),
    ],
)
def test_each_wrong_option_has_its_error(options: dict[str, Any], sentence: str):
    with pytest.raises(UsageError) as caught:
        model_backend(config(**options), BackendEvidence(), {"A_KEY": KEY})
    assert f"backends.a: {sentence}" in str(caught.value)


def test_a_header_that_is_a_secret_is_given_by_its_variable_and_not_by_its_value():
    text = '[[backends]]\nname = "a"\nkind = "openai"\n[backends.options.{}]\nauthorization = "{}"\n'
    assert read_config(text.format("header_env", "PASS")).config.backends[0].options
    with pytest.raises(ConfigError, match="secrets do not belong in this file"):
        read_config(text.format("headers", "Bearer x"))


def test_a_model_is_required():
    with pytest.raises(UsageError, match=r"backends\.a: model is missing"):
        model_backend(BackendConfig(name="a", kind="openai"), BackendEvidence(), {})


@pytest.mark.parametrize("key", ["two\nlines", " padded ", "schlüssel"])
def test_an_invalid_key_is_reported_by_its_variable(key: str):
    with pytest.raises(UsageError) as caught:
        model_backend(config(), BackendEvidence(), {"A_KEY": key})
    assert "ACCORD_KEY_A or A_KEY should hold" in str(caught.value)
    assert key.strip() not in str(caught.value)


@pytest.mark.parametrize(("kind", "api"), [(kind, api) for kind, named in APIS.items() for api in named])
def test_each_api_can_be_configured_and_hides_its_key(kind: str, api: str):
    pytest.importorskip(APIS[kind][api][0])
    made = config(kind, api=api, connect_s=1, retries=0, headers={"X-Team": "a"}, header_env={"X-Pass": "PASS"})
    backend = model_backend(made, BackendEvidence(), {"A_KEY": KEY, "PASS": "hidden"})
    assert backend.model == "m"
    assert len(backend.manifest) > 3
    assert KEY not in repr(vars(backend)["_endpoint"])


def test_evidence_counts_in_order_of_its_layers():
    native, missing = SupportLevel.NATIVE, SupportLevel.UNSUPPORTED
    known = BackendEvidence(
        declared={"tool_use": Evidence(missing, "operator")},
        probed={"tool_use": Evidence(native, "probe"), "image_input": Evidence(missing, "probe", "2026-01-01")},
        facts={"image_input": Evidence(native, "facts"), "audio": Evidence(native, "facts")},
    )
    evidence = model_backend(config(), known, {}).evidence
    assert [evidence[name].source for name in ("tool_use", "image_input", "audio")] == ["operator", "probe", "facts"]


def test_earlier_reasoning_is_declared_only_where_the_api_has_a_field_for_it():
    declared = BackendEvidence(declared={"reasoning_history": Evidence(SupportLevel.NATIVE, "operator")})
    with pytest.raises(UsageError, match=r"a: reasoning_history is native, but .* set the option reasoning_field"):
        model_backend(config(), declared, {})
    for named in (config(reasoning_field="reasoning"), config("groq"), config("anthropic"), config(api="responses")):
        assert "reasoning_history" in model_backend(named, declared, {}).manifest
    missing = BackendEvidence(declared={"reasoning_history": Evidence(SupportLevel.UNSUPPORTED, "operator")})
    assert model_backend(config(), missing, {}).manifest


TWO = '# keep\n[[backends]]\nname = "a"\nkind = "echo"\n\n  [[backends]]\n  name = "b" # me\n  kind = "echo"'


def test_adding_the_probed_line_changes_no_other_line():
    assert add_probed_line(TWO, 1, "b.json") == TWO.replace("# me\n", '# me\n  probed = "b.json"\n')


@pytest.mark.parametrize(
    "text",
    ['backends = [{name = "a", kind = "echo"}]', 'backends = [\n{kind = "echo",\nname = "a"}\n]'],
    ids=["on one line", "inside an array"],
)
def test_a_configuration_without_a_place_for_the_line_is_not_changed(text: str):
    assert add_probed_line(text, 0, "a.json") is None


@pytest.mark.parametrize(
    ("proxy", "excepted", "kind"),
    [
        (None, None, DirectUpstream),
        ("http://127.0.0.1:9", None, AiohttpUpstream),
        ("socks5://127.0.0.1:9", None, AiohttpUpstream),
        ("http://127.0.0.1:9", "127.0.0.1", DirectUpstream),
    ],
)
def test_a_proxy_of_the_environment_needs_the_other_transport(
    proxy: str | None, excepted: str | None, kind: type, monkeypatch: pytest.MonkeyPatch
):
    for name, value in (("http_proxy", proxy), ("no_proxy", excepted)):
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert isinstance(make_upstream("direct", "http://127.0.0.1:1/v1", UpstreamTimeouts(), None), kind)
