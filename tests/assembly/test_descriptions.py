"""Each backend of a configuration is described: its model, and the source and date of every entry of its manifest."""

from pathlib import Path

import pytest

from accord.agent import Agent
from accord.agents import demo, relay
from accord.assembly.parts import build_dispatcher
from accord.config import read_config

PROBE = '{"backend": "x", "model": "gpt-4o", "date": "2026-01-02", "found": {"logprobs": "unsupported"}}'
CONFIGS = {
    "operator": (
        'kind = "scripted"\nmanifest = "declared"\noverrides = { streaming = "native" }\noptions = { script = ["hi"] }',
        None,
        {"streaming": ("operator", None)},
    ),
    "echo": (
        'kind = "echo"',
        None,
        dict.fromkeys(("streaming", "system_message", "file_input"), ("echo", None)),
    ),
    "agent that is not started yet": (
        'kind = "acp"\noverrides = { streaming = "native" }\noptions = { command = ["some-agent"] }',
        None,
        {"streaming": ("operator", None)},
    ),
    "probe of a scripted model": (
        'kind = "scripted"\nmodel = "gpt-4o"\nprobed = "probe.json"\noptions = { script = ["hi"] }',
        "gpt-4o",
        {"logprobs": ("accord backends probe", "2026-01-02")},
    ),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_each_entry_of_a_manifest_has_its_source_and_date(tmp_path: Path, case: str):
    config, model, expected = CONFIGS[case]
    (tmp_path / "probe.json").write_text(PROBE)
    loaded = read_config(f'[[backends]]\nname = "x"\n{config}\n', str(tmp_path / "accord.toml"))
    described = build_dispatcher(loaded, relay).describe("x")
    assert described.model == model
    found = {name: (each.source, each.date) for name, each in described.evidence.items()}
    assert {name: found.get(name) for name in expected} == expected


def test_the_facts_about_a_model_are_dated():
    config = '[[backends]]\nname = "x"\nkind = "openai"\nmodel = "gpt-4o"\nbase_url = "http://127.0.0.1:9/v1"\n'
    dispatcher = build_dispatcher(read_config(config), relay)
    described = dispatcher.describe("x")
    assert described.model == "gpt-4o"
    assert set(described.evidence) == set(dispatcher.backends["x"].manifest)
    assert any(each.date for each in described.evidence.values())


@pytest.mark.parametrize(
    ("agent", "name", "source"), [(relay, "echo", "echo"), (demo, "demo-text", "demo"), (demo, "demo-vision", "demo")]
)
def test_a_built_in_backend_is_the_source_of_what_it_declares(agent: Agent, name: str, source: str):
    described = build_dispatcher(read_config(""), agent).describe(name)
    assert {each.source for each in described.evidence.values()} == {source}
