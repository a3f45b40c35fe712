"""What a guard remembers of a conversation: the handshake, calls without an answer, numbers; and what it notices."""

import json
from typing import Any

import pytest

from accord.acp_tools.proxy.guard import (
    IDS,
    LADDER,
    MAX_FINDINGS,
    MAX_WAITING,
    REFUSED,
    RPC,
    SHAPE,
    Asked,
    Guard,
    Mode,
    Waiting,
)
from accord.acp_tools.proxy.shape import BEFORE, read_handshake
from accord.acp_tools.trace.writer import ProxyFinding, Severity, Side
from accord.core.prompt import ContentValidator
from tests.acp_tools.proxy.test_guard import IMAGE, TEXT, line, met, prompt

NOTICE = b'{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"image"}]}}\n'


def answer(own: Any, result: Any = None, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": own, "result": result or {}, **more}).encode()


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
            (Severity.ERROR, REFUSED, NOT_DECLARED),
            (Severity.INFO, LADDER, "described: an image was sent as its description"),
        ],
        True,
    ),
    (Mode.ADAPT, [TEXT, IMAGE], [(Severity.ERROR, REFUSED, NOT_DECLARED)], False),
]


@pytest.mark.parametrize(("mode", "blocks", "expected", "passes"), PROMPTS)
def test_what_is_noticed_about_a_prompt(mode: Mode, blocks: list[Any], expected: Any, passes: bool):
    step = met(mode, {}).from_editor(prompt(*blocks))
    assert found(step.findings) == expected
    assert {(finding.number, finding.side) for finding in step.findings} == {(3, Side.EDITOR)}
    assert bool(step.forward) is passes


@pytest.mark.parametrize("mode", Mode)
def test_malformed_content_is_noticed_by_its_shape(mode: Mode):
    step = met(mode, {}).from_editor(prompt({"type": "image", "mimeType": "image/png"}))
    assert {finding.clause for finding in step.findings} <= {SHAPE, REFUSED}
    assert SHAPE in {finding.clause for finding in step.findings} or mode is Mode.GUARD
    assert bool(step.forward) is (mode is Mode.OBSERVE)


@pytest.mark.parametrize("params", [b"7", b"{}", b'{"prompt":7}', b'{"prompt":null}'])
@pytest.mark.parametrize("mode", [Mode.GUARD, Mode.ADAPT])
def test_a_prompt_without_content_is_refused(mode: Mode, params: bytes):
    asked = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":' + params + b"}\n"
    step = met(mode, {"image": True}).from_editor(asked)
    assert step.forward == b""
    assert json.loads(step.back)["error"]["code"] == -32602


@pytest.mark.parametrize(("mode", "passes"), [(Mode.GUARD, False), (Mode.ADAPT, False), (Mode.OBSERVE, True)])
def test_a_notice_is_checked_as_a_call_is_and_gets_no_answer(mode: Mode, passes: bool):
    step = met(mode, {}).from_editor(NOTICE)
    assert step.back == b""
    assert step.findings
    assert bool(step.forward) is passes


def test_before_the_handshake_nothing_is_declared():
    step = Guard().from_editor(prompt(IMAGE))
    assert found(step.findings)[0] == (
        Severity.WARNING,
        REFUSED,
        "The prompt came before the agent declared anything",
    )
    assert step.forward == b""


def test_after_the_handshake_nobody_is_told_that_it_is_missing():
    assert all(
        finding.severity is not Severity.WARNING for finding in met(Mode.GUARD, {}).from_editor(prompt(IMAGE)).findings
    )


def test_a_later_handshake_replaces_an_earlier_one():
    guard = met(Mode.GUARD, {"image": True})
    guard.from_editor(line("initialize", {}, 9))
    guard.from_agent([answer(9, {"protocolVersion": 1, "agentCapabilities": {}})])
    assert guard.from_editor(prompt(IMAGE)).forward == b""


def test_a_failed_or_foreign_answer_is_no_handshake():
    guard = met(Mode.GUARD, {"image": True})
    guard.from_editor(line("initialize", {}, 9))
    guard.from_agent([b'{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"x"}}'])
    guard.from_editor(line("session/new", {}, 10))
    guard.from_agent([answer(10, {"protocolVersion": 1, "agentCapabilities": {}})])
    assert guard.from_editor(prompt(IMAGE)).forward != b""


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
def test_a_handshake_is_read_however_odd_it_is(result: Any, version: int, images: bool):
    handshake = read_handshake(result)
    assert (handshake.version, handshake.is_done) == (version, True)
    assert handshake.validator.validate([IMAGE]).valid is images


def test_before_any_handshake_version_1_is_spoken():
    assert (BEFORE.version, BEFORE.is_done) == (1, False)
    assert BEFORE.validator.validate([IMAGE]).error == ContentValidator(None).validate([IMAGE]).error


@pytest.mark.parametrize(("blocks", "expected"), [([IMAGE], 1), ([TEXT], 0)])
def test_an_agent_that_takes_what_it_should_refuse_is_noticed(blocks: list[Any], expected: int):
    guard = met(Mode.OBSERVE, {})
    guard.from_editor(prompt(*blocks, own=5))
    findings = guard.from_agent([answer(5)])
    sentence = "The agent took a prompt that it should have refused with -32602"
    assert found(findings) == [(Severity.ERROR, REFUSED, sentence)] * expected


def test_an_agent_that_refuses_what_it_should_is_not():
    guard = met(Mode.OBSERVE, {})
    guard.from_editor(prompt(IMAGE, own=5))
    assert guard.from_agent([b'{"jsonrpc":"2.0","id":5,"error":{"code":-32602,"message":"x"}}']) == []


def test_ids_that_nobody_waits_for_and_ids_used_twice_are_noticed_on_both_sides():
    nobody = (Severity.WARNING, IDS, "Nobody waits for an answer with this id")
    twice = (Severity.WARNING, IDS, "Another call with this id still waits for its answer")
    guard = met(Mode.GUARD, {})
    assert found(guard.from_agent([answer(77)])) == [nobody]
    assert found(guard.from_editor(answer(77) + b"\n").findings) == [nobody]
    assert guard.from_editor(line("session/new", {}, 5)).findings == ()
    assert found(guard.from_editor(line("session/new", {}, 5)).findings) == [twice]
    assert guard.from_agent([answer(5)]) == []
    assert found(guard.from_agent([answer(5)])) == [nobody]
    asked = line("fs/read_text_file", {}, 5).strip()
    assert guard.from_agent([asked]) == []
    assert found(guard.from_agent([asked])) == [twice]
    assert guard.from_editor(answer(5) + b"\n").findings == ()


def test_a_prompt_that_was_refused_waits_for_nothing():
    guard = met(Mode.GUARD, {})
    guard.from_editor(prompt(IMAGE, own=5))
    assert guard.from_editor(prompt(TEXT, own=5)).findings == ()


@pytest.mark.parametrize("mode", Mode)
def test_every_message_has_its_number_and_a_blank_line_has_none(mode: Mode):
    guard = Guard(mode)
    lines = [line("x", {}), b"\n", b"  \r\n", line("y", {}), b"broken\n"]
    numbers = [(guard.from_editor(each), guard.number)[1] for each in lines]
    assert numbers == [1, 1, 1, 2, 3]
    assert guard.from_agent([b"", b" ", b"broken", b"broken"])[-1].number == 5


def batch(*messages: bytes) -> bytes:
    return b"[" + b", ".join(message.strip() for message in messages) + b"]\r\n"


@pytest.mark.parametrize("version", [1, 2])
def test_a_batch_is_judged_message_by_message(version: int):
    guard = Guard()
    guard.from_editor(line("initialize", {"protocolVersion": version}, 0))
    result: dict[str, Any] = {"protocolVersion": version, "agentCapabilities": {}, "capabilities": {}}
    guard.from_agent([answer(0, result)])
    whole = batch(prompt(TEXT, own=1), line("x", {}, 2))
    step = guard.from_editor(whole)
    assert step.forward == whole, "a batch that passes is not written anew"
    warning = (Severity.WARNING, RPC, "A batch, which version 1 of the protocol does not know")
    assert found(step.findings) == ([warning] if version == 1 else [])
    step = guard.from_editor(batch(prompt(IMAGE, own=3), line("x", {}, 4), b"7", prompt(IMAGE, own=5)))
    assert json.loads(step.forward) == [json.loads(line("x", {}, 4))]
    assert step.forward.endswith(b"]\r\n")
    assert [(reply["id"], reply["error"]["code"]) for reply in json.loads(step.back)] == [
        (3, -32602),
        (None, -32600),
        (5, -32602),
    ]
    assert step.back.endswith(b"]\n")


def test_a_batch_of_which_nothing_is_left_is_not_sent():
    assert met(Mode.GUARD, {}).from_editor(batch(prompt(IMAGE))).forward == b""


def test_a_batch_whose_files_cannot_be_saved_goes_on_with_what_needs_none():
    guard = met(Mode.ADAPT, {}, folder="/f")
    step = guard.from_editor(batch(prompt(IMAGE, own=3), line("x", {}, 4), prompt({**IMAGE, "alt": "a cat"}, own=5)))
    assert [save.name for save in step.saves] == ["prompt-3-0-image.png", "prompt-3-0-image.png"]
    assert step.otherwise is not None
    assert [message["id"] for message in json.loads(step.otherwise.forward)] == [4, 5]
    assert json.loads(step.otherwise.forward)[1]["params"]["prompt"] == [{"type": "text", "text": "[image: a cat]"}]
    rungs = [finding.sentence for finding in step.otherwise.findings if finding.severity is Severity.INFO]
    assert rungs == ["described: an image was sent as its description"]
    assert b'"code":-32602' in step.otherwise.back


@pytest.mark.parametrize(
    ("mode", "side", "refuses"),
    [
        (Mode.GUARD, Side.EDITOR, True),
        (Mode.ADAPT, Side.EDITOR, True),
        (Mode.OBSERVE, Side.EDITOR, False),
        *((mode, Side.AGENT, False) for mode in Mode),
    ],
)
def test_a_line_too_long_is_refused_only_where_it_might_be_a_prompt(mode: Mode, side: Side, refuses: bool):
    guard = Guard(mode)
    step = guard.too_long(side)
    assert (guard.number, step.forward) == (1, b"")
    [finding] = step.findings
    assert (finding.number, finding.side, finding.clause) == (1, side, RPC)
    assert finding.severity is (Severity.ERROR if refuses else Severity.WARNING)
    assert (json.loads(step.back) if refuses else step.back) == (
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "The line is too long to be looked at"}}
        if refuses
        else b""
    )


def test_findings_about_one_line_are_bounded():
    assert len(met(Mode.GUARD, {}).from_editor(prompt(*[IMAGE] * 200)).findings) == MAX_FINDINGS
    described = [{**IMAGE, "alt": "a"}] * 200
    assert len(met(Mode.ADAPT, {}).from_editor(prompt(*described)).findings) == MAX_FINDINGS


def test_the_oldest_calls_are_forgotten_and_then_any_id_may_be_right():
    waiting = Waiting()
    for own in range(MAX_WAITING):
        assert waiting.ask(own, Asked("m"))
    assert waiting.settle("stranger") is None
    assert waiting.ask("new", Asked("m"))
    assert waiting.settle("new") == Asked("m")
    assert waiting.settle(1) == Asked("m")
    assert waiting.settle(0) == Asked("")


def test_a_finding_says_what_and_why_and_repeats_nothing_else():
    finding = ProxyFinding(1, Side.AGENT, Severity.ERROR, "clause", "sentence")
    assert finding.dump() == {"severity": "error", "clause": "clause", "sentence": "sentence"}
