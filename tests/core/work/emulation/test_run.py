"""Whole runs with a scripted backend: send, validate, send again, record."""

from typing import Any

import pytest

from accord.core.work.emulation.choose import EMULATIONS, choose_emulations, preset_config
from accord.core.work.emulation.run import EMPTY_ANSWER, EmulationRun, EmulationStage, add_usage
from accord.core.work.emulation.structured_output import StructuredOutput
from accord.core.work.emulation.tool_use import ToolUse
from accord.errors import ErrorCode, InvalidMessageError
from accord.wire.emulation import EmulationRecord
from accord.wire.work import EndPiece, TextPiece, ToolCallPiece, ToolSpec, WorkOrder
from tests.core.work.emulation.scripted import HELLO, joined, pieces, run, scripted, text_answer, texts_of

AGE = {"type": "object", "required": ["age"], "properties": {"age": {"type": "integer"}}}
ORDER = WorkOrder(conversation=HELLO, response_schema=AGE)


def test_a_good_answer_needs_one_attempt():
    backend, orders = scripted(text_answer('Here:\n{"age": 7}'))
    turn = EmulationRun(ORDER, [StructuredOutput()])
    assert list(run(turn, backend)) == [*pieces('{"age": 7}'), EndPiece()]
    assert turn.stage is EmulationStage.DONE
    assert turn.failure is None
    assert len(orders) == 1
    assert orders[0].response_schema is None
    assert turn.record.dump() == {
        "emulated": [
            {
                "capability": "structured_output_json_schema",
                "strategy": {"type": "post_processing", "detail": "Parse and validate JSON from text response"},
            }
        ],
        "attempts": [{"number": 1, "ok": True, "problems": []}],
        "effects": [
            {"capability": "structured_output_json_schema", "kind": "prompt_injected", "count": 1},
            {"capability": "structured_output_json_schema", "kind": "text_around_json", "count": 6},
        ],
    }


def test_a_bad_answer_is_requested_again_with_the_answer_and_the_problems():
    backend, orders = scripted(text_answer("seven"), text_answer('{"age": "7"}'), text_answer('{"age": 7}'))
    turn = EmulationRun(ORDER, [StructuredOutput()])
    assert joined(run(turn, backend)) == '{"age": 7}'
    assert [len(order.conversation.messages) for order in orders] == [2, 4, 6]
    answer, correction = orders[2].conversation.messages[-2:]
    assert (answer.role, texts_of(answer)) == ("assistant", ['{"age": "7"}'])
    assert correction.role == "user"
    assert '- /age: this value is not of type "integer"\n' in texts_of(correction)[0]
    assert [(attempt.number, attempt.ok) for attempt in turn.record.attempts] == [(1, False), (2, False), (3, True)]
    assert turn.record.attempts[1].capability == "structured_output_json_schema"
    assert EmulationRecord.model_validate(turn.record.dump()) == turn.record


def test_after_the_last_attempt_the_run_fails_and_nothing_is_sent_on():
    backend, orders = scripted(*[text_answer("never")] * 9)
    turn = EmulationRun(ORDER, [StructuredOutput(max_retries=1)])
    assert list(run(turn, backend)) == []
    assert len(orders) == 2
    assert turn.stage is EmulationStage.FAILED
    assert turn.failure is not None
    assert turn.failure.code is ErrorCode.EMULATION_FAILED
    assert turn.failure.attempts == 2
    assert turn.failure.message == (
        "structured_output_json_schema could not be emulated in 2 attempts: "
        "there is no complete JSON value in the answer"
    )


def test_each_emulation_has_its_own_retries_and_the_turn_is_bounded_by_their_sum():
    order = ORDER.model_copy(update={"tools": [ToolSpec(name="now")]})
    bad_call, bad_json = text_answer("<tool_call>"), text_answer("never")
    backend, orders = scripted(bad_call, bad_json, bad_call, bad_json, bad_call)
    turn = EmulationRun(order, [ToolUse(), StructuredOutput()])
    assert joined(run(turn, backend)) == ""
    assert len(orders) == 5
    assert turn.failure is not None
    assert turn.failure.code is ErrorCode.EMULATION_FAILED


def test_an_empty_answer_is_replaced_by_a_placeholder_in_the_retry():
    backend, orders = scripted(text_answer(), text_answer('{"age": 7}'))
    assert joined(run(EmulationRun(ORDER, [StructuredOutput()]), backend)) == '{"age": 7}'
    assert texts_of(orders[1].conversation.messages[-2]) == [EMPTY_ANSWER]


def test_the_usage_of_all_attempts_is_recorded_and_added_up():
    first = [TextPiece(text="no"), EndPiece(usage={"input": 5, "cache": {"read": 1}, "model": "m"})]
    second = [TextPiece(text='{"age": 7}'), EndPiece(usage={"input": 7, "cache": {"read": 2}, "model": "m"})]
    backend, _ = scripted(first, second)
    turn = EmulationRun(ORDER, [StructuredOutput()])
    assert list(run(turn, backend))[-1] == EndPiece(usage={"input": 12, "cache": {"read": 3}, "model": "m"})
    assert [attempt.usage and attempt.usage["input"] for attempt in turn.record.attempts] == [5, 7]


@pytest.mark.parametrize(
    ("before", "more", "both"),
    [
        (None, None, None),
        (None, {"a": 1}, {"a": 1}),
        ({"a": 1}, None, {"a": 1}),
        ({"a": 1}, {"a": 2.5, "b": 1}, {"a": 3.5, "b": 1}),
        ({"a": True}, {"a": False}, {"a": False}),
    ],
)
def test_usage_objects_are_added(before: Any, more: Any, both: Any):
    assert add_usage(before, more) == both


def test_an_answer_that_breaks_off_is_a_backend_failure_without_a_retry():
    backend, orders = scripted(pieces('{"age"'))
    turn = EmulationRun(ORDER, [StructuredOutput()])
    assert list(run(turn, backend)) == []
    assert turn.failure is not None
    assert turn.failure.code is ErrorCode.BACKEND_FAILED
    assert len(orders) == 1
    assert [attempt.ok for attempt in turn.record.attempts] == [False]


def test_pieces_after_the_end_are_not_part_of_the_answer():
    backend, _ = scripted([*text_answer('{"age": 7}'), TextPiece(text="more")])
    assert joined(run(EmulationRun(ORDER, [StructuredOutput()]), backend)) == '{"age": 7}'


def test_an_invalid_order_is_refused_before_anything_is_sent():
    with pytest.raises(InvalidMessageError, match="Not a valid response_schema"):
        EmulationRun(WorkOrder(response_schema={"type": 1}), [StructuredOutput()])


def test_without_emulations_the_answer_passes_unchanged():
    answer = text_answer("a", "b")
    backend, orders = scripted(answer)
    assert list(run(EmulationRun(ORDER, []), backend)) == answer
    assert orders[0] is ORDER


def test_two_runs_have_separate_records():
    first, second = EmulationRun(ORDER, []), EmulationRun(ORDER, [])
    list(run(first, scripted(text_answer("a"))[0]))
    assert [attempt.ok for attempt in first.record.attempts] == [True]
    assert second.record == EmulationRecord()


def test_all_emulations_of_the_preset_work_together():
    order = WorkOrder(
        conversation=HELLO, tools=[ToolSpec(name="now")], stop_sequences=["END"], stream=True, thinking=True
    )
    backend, orders = scripted(
        text_answer("<thinking>hm</thinking>Let me look. <tool_call>{now}</tool_call>"),
        text_answer('<tool_call>{"name": "now"}</tool_call>'),
    )
    chosen = choose_emulations(preset_config(), EMULATIONS)
    turn = EmulationRun(order, chosen.emulations)
    out = list(run(turn, backend))
    assert joined(out) == "Let me look. "
    assert out[-2:] == [ToolCallPiece(id="call_1", name="now", input={}), EndPiece(reason="tool_use")]
    assert all(message.role != "system" for message in orders[0].conversation.messages)
    assert [attempt.ok for attempt in turn.record.attempts] == [False, True]
