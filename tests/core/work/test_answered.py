"""Pieces of an answer as the message that they were."""

from accord.core.work.conversation import assistant_message, tool_result_message
from accord.wire.conversation import TextPart, ThinkingPart, ToolResultPart, ToolUsePart
from accord.wire.work import EndPiece, TextPiece, ThinkingPiece, ToolCallPiece

CALL = ToolCallPiece(id="1", name="add", input={"a": 1}, signature="seal of a call")


def test_text_in_pieces_is_one_part_and_keeps_its_place_among_calls():
    pieces = [TextPiece(text="Let me "), TextPiece(text="see."), CALL, TextPiece(text="Then."), EndPiece()]
    assert assistant_message(pieces).content == [
        TextPart(text="Let me see."),
        ToolUsePart(id="1", name="add", input={"a": 1}, signature="seal of a call"),
        TextPart(text="Then."),
    ]


def test_a_seal_ends_the_reasoning_that_it_seals():
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


def test_reasoning_that_is_not_shown_stands_alone():
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


def test_a_result_belongs_to_its_call():
    told = tool_result_message(CALL, "2", is_error=True)
    assert told.content == [ToolResultPart(tool_use_id="1", content=[TextPart(text="2")], is_error=True)]
    assert tool_result_message(CALL, [TextPart(text="2")]).content == [
        ToolResultPart(tool_use_id="1", content=[TextPart(text="2")])
    ]
