"""What data sources claim about models, and which claim is kept when they contradict each other."""

from collections.abc import Iterable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts.model_claims import Claim, read_langchain, read_litellm, read_models_dev, settle

from accord.backends.facts import Catalogue, FactSource, Level
from accord.backends.facts.providers import PROVIDERS, provider_name
from accord.backends.facts.snapshot import write_document


def source(name: str, date: str = "2026-01-01") -> FactSource:
    return FactSource(name, "1.0", date, "build stamp", "MIT", "Copyright (c) 2026 Nobody")


def levels_of(claims: Iterable[Claim]) -> dict[str, str]:
    return {claim.capability: claim.level for claim in claims}


LITELLM: Final = source("litellm", "2026-11-01")
MODELS_DEV: Final = source("models-dev", "2026-05-01")
LANGCHAIN: Final = source("langchain-openai", "2026-10-01")


# Each source's own words


@pytest.mark.parametrize(
    ("entry", "facts_found"),
    [
        ({}, {}),
        ({"supports_vision": True}, {"image_input": "native"}),
        ({"supports_vision": False}, {"image_input": "unsupported"}),
        ({"supports_vision": None}, {}),
        ({"supports_vision": "true"}, {}),
        ({"supports_function_calling": True}, {"tool_use": "native"}),
        ({"supports_response_schema": True}, {"structured_output_json_schema": "native"}),
        ({"supports_pdf_input": True}, {"pdf_input": "native"}),
        ({"supports_reasoning": True}, {"extended_thinking": "native"}),
        ({"supports_prompt_caching": False}, {"cache_control": "unsupported"}),
        ({"supports_audio_input": True}, {"audio": "native"}),
        ({"supports_system_messages": False}, {"system_message": "unsupported"}),
        ({"supports_native_streaming": False}, {"streaming": "unsupported"}),
        ({"supports_web_search": True}, {"tool_web_search": "native"}),
        ({"supports_url_context": True}, {"tool_web_fetch": "native"}),
        ({"supported_modalities": ["text"]}, {"image_input": "unsupported", "audio": "unsupported"}),
        ({"supported_modalities": ["text", "image"]}, {"image_input": "native", "audio": "unsupported"}),
        ({"supported_modalities": []}, {}),
        (
            {"supports_vision": True, "supported_modalities": ["audio"]},
            {"image_input": "native", "audio": "native"},
        ),
        ({"supported_output_modalities": ["text", "image"]}, {"image_generation": "native"}),
        ({"supported_endpoints": ["/v1/batch"]}, {"batch_mode": "native"}),
        ({"supported_endpoints": ["/v1/responses"]}, {}),
        (
            {"supports_sampling_params": False},
            {"temperature": "unsupported", "top_p": "unsupported", "top_k": "unsupported"},
        ),
        ({"supports_sampling_params": True}, {}),
        ({"supports_assistant_prefill": True, "max_tokens": 8192}, {}),
    ],
)
def test_litellm_claims_only_fields_that_are_present(entry: dict[str, object], facts_found: dict[str, str]):
    data = {"gpt-x": {"litellm_provider": "openai", "mode": "chat", **entry}}
    assert levels_of(read_litellm(data, LITELLM)) == facts_found


@pytest.mark.parametrize(
    ("entry", "facts_found"),
    [
        ({}, {}),
        ({"tool_call": False, "reasoning": True}, {"tool_use": "unsupported", "extended_thinking": "native"}),
        ({"structured_output": False}, {"structured_output_json_schema": "unsupported"}),
        ({"temperature": False}, {"temperature": "unsupported"}),
        ({"attachment": True}, {}),
    ],
)
def test_models_dev_claims_yes_and_no(entry: dict[str, object], facts_found: dict[str, str]):
    modalities = {"modalities": {"input": ["text"], "output": ["text"]}}
    always = {"image_input": "unsupported", "audio": "unsupported", "image_generation": "unsupported"}
    data = {"openai": {"models": {"gpt-x": {**modalities, **entry}}}}
    assert levels_of(read_models_dev(data, MODELS_DEV)) == {**always, **facts_found}


@pytest.mark.parametrize(
    ("inputs", "image", "pdf"),
    [
        (["text"], "unsupported", None),
        (["text", "image"], "native", None),
        (["text", "image", "pdf"], "native", "native"),
    ],
)
def test_a_list_of_inputs_without_images_is_a_no_but_without_pdf_it_is_unknown(
    inputs: list[str], image: str, pdf: str | None
):
    data = {"openai": {"models": {"gpt-x": {"modalities": {"input": inputs, "output": ["text"]}}}}}
    found = levels_of(read_models_dev(data, MODELS_DEV))
    assert (found["image_input"], found.get("pdf_input")) == (image, pdf)


def test_langchains_overrides_for_a_whole_provider_are_left_out():
    profiles = {
        "gpt-x": {"tool_calling": True, "image_inputs": False, "pdf_inputs": True},
        "gpt-y": {"tool_calling": True, "pdf_inputs": False},
    }
    overrides = {"pdf_inputs": True, "gpt-y": {"pdf_inputs": False}}
    found = settle(read_langchain(profiles, overrides, "openai", LANGCHAIN))
    assert [model.manifest() for model in found] == [
        {"image_input": "unsupported", "tool_use": "native"},
        {"pdf_input": "unsupported", "tool_use": "native"},
    ]


@pytest.mark.parametrize(
    "claims",
    [
        read_litellm({"e": {"litellm_provider": "openai", "mode": "embedding", "supports_vision": True}}, LITELLM),
        read_litellm({"e": {"mode": "chat", "supports_vision": True}}, LITELLM),
        read_litellm({"e": ["not", "an", "object"]}, LITELLM),
        read_models_dev({"p": {"models": {"whisper": {"tool_call": False}}}}, MODELS_DEV),
        read_models_dev({"p": {"models": None}}, MODELS_DEV),
        read_models_dev(
            {"p": {"models": {"x-embed": {"modalities": {"input": ["text"], "output": ["text"]}}}}},
            MODELS_DEV,
        ),
        read_langchain({"img": {"text_outputs": False, "tool_calling": True}}, {}, "openai", LANGCHAIN),
    ],
)
def test_models_without_text_conversations_are_left_out(claims: Iterable[Claim]):
    assert levels_of(claims) == {}


@pytest.mark.parametrize(
    ("key", "provider", "name"),
    [
        ("gpt-x", "openai", "openai/gpt-x"),
        ("gemini/gemini-x", "gemini", "google/gemini-x"),
        ("vertex_ai/claude-x@001", "vertex_ai-anthropic_models", "google-vertex/claude-x@001"),
        ("gemini-x", "vertex_ai-language-models", "google-vertex/gemini-x"),
        ("groq/openai/gpt-oss", "groq", "groq/openai/gpt-oss"),
        ("azure/eu/gpt-x", "azure", "azure/gpt-x"),
        ("bedrock/us-gov-west-1/anthropic.claude-x", "bedrock", "amazon-bedrock/anthropic.claude-x"),
        ("bedrock/*/6-month-commitment/cohere.x", "bedrock", "amazon-bedrock/cohere.x"),
        ("us.anthropic.claude-x", "bedrock_converse", "amazon-bedrock/us.anthropic.claude-x"),
        (
            "fireworks_ai/accounts/fireworks/models/x",
            "fireworks_ai",
            "fireworks-ai/accounts/fireworks/models/x",
        ),
        ("wandb/us/model", "wandb", "wandb/us/model"),
    ],
)
def test_a_litellm_key_becomes_the_pair_of_provider_and_model(key: str, provider: str, name: str):
    data = {key: {"litellm_provider": provider, "mode": "chat", "supports_vision": True}}
    assert [model.name for model in settle(read_litellm(data, LITELLM))] == [name]


# Settlement

YES: Final = "native"
NO: Final = "unsupported"


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ((MODELS_DEV, NO), (LITELLM, YES), MODELS_DEV),
        ((LANGCHAIN, YES), (LITELLM, NO), LANGCHAIN),
        ((LANGCHAIN, YES), (MODELS_DEV, NO), LANGCHAIN),
        ((source("langchain-xai", "2026-04-01"), YES), (MODELS_DEV, NO), MODELS_DEV),
    ],
)
def test_of_two_contradicting_sources_the_better_is_kept_and_the_other_recorded(
    first: tuple[FactSource, Level], second: tuple[FactSource, Level], kept: FactSource
):
    claims = [Claim("p", "m", "audio", level, who) for who, level in (first, second)]
    (model,) = settle(claims)
    assert model == settle(reversed(claims))[0]
    assert model.facts["audio"].source == kept.label
    (dispute,) = model.disputed
    assert dispute.kept == model.facts["audio"]
    assert {dispute.kept.source, *(fact.source for fact in dispute.overruled)} == {
        first[0].label,
        second[0].label,
    }


def test_sources_that_agree_are_no_dispute():
    (model,) = settle([Claim("p", "m", "audio", YES, LITELLM), Claim("p", "m", "audio", YES, MODELS_DEV)])
    assert model.disputed == ()


def test_a_source_that_contradicts_itself_is_read_as_a_no():
    (model,) = settle([Claim("p", "m", "audio", YES, LITELLM), Claim("p", "m", "audio", NO, LITELLM)])
    assert model.facts["audio"].level == "unsupported"
    assert len(model.disputed) == 1


WORDS = st.sampled_from(["a", "B/c", "ü", 'q"\\', "x:1"])
CLAIMS = st.lists(
    st.builds(
        Claim,
        WORDS,
        WORDS,
        st.sampled_from(["audio", "tool_use"]),
        st.sampled_from([YES, NO]),
        st.sampled_from([LITELLM, MODELS_DEV, LANGCHAIN]),
    )
)


@given(CLAIMS)
def test_every_claimed_capability_of_a_model_becomes_one_fact(claims: list[Claim]):
    content_message = {(claim.provider, claim.model, claim.capability) for claim in claims}
    settled = settle(claims)
    assert {(model.provider, model.model, name) for model in settled for name in model.facts} == content_message
    claimed = {(c.provider, c.model, c.capability, c.level, c.source.label) for c in claims}
    for model in settled:
        for name, fact in model.facts.items():
            assert (model.provider, model.model, name, fact.level, fact.source) in claimed


@given(CLAIMS)
def test_writing_and_reading_a_snapshot_loses_nothing(claims: list[Claim]):
    models = settle(claims)
    text = write_document(models, [LITELLM, MODELS_DEV, LANGCHAIN])
    assert list(Catalogue.read(text).all_models()) == models
    assert write_document(models, [LITELLM, MODELS_DEV, LANGCHAIN]) == text


def test_normalising_a_provider_twice_changes_nothing():
    for name in [*PROVIDERS, *PROVIDERS.values(), "vertex_ai-openai_models", "Groq"]:
        assert provider_name(provider_name(name)) == provider_name(name)
