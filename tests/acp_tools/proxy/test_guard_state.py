"""The state of a guard (the handshake, unanswered calls, message numbers) and its findings."""

import json
from typing import Any

import pytest

from accord.acp_tools.proxy.guard import (
    IDS,
    LADDER,
    MAX_FINDINGS,
    NOT_SAVED,
    REFUSED,
    RPC,
    SHAPE,
    Guard,
    Mode,
    Severity,
    Side,
)
from accord.acp_tools.proxy.pending import MAX_PENDING, PendingCall, PendingCalls
from accord.acp_tools.shape import BEFORE_HANDSHAKE, read_handshake
from accord.core.prompt import ContentValidator
from tests.acp_tools.proxy.test_guard import IMAGE, TEXT, guard_after_handshake, line, prompt

NOTICE = b'{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"image"}]}}\n'


def answer(call_id: Any, result: Any = None, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": call_id, "result": result or {}, **more}).encode()


def found(findings: Any) -> list[tuple[Severity, str, str]]:
    return [(finding.severity, finding.clause, finding.sentence) for finding in findings]


NOT_DECLARED = "Block 1: Invalid content type: agent does not support image content"

PROMPTS: list[tuple[Mode, list[Any], list[tuple[Severity, str, str]], bool]] = [
    (Mode.GUARD, [TEXT, IMAGE], [(Severity.ERROR, REFUSED, NOT_DECLARED)], False),
    (Mode.OBSERVE, [TEXT, IMAGE], [(Severity.ERROR, REFUSED, NOT_DECLARED)], True),
    (
        Mode.ADAPT,
        [TEXT, {**IMAGE, "alt": "a"}],
        [
            (Severity.INFO, REFUSED, NOT_DECLARED),
            (Severity.INFO, LADDER, "described: an image was sent as its description"),
        ],
        True,
    ),
    (Mode.ADAPT, [TEXT, IMAGE], [(Severity.ERROR, REFUSED, NOT_DECLARED)], False),
]


@pytest.mark.parametrize(("mode", "blocks", "expected", "passes"), PROMPTS)
def test_the_findings_about_a_prompt(mode: Mode, blocks: list[Any], expected: Any, passes: bool):
    decision = guard_after_handshake(mode, {}).decide(prompt(*blocks))
    assert found(decision.findings) == expected
    assert {(finding.number, finding.side) for finding in decision.findings} == {(3, Side.EDITOR)}
    assert bool(decision.forward) is passes


@pytest.mark.parametrize("mode", Mode)
def test_malformed_content_is_a_finding_about_its_shape(mode: Mode):
    decision = guard_after_handshake(mode, {}).decide(prompt({"type": "image", "mimeType": "image/png"}))
    assert {finding.clause for finding in decision.findings} <= {SHAPE, REFUSED}
    assert SHAPE in {finding.clause for finding in decision.findings} or mode is Mode.GUARD
    assert bool(decision.forward) is (mode is Mode.OBSERVE)


@pytest.mark.parametrize("params", [b"7", b"{}", b'{"prompt":7}', b'{"prompt":null}'])
@pytest.mark.parametrize("mode", [Mode.GUARD, Mode.ADAPT])
def test_a_prompt_without_content_is_refused(mode: Mode, params: bytes):
    line = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":' + params + b"}\n"
    decision = guard_after_handshake(mode, {"image": True}).decide(line)
    assert decision.forward == b""
    assert json.loads(decision.reply)["error"]["code"] == -32602


@pytest.mark.parametrize(("mode", "passes"), [(Mode.GUARD, False), (Mode.ADAPT, False), (Mode.OBSERVE, True)])
def test_a_prompt_sent_as_a_notification_is_checked_and_gets_no_reply(mode: Mode, passes: bool):
    decision = guard_after_handshake(mode, {}).decide(NOTICE)
    assert decision.reply == b""
    assert decision.findings
    assert bool(decision.forward) is passes


def test_before_the_handshake_nothing_is_declared():
    decision = Guard().decide(prompt(IMAGE))
    assert found(decision.findings)[0] == (
        Severity.WARNING,
        REFUSED,
        "The prompt came before the agent declared anything",
    )
    assert decision.forward == b""


def test_after_the_handshake_there_is_no_warning_about_it():
    assert all(
        finding.severity is not Severity.WARNING
        for finding in guard_after_handshake(Mode.GUARD, {}).decide(prompt(IMAGE)).findings
    )


def test_a_later_handshake_replaces_an_earlier_one():
    guard = guard_after_handshake(Mode.GUARD, {"image": True})
    guard.decide(line("initialize", {}, 9))
    guard.check_agent([answer(9, {"protocolVersion": 1, "agentCapabilities": {}})])
    assert guard.decide(prompt(IMAGE)).forward == b""


def test_an_error_or_the_answer_to_another_call_is_no_handshake():
    guard = guard_after_handshake(Mode.GUARD, {"image": True})
    guard.decide(line("initialize", {}, 9))
    guard.check_agent([b'{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"x"}}'])
    guard.decide(line("session/new", {}, 10))
    guard.check_agent([answer(10, {"protocolVersion": 1, "agentCapabilities": {}})])
    assert guard.decide(prompt(IMAGE)).forward != b""


DECLARED = {"image": True}
HANDSHAKES: list[tuple[Any, int, bool]] = [
    ({"protocolVersion": 1, "agentCapabilities": {"promptCapabilities": DECLARED}}, 1, True),
    ({"agentCapabilities": {"promptCapabilities": DECLARED}}, 1, True),
    ({"protocolVersion": True, "agentCapabilities": {"promptCapabilities": DECLARED}}, 1, True),
    ({"protocolVersion": "2", "agentCapabilities": {"promptCapabilities": DECLARED}}, 1, True),
    ({"protocolVersion": 2, "capabilities": {"session": {"prompt": {"image": {}}}}}, 2, True),
    ({"protocolVersion": 2, "agentCapabilities": {"promptCapabilities": DECLARED}}, 2, False),
    ({"protocolVersion": 1, "capabilities": {"session": {"prompt": {"image": {}}}}}, 1, False),
    ({"protocolVersion": 1, "agentCapabilities": 7}, 1, False),
    ({"protocolVersion": 1, "agentCapabilities": {"promptCapabilities": [1]}}, 1, False),
    (7, 1, False),
    (None, 1, False),
]


@pytest.mark.parametrize(("result", "version", "images"), HANDSHAKES)
def test_a_handshake_of_any_shape_can_be_read(result: Any, version: int, images: bool):
    handshake = read_handshake(result)
    assert (handshake.version, handshake.is_done) == (version, True)
    assert handshake.validator.validate([IMAGE]).valid is images


def test_before_any_handshake_the_version_is_1():
    assert (BEFORE_HANDSHAKE.version, BEFORE_HANDSHAKE.is_done) == (1, False)
    assert BEFORE_HANDSHAKE.validator.validate([IMAGE]).error == ContentValidator(None).validate([IMAGE]).error


@pytest.mark.parametrize(("blocks", "expected"), [([IMAGE], 1), ([TEXT], 0)])
def test_an_agent_that_accepts_what_it_should_refuse_is_a_finding(blocks: list[Any], expected: int):
    guard = guard_after_handshake(Mode.OBSERVE, {})
    guard.decide(prompt(*blocks, call_id=5))
    findings = guard.check_agent([answer(5)]).findings
    sentence = "The agent accepted a prompt that it should have refused with -32602"
    assert found(findings) == [(Severity.ERROR, REFUSED, sentence)] * expected


def test_an_agent_that_refuses_what_it_should_is_no_finding():
    guard = guard_after_handshake(Mode.OBSERVE, {})
    guard.decide(prompt(IMAGE, call_id=5))
    assert guard.check_agent([b'{"jsonrpc":"2.0","id":5,"error":{"code":-32602,"message":"x"}}']).findings == []


def test_unexpected_and_duplicate_ids_are_findings_on_both_sides():
    unexpected = (Severity.WARNING, IDS, "No call with this id waits for an answer")
    duplicate = (Severity.WARNING, IDS, "Another call with this id has no answer yet")
    guard = guard_after_handshake(Mode.GUARD, {})
    assert found(guard.check_agent([answer(77)]).findings) == [unexpected]
    assert found(guard.decide(answer(77) + b"\n").findings) == [unexpected]
    assert guard.decide(line("session/new", {}, 5)).findings == ()
    assert found(guard.decide(line("session/new", {}, 5)).findings) == [duplicate]
    assert guard.check_agent([answer(5)]).findings == []
    assert found(guard.check_agent([answer(5)]).findings) == [unexpected]
    request = line("fs/read_text_file", {"sessionId": "s", "path": "/a"}, 5).strip()
    assert guard.check_agent([request]).findings == []
    assert found(guard.check_agent([request]).findings) == [duplicate]
    assert guard.decide(answer(5) + b"\n").findings == ()


def test_a_refused_prompt_is_not_pending():
    guard = guard_after_handshake(Mode.GUARD, {})
    guard.decide(prompt(IMAGE, call_id=5))
    assert guard.decide(prompt(TEXT, call_id=5)).findings == ()


@pytest.mark.parametrize("mode", Mode)
def test_messages_are_numbered_and_blank_lines_are_not(mode: Mode):
    guard = Guard(mode)
    lines = [line("x", {}), b"\n", b"  \r\n", line("y", {}), b"broken\n"]
    numbers = [(guard.decide(each), guard.number)[1] for each in lines]
    assert numbers == [1, 1, 1, 2, 3]
    assert guard.check_agent([b"", b" ", b"broken", b"broken"]).findings[-1].number == 5


def batch(*messages: bytes) -> bytes:
    return b"[" + b", ".join(message.strip() for message in messages) + b"]\r\n"


@pytest.mark.parametrize("version", [1, 2])
def test_a_batch_is_checked_message_by_message(version: int):
    guard = Guard()
    guard.decide(line("initialize", {"protocolVersion": version}, 0))
    result: dict[str, Any] = {"protocolVersion": version, "agentCapabilities": {}, "capabilities": {}}
    guard.check_agent([answer(0, result)])
    whole = batch(prompt(TEXT, call_id=1), line("x", {}, 2))
    decision = guard.decide(whole)
    assert decision.forward == whole, "a batch that passes is not rewritten"
    warning = (Severity.WARNING, RPC, "A batch, which protocol version 1 does not support")
    assert found(decision.findings) == ([warning] if version == 1 else [])
    decision = guard.decide(batch(prompt(IMAGE, call_id=3), line("x", {}, 4), b"7", prompt(IMAGE, call_id=5)))
    assert json.loads(decision.forward) == [json.loads(line("x", {}, 4))]
    assert decision.forward.endswith(b"]\r\n")
    assert [(reply["id"], reply["error"]["code"]) for reply in json.loads(decision.reply)] == [
        (3, -32602),
        (None, -32600),
        (5, -32602),
    ]
    assert decision.reply.endswith(b"]\n")


def test_a_batch_whose_messages_are_all_refused_is_not_sent():
    assert guard_after_handshake(Mode.GUARD, {}).decide(batch(prompt(IMAGE))).forward == b""


def test_a_batch_whose_files_cannot_be_saved_is_sent_without_them():
    guard = guard_after_handshake(Mode.ADAPT, {}, folder="/f")
    decision = guard.decide(
        batch(prompt(IMAGE, call_id=3), line("x", {}, 4), prompt({**IMAGE, "alt": "a cat"}, call_id=5))
    )
    assert [file.path for file in decision.files] == ["/f/prompt-3-0-image.png"] * 2
    assert decision.if_not_saved is not None
    assert [message["id"] for message in json.loads(decision.if_not_saved.forward)] == [4, 5]
    assert json.loads(decision.if_not_saved.forward)[1]["params"]["prompt"] == [
        {"type": "text", "text": "[image: a cat]"}
    ]
    rungs = [finding.sentence for finding in decision.if_not_saved.findings if finding.clause == LADDER]
    assert rungs == ["described: an image was sent as its description"]
    assert b'"code":-32602' in decision.if_not_saved.reply


def test_a_prompt_that_is_refused_because_it_cannot_be_saved_is_not_pending():
    guard = guard_after_handshake(Mode.ADAPT, {}, folder="/f")
    for sent in (prompt(IMAGE, call_id=3), batch(prompt(IMAGE, call_id=4), line("x", {}, 5))):
        refused = guard.decide(sent).if_not_saved
        assert refused is not None
        assert (Severity.ERROR, REFUSED, NOT_SAVED) in found(refused.findings)
        guard.forget_refused(refused.reply)
    assert json.loads(guard.fail_pending("It is gone"))["id"] == 5


def test_the_number_of_findings_about_one_line_is_limited():
    assert len(guard_after_handshake(Mode.GUARD, {}).decide(prompt(*[IMAGE] * 200)).findings) == MAX_FINDINGS
    described = [{**IMAGE, "alt": "a"}] * 200
    assert len(guard_after_handshake(Mode.ADAPT, {}).decide(prompt(*described)).findings) == MAX_FINDINGS


def test_the_oldest_pending_calls_are_dropped_and_then_any_id_is_accepted():
    pending = PendingCalls()
    for call_id in range(MAX_PENDING):
        assert pending.add(call_id, PendingCall("m"))
    assert pending.pop("unknown") is None
    assert pending.add("new", PendingCall("m"))
    assert pending.pop("new") == PendingCall("m")
    assert pending.pop(1) == PendingCall("m")
    assert pending.pop(0) == PendingCall("")
    assert pending.pop_all() == list(range(2, MAX_PENDING))
    assert pending.pop_all() == []


@pytest.mark.parametrize("mode", Mode)
def test_requests_without_an_answer_get_an_error_with_their_own_ids_except_in_observe(mode: Mode):
    guard = guard_after_handshake(mode, {})
    guard.decide(prompt(TEXT, call_id=5))
    guard.decide(line("session/new", {}, "x"))
    guard.decide(line("session/new", {}, None))
    guard.decide(line("session/new", {}, 2**70))
    guard.decide(b'{"jsonrpc":"2.0","method":"session/cancel"}\n')
    guard.check_agent([answer(5), line("fs/read_text_file", {}, 9).strip()])
    errors = [json.loads(error) for error in guard.fail_pending("It is gone").splitlines()]
    error = {"code": -32603, "message": "It is gone"}
    expected = [{"jsonrpc": "2.0", "id": call_id, "error": error} for call_id in ("x", None, 2**70)]
    assert errors == ([] if mode is Mode.OBSERVE else expected)
    assert guard.fail_pending("It is gone") == b""
