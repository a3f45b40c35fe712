"""What adapt declares for the agent in its answer to `initialize`: one row for each kind of answer."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.acp_tools.proxy.guard import HALF_PAIR, LADDER, NOT_RAISED, Guard, Mode, ProxyFinding, Severity, Side
from tests.acp_tools.proxy.test_guard import IMAGE, line, prompt

ALL = ["image", "audio", "embeddedContext"]
TRUE = {"image": True, "audio": True, "embeddedContext": True}
OBJECTS: dict[str, Any] = {"image": {}, "audio": {}, "embeddedContext": {}}


def label(*flags: str, **more: Any) -> dict[str, Any]:
    return {"_meta": {**more, "accord.adapted": list(flags)}}


def v1(prompt: Any, **more: Any) -> dict[str, Any]:
    return {"protocolVersion": 1, "agentCapabilities": {"promptCapabilities": prompt, **more}}


def draft(prompt: Any, **more: Any) -> dict[str, Any]:
    return {"protocolVersion": 2, "capabilities": {"session": {"prompt": prompt, **more}}}


ROWS: dict[str, tuple[Any, Any]] = {
    "nothing is declared": (v1({}), v1({**TRUE, **label(*ALL)})),
    "one flag is declared": (v1({"audio": True}), v1({**TRUE, **label("image", "embeddedContext")})),
    "flags are false": (v1(dict.fromkeys(ALL, False)), v1({**TRUE, **label(*ALL)})),
    "flags are malformed": (v1({"image": "true", "audio": {}}), v1({**TRUE, **label(*ALL)})),
    "prompt capabilities are null": (v1(None), v1({**TRUE, **label(*ALL)})),
    "prompt capabilities are malformed": (v1([1]), v1({**TRUE, **label(*ALL)})),
    "prompt capabilities are absent": (
        {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}},
        v1({**TRUE, **label(*ALL)}, loadSession=True),
    ),
    "capabilities are absent": ({"protocolVersion": 1}, v1({**TRUE, **label(*ALL)})),
    "capabilities are null": ({"protocolVersion": 1, "agentCapabilities": None}, v1({**TRUE, **label(*ALL)})),
    "capabilities are malformed": ({"protocolVersion": 1, "agentCapabilities": 7}, v1({**TRUE, **label(*ALL)})),
    "other members are kept": (
        {**v1({"new": 1, "_meta": {"x": 2}}, _meta={"y": 3}), "agentInfo": {"name": "a"}, "_meta": None},
        {
            **v1({"new": 1, **TRUE, **label(*ALL, x=2)}, _meta={"y": 3}),
            "agentInfo": {"name": "a"},
            "_meta": None,
        },
    ),
    "_meta is malformed": (v1({"_meta": "x"}), v1({**TRUE, **label(*ALL)})),
    "the version is absent": (
        {"agentCapabilities": {}},
        {"agentCapabilities": {"promptCapabilities": {**TRUE, **label(*ALL)}}},
    ),
    "the version is malformed": (
        {**v1({}), "protocolVersion": "2"},
        {**v1({**TRUE, **label(*ALL)}), "protocolVersion": "2"},
    ),
    "the draft": (draft({}), draft({**OBJECTS, **label(*ALL)})),
    "the draft with one flag": (
        draft({"image": {"x": 1}}, delete={}),
        draft({**OBJECTS, "image": {"x": 1}, **label("audio", "embeddedContext")}, delete={}),
    ),
    "the draft with null": (draft(None), draft({**OBJECTS, **label(*ALL)})),
    "an unknown version is read like the draft": (
        {**draft({}), "protocolVersion": 99},
        {**draft({**OBJECTS, **label(*ALL)}), "protocolVersion": 99},
    ),
}

UNCHANGED: dict[str, Any] = {
    "the draft without sessions": {"protocolVersion": 2, "capabilities": {}},
    "the draft with null sessions": {"protocolVersion": 2, "capabilities": {"session": None}},
    "the draft with malformed sessions": {"protocolVersion": 2, "capabilities": {"session": True}},
    "version 2 with the members of version 1": {**v1({}), "protocolVersion": 2},
    "a result that is no object": [v1({})],
    "a null result": None,
}


def guard_that_waits(mode: Mode = Mode.ADAPT, **parts: Any) -> Guard:
    guard = Guard(mode, **parts)
    guard.decide(line("initialize", {"protocolVersion": 1}, 0))
    return guard


def answer(result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 0, "result": result, "x-more": 1}).encode()


def finding(severity: Severity, sentence: str) -> ProxyFinding:
    return ProxyFinding(2, Side.AGENT, severity, LADDER, sentence)


@pytest.mark.parametrize("name", ROWS)
def test_adapt_declares_what_the_agent_did_not(name: str):
    result, expected = ROWS[name]
    block = guard_that_waits().check_agent([b"", answer(result) + b"\r"])
    assert list(block.rewritten) == [1]
    assert block.rewritten[1].endswith(b"}\r")
    sent = json.loads(block.rewritten[1])
    assert sent == {"jsonrpc": "2.0", "id": 0, "result": expected, "x-more": 1}
    assert list(sent) == ["jsonrpc", "id", "result", "x-more"]
    capabilities = next(expected[key] for key in ("agentCapabilities", "capabilities") if key in expected)
    flags = (capabilities.get("promptCapabilities") or capabilities["session"]["prompt"])["_meta"]["accord.adapted"]
    assert block.findings == [finding(Severity.INFO, f"declared for the agent, to be adapted: {', '.join(flags)}")]


@pytest.mark.parametrize("name", UNCHANGED)
def test_an_answer_in_which_nothing_can_be_declared_passes_unchanged_with_a_finding(name: str):
    block = guard_that_waits().check_agent([answer(UNCHANGED[name])])
    assert block.rewritten == {}
    assert block.findings == [finding(Severity.WARNING, NOT_RAISED)]


@pytest.mark.parametrize("result", [v1(TRUE), draft(OBJECTS)])
def test_an_answer_that_declares_everything_passes_unchanged(result: Any):
    block = guard_that_waits().check_agent([answer(result)])
    assert (block.rewritten, block.findings) == ({}, [])


@pytest.mark.parametrize("mode", [Mode.GUARD, Mode.OBSERVE])
@pytest.mark.parametrize("result", [row[0] for row in ROWS.values()] + list(UNCHANGED.values()))
def test_only_adapt_declares_anything(mode: Mode, result: Any):
    block = guard_that_waits(mode).check_agent([answer(result)])
    assert (block.rewritten, block.findings) == ({}, [])


def test_an_error_and_the_answers_to_other_calls_pass_unchanged():
    guard = guard_that_waits()
    error = b'{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"x"}}'
    assert guard.check_agent([error]).rewritten == {}
    guard.decide(line("session/new", {}, 0))
    assert guard.check_agent([answer(v1({}))]).rewritten == {}


def test_every_answer_to_initialize_is_rewritten_also_in_a_batch():
    guard = guard_that_waits()
    assert guard.check_agent([answer(v1({}))]).rewritten
    guard.decide(line("initialize", {"protocolVersion": 1}, 0))
    [(index, changed)] = guard.check_agent([b"", answer(v1({"image": True}))]).rewritten.items()
    assert index == 1
    assert json.loads(changed)["result"] == v1({**TRUE, **label("audio", "embeddedContext")})
    guard.decide(line("initialize", {"protocolVersion": 2}, 0))
    other = b'{"jsonrpc": "2.0",  "id":5,"result":1.50}'
    rewritten = guard.check_agent([b"[" + other + b", " + answer(draft({})) + b"]"]).rewritten[0]
    assert other in rewritten
    assert json.loads(rewritten)[1]["result"] == draft({**OBJECTS, **label(*ALL)})


@pytest.mark.parametrize("result", [v1({"audio": True}), draft({"audio": {}})])
def test_the_guard_keeps_what_the_agent_declared_itself(result: Any):
    guard = guard_that_waits(folder="/f")
    guard.check_agent([answer(result)])
    assert set(guard.handshake.validator.declaration.accepted) == {"text", "resource_link", "audio"}
    sent = json.loads(guard.decide(prompt(IMAGE)).forward)["params"]["prompt"]
    assert sent[0]["type"] == "resource_link"


def test_two_proxies_in_a_row_declare_once():
    inner = guard_that_waits().check_agent([answer(v1({}))]).rewritten[0]
    assert guard_that_waits().check_agent([inner]).rewritten == {}


def test_half_of_a_surrogate_pair_in_the_answer_does_not_hide_the_declaration():
    text = answer({**v1({}), "agentInfo": {"name": "\ud83d", "version": "1"}})
    for mode in Mode:
        guard = guard_that_waits(mode, folder="/f")
        block = guard.check_agent([text])
        assert guard.handshake.is_done
        assert HALF_PAIR in [found.sentence for found in block.findings]
        assert bool(block.rewritten) is (mode is Mode.ADAPT)
        if block.rewritten:
            sent = json.loads(block.rewritten[0])["result"]
            assert sent == {**v1({**TRUE, **label(*ALL)}), "agentInfo": {"name": "\ufffd", "version": "1"}}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values, st.sampled_from([1, 2, 0, -1, 3, "1", None]))
def test_a_rewritten_answer_differs_only_in_the_prompt_capabilities(declared: Any, other: Any, version: Any):
    result = {**v1(declared, other=other), **draft(declared, other=other), "protocolVersion": version, "other": other}
    block = guard_that_waits().check_agent([answer(result)])
    for rewritten in block.rewritten.values():
        sent = json.loads(rewritten)["result"]
        assert sent != result
        sent["agentCapabilities"]["promptCapabilities"] = sent["capabilities"]["session"]["prompt"] = declared
        assert sent == result
