"""The pieces of an answer become one message."""

from accord.core.work.conversation import assistant_message, tool_result_message
from accord.wire.conversation import TextPart, ThinkingPart, ToolResultPart, ToolUsePart
from accord.wire.work import EndPiece, TextPiece, ThinkingPiece, ToolCallPiece

CALL = ToolCallPiece(id="1", name="add", input={"a": 1}, signature="seal of a call")


def test_consecutive_text_becomes_one_part_in_its_place_among_calls():
    pieces = [TextPiece(text="Let me "), TextPiece(text="see."), CALL, TextPiece(text="Then."), EndPiece()]
    assert assistant_message(pieces).content == [
        TextPart(text="Let me see."),
        ToolUsePart(id="1", name="add", input={"a": 1}, signature="seal of a call"),
        TextPart(text="Then."),
    ]


def test_a_signature_ends_the_reasoning_that_it_signs():
    pieces = [
        ThinkingPiece(text="First, "),
        ThinkingPiece(text="this."),
        ThinkingPiece(text="", signature="one"),
        ThinkingPiece(text="Then that."),
        ThinkingPiece(text="", signature="two"),
    ]
    assert assistant_message(pieces).content == [
        ThinkingPart(text="First, this.", signature="one"),
        ThinkingPart(text="Then that.", signature="two"),
    ]


def test_redacted_reasoning_is_a_part_of_its_own():
    pieces = [
        ThinkingPiece(text="Hm."),
        ThinkingPiece(text="", signature="opaque", redacted=True),
        TextPiece(text="Yes."),
    ]
    assert assistant_message(pieces).content == [
        ThinkingPart(text="Hm."),
        ThinkingPart(text="", signature="opaque", redacted=True),
        TextPart(text="Yes."),
    ]


def test_a_tool_result_names_its_call():
    message = tool_result_message(CALL, "2", is_error=True)
    assert message.content == [ToolResultPart(tool_use_id="1", content=[TextPart(text="2")], is_error=True)]
    assert tool_result_message(CALL, [TextPart(text="2")]).content == [
        ToolResultPart(tool_use_id="1", content=[TextPart(text="2")])
    ]
