"""The vocabulary: known names, unknown names, aliases, spellings (decision 15)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from accord.wire.capability import ALIASES, MAX_NAME_CHARS, MEANINGS, Capability, pascal_case
from accord.wire.manifest import CapabilityManifest, CapabilityRequirement

THE_41 = """streaming tool_read tool_write tool_edit tool_bash tool_glob tool_grep tool_web_search tool_web_fetch
tool_ask_user hooks_pre_tool_use hooks_post_tool_use session_resume session_fork checkpointing
structured_output_json_schema mcp_client mcp_server tool_use extended_thinking image_input pdf_input code_execution
logprobs seed_determinism stop_sequences function_calling vision audio json_mode system_message temperature top_p top_k
max_tokens frequency_penalty presence_penalty cache_control batch_mode embeddings image_generation""".split()


def test_decision_15_the_known_capabilities_have_names_and_meanings():
    assert [str(capability) for capability in Capability] == THE_41
    assert set(MEANINGS) == set(Capability)
    assert all(meaning and "\n" not in meaning for meaning in MEANINGS.values())


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("tool_read", "ToolRead"),
        ("structured_output_json_schema", "StructuredOutputJsonSchema"),
        ("top_p", "TopP"),
        ("mcp_client", "McpClient"),
        ("logprobs", "Logprobs"),
        ("time_travel", "TimeTravel"),
    ],
)
def test_reports_spell_names_in_pascal_case(name: str, spelled: str):
    assert pascal_case(name) == spelled


@given(st.lists(st.from_regex("[a-z][a-z0-9]*[a-z]", fullmatch=True), min_size=1, max_size=4))
def test_decision_11_the_spelling_of_reports_is_read_back(words: list[str]):
    name = "_".join(words)[:MAX_NAME_CHARS].rstrip("_")
    requirement = {"capability": pascal_case(name), "min_support": "native"}
    assert CapabilityRequirement.model_validate(requirement).capability == name


def test_decision_15_an_unknown_name_is_kept():
    manifest = CapabilityManifest.model_validate({"time_travel": "native"})
    assert manifest.model_dump() == {"time_travel": "native"}
    assert CapabilityRequirement.model_validate({"capability": "time_travel", "min_support": "native"})


@pytest.mark.parametrize("name", ["", "time-travel", "time travel", "1st", "_x", "x" * 129, "é"])
def test_decision_15_a_name_is_a_word_or_several(name: str):
    with pytest.raises(ValidationError):
        CapabilityManifest.model_validate({name: "native"})


def test_decision_15_aliases_are_one_table_in_both_directions():
    assert {frozenset(pair) for pair in ALIASES.items()} == {
        frozenset({"vision", "image_input"}),
        frozenset({"function_calling", "tool_use"}),
    }
    assert all(ALIASES[ALIASES[name]] == name for name in ALIASES)
