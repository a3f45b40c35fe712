"""The file of model facts, the look-up in it, and what the shipped one holds."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts.model_claims import Claim, settle
from scripts.model_rules import RULES

from accord.backends import facts
from accord.backends.facts import (
    Catalogue,
    Dispute,
    Fact,
    FactSource,
    ModelFacts,
    SnapshotError,
    UnknownModel,
    catalogue,
)
from accord.backends.facts.providers import MAKERS, PROVIDERS, provider_name
from accord.backends.facts.snapshot import read_document, write_document
from accord.wire.capability import Capability

ROOM: Final = Path(catalogue.__file__).parent
LITELLM: Final = FactSource("litellm", "1.0", "2026-11-01", "build stamp", "MIT", "Copyright (c) 2026 Nobody")

CAPABILITIES: Final = frozenset(str(capability) for capability in Capability)
ALIASES: Final = frozenset({"vision", "function_calling"})


# The file

BAD_MODEL: Final = '{"format":1,"sources":[],"models":{"p":{"m":%s}}}'


@given(st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_anything_but_a_snapshot_is_a_snapshot_error(content: bytes | str):
    with pytest.raises(SnapshotError):
        read_document(content)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "not a snapshot of model facts"),
        ("[]", "not a snapshot of model facts"),
        ('{"format":1,"sources":[{"nmae":"x"}],"models":{}}', "nmae"),
        ('{"format":1,"sources":[],"models":[]}', "not a snapshot of model facts"),
        ('{"format":2,"sources":[],"models":{}}', "format 2, expected 1"),
    ],
)
def test_a_bad_snapshot_has_its_error(content: str, sentence: str):
    with pytest.raises(SnapshotError, match=sentence):
        read_document(content)


@pytest.mark.parametrize("statements", ['["0 +audio"]', '["x +audio"]', '["!0 +audio"]', "[1]", "null", '[""]'])
def test_a_statement_that_cannot_be_read_names_its_model(statements: str):
    with pytest.raises(SnapshotError, match="p/m"):
        Catalogue.read(BAD_MODEL % statements).find("p/m")


# The look-up


def small(*names: str) -> Catalogue:
    pairs = [name.split("/", 1) for name in names]
    claims = [Claim(provider, model, "audio", "native", LITELLM) for provider, model in pairs]
    return Catalogue.read(write_document(settle(claims), [LITELLM]))


SMALL: Final = small(
    "openai/gpt-4o",
    "azure/gpt-4o",
    "google/gemini-2.5-pro",
    "groq/openai/gpt-oss-120b",
    "baseten/openai/gpt-oss-120b",
    "nebius/Llama-3",
    "venice/llama-3",
    "groq/only-here",
)


@pytest.mark.parametrize(
    ("requested", "found"),
    [
        ("azure/gpt-4o", "azure/gpt-4o"),
        (" azure/gpt-4o ", "azure/gpt-4o"),
        ("gpt-4o", "openai/gpt-4o"),
        ("GPT-4o", "openai/gpt-4o"),
        ("Azure/GPT-4o", "azure/gpt-4o"),
        ("only-here", "groq/only-here"),
        ("gemini/gemini-2.5-pro", "google/gemini-2.5-pro"),
        ("groq/openai/gpt-oss-120b", "groq/openai/gpt-oss-120b"),
        ("Llama-3", "nebius/Llama-3"),
        ("llama-3", "venice/llama-3"),
    ],
)
def test_a_name_means_one_model(requested: str, found: str):
    model = SMALL.find(requested)
    assert isinstance(model, ModelFacts)
    assert model.name == found


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        (
            "openai/gpt-oss-120b",
            (
                "'openai/gpt-oss-120b' is offered by 2 providers, choose one: "
                "baseten/openai/gpt-oss-120b, groq/openai/gpt-oss-120b"
            ),
        ),
        ("LLAMA-3", "'LLAMA-3' is offered by 2 providers, choose one: nebius/Llama-3, venice/llama-3"),
        ("gpt-4oo", "no facts about a model named 'gpt-4oo'; did you mean openai/gpt-4o, azure/gpt-4o?"),
        ("azure/gpt4o", "no facts about a model named 'azure/gpt4o'; did you mean azure/gpt-4o?"),
        ("zzz", "no facts about a model named 'zzz'"),
        ("", "no facts about a model named ''"),
    ],
)
def test_an_ambiguous_or_unknown_name_gives_candidates(requested: str, message: str):
    unfound = SMALL.find(requested)
    assert isinstance(unfound, UnknownModel)
    assert unfound.message == message
    for candidate in unfound.candidates:
        assert isinstance(SMALL.find(candidate), ModelFacts)


def test_many_candidates_are_cut_short_in_the_sentence_but_not_in_the_value():
    crowd = small(*(f"p{number}/m" for number in range(20))).find("m")
    assert isinstance(crowd, UnknownModel)
    assert len(crowd.candidates) == 20
    assert crowd.message.endswith("p15/m, …")


def test_a_manifest_holds_the_known_and_leaves_out_the_unknown():
    known: Mapping[str, Fact] = {"audio": Fact("unsupported", "litellm 1.0", "2026-11-01")}
    assert ModelFacts("p", "m", known).manifest() == {"audio": "unsupported"}


# The shipped snapshot


def test_every_fact_has_a_level_a_listed_source_and_its_date():
    dates = {source.label: source.date for source in facts.shipped_catalogue().sources}
    for model in facts.shipped_catalogue().all_models():
        assert model.facts
        for fact in [
            *model.facts.values(),
            *(fact for dispute in model.disputed for fact in dispute.overruled),
        ]:
            assert fact.level in ("native", "unsupported")
            assert fact.date == dates[fact.source]


def shipped_capabilities() -> set[str]:
    return {name for model in facts.shipped_catalogue().all_models() for name in model.facts}


def test_the_snapshot_holds_only_known_capabilities_by_their_canonical_names():
    assert shipped_capabilities() <= CAPABILITIES - ALIASES


def test_models_and_their_facts_come_sorted():
    models = list(facts.shipped_catalogue().all_models())
    assert [(m.provider, m.model) for m in models] == sorted({(m.provider, m.model) for m in models})
    assert all(list(model.facts) == sorted(model.facts) for model in models)


def test_every_dispute_is_a_real_contradiction_about_the_fact_that_was_kept():
    disputes = [(model, dispute) for model in facts.shipped_catalogue().all_models() for dispute in model.disputed]
    assert disputes
    for model, dispute in disputes:
        assert isinstance(dispute, Dispute)
        assert dispute.kept == model.facts[dispute.capability]
        assert all(fact.level != dispute.kept.level for fact in dispute.overruled)


def test_every_provider_is_written_under_its_one_name():
    assert all(model.provider == provider_name(model.provider) for model in facts.shipped_catalogue().all_models())


def test_each_source_counts_its_facts_and_has_a_licence():
    sources, models = facts.shipped_catalogue().sources, list(facts.shipped_catalogue().all_models())
    assert len(models) > 5000
    assert sum(len(model.facts) for model in models) == sum(source.facts for source in sources)
    assert all(source.licence == "MIT" and source.copyright for source in sources)


def test_a_capability_without_a_source_stays_unknown():
    silent = CAPABILITIES - ALIASES - shipped_capabilities()
    assert {"logprobs", "seed_determinism", "stop_sequences", "tool_bash"} <= silent
    assert not any(silent & model.manifest().keys() for model in facts.shipped_catalogue().all_models())


@pytest.mark.parametrize("name", ["snapshot.json", "SOURCES.md"])
def test_the_data_holds_no_address(name: str):
    text = (ROOM / name).read_text("utf-8").lower()
    assert not [word for word in ("://", "www.", "pypi", "pythonhosted", "npmjs", "localhost") if word in text]


def test_the_file_is_small_and_is_exactly_what_would_be_written_again():
    content = (ROOM / "snapshot.json").read_bytes()
    assert len(content) < 1_500_000
    document = read_document(content)
    assert write_document(Catalogue(document).all_models(), document.sources).encode() == content


def test_sources_names_every_source_with_version_date_and_licence():
    page = (ROOM / "SOURCES.md").read_text("utf-8")
    for reported in facts.shipped_catalogue().sources:
        assert f"| {reported.name} | {reported.version} | {reported.date} ({reported.dated_by}) | MIT |" in page
        assert f"- {reported.name}: {reported.copyright}" in page


@pytest.mark.parametrize(
    ("name", "capability", "level"),
    [
        ("anthropic/claude-sonnet-4-5", "image_input", "native"),
        ("anthropic/claude-sonnet-4-5", "audio", "unsupported"),
        ("openai/gpt-4o", "tool_use", "native"),
        ("openai/gpt-3.5-turbo", "image_input", "unsupported"),
        ("google/gemini-2.5-pro", "audio", "native"),
        ("deepseek/deepseek-reasoner", "extended_thinking", "native"),
    ],
)
def test_facts_about_well_known_models_are_right(name: str, capability: str, level: str):
    model = facts.find_model(name)
    assert isinstance(model, ModelFacts)
    assert model.manifest()[capability] == level


def test_importing_facts_does_not_read_the_file():
    code = "from accord.backends.facts import catalogue as c; print(c.shipped_catalogue.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_rules_use_canonical_names_of_known_capabilities():
    assert {rule.capability for rules in RULES.values() for rule in rules} <= CAPABILITIES - ALIASES


def test_every_maker_and_every_normalised_provider_has_models_in_the_snapshot():
    present = {model.provider for model in facts.shipped_catalogue().all_models()}
    assert set(MAKERS.values()) <= present
    assert set(PROVIDERS.values()) <= present
