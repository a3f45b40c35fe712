"""How replies are judged: the rules as tables."""

import pytest

from accord.acp_tools.inspect.replies import (
    Answered,
    Gone,
    Refused,
    Reply,
    Silent,
    describe,
    judge_accepted,
    judge_answered,
    judge_cancelled,
    judge_empty,
    judge_error,
    judge_error_reply,
    judge_next,
    judge_noise,
    judge_rejected,
    judge_request_error,
    judge_session,
    judge_version,
    shorten,
)
from accord.wire.inspection import ContentFate

DONE = Answered({"stopReason": "end_turn"})
NO_KEY = Refused(-32603, "no key")
INVALID = Refused(-32602, "no images")
SILENT, GONE = Silent(1), Gone(1)


@pytest.mark.parametrize(
    ("reply", "baseline", "result", "sentence"),
    [
        (INVALID, DONE, "pass", "An image was rejected with -32602"),
        (INVALID, NO_KEY, "pass", "An image was rejected with -32602"),
        (INVALID, INVALID, "not_judged", "Plain text is refused with -32602 as well"),
        (NO_KEY, DONE, "fail", "An image was rejected with the wrong code, -32603 instead of -32602"),
        (Refused(-32600, ""), NO_KEY, "fail", "An image was rejected with the wrong code, -32600 instead of -32602"),
        (NO_KEY, NO_KEY, "not_judged", "The agent answers every prompt with an unrelated error: error -32603: no key"),
        (DONE, DONE, "fail", "An image was accepted or silently dropped"),
        (GONE, DONE, "fail", "The agent crashed"),
        (GONE, SILENT, "fail", "The agent crashed"),
        (SILENT, DONE, "fail", "The agent did not answer in time"),
        (
            SILENT,
            SILENT,
            "not_judged",
            "Plain text is not answered within 1 s either: a slow model needs a longer --timeout",
        ),
    ],
)
def test_the_verdict_on_content_that_must_be_rejected(reply: Reply, baseline: Reply, result: str, sentence: str):
    outcome = judge_rejected(reply, baseline, "An image")
    assert (outcome.result, outcome.sentence) == (result, sentence)


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        (DONE, "pass"),
        (INVALID, "fail"),
        (Refused(-32601, ""), "fail"),
        (NO_KEY, "not_judged"),
        (Refused(-32000, ""), "not_judged"),
        (Refused(None, ""), "not_judged"),
        (SILENT, "fail"),
        (GONE, "fail"),
    ],
)
def test_content_that_must_be_accepted_is_not_judged_if_the_agent_has_no_key(reply: Reply, result: str):
    assert judge_accepted(reply, DONE, "An image").result == result


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (Refused(-32000, ""), "needs authentication"),
        (NO_KEY, "The agent answered with an unrelated error"),
        (INVALID, "An image was refused"),
        (DONE, "An image was accepted"),
    ],
)
def test_the_verdict_on_content_that_must_be_accepted_says_why(reply: Reply, sentence: str):
    assert judge_accepted(reply, DONE, "An image").sentence.startswith(sentence)


def test_a_reply_that_plain_text_gets_too_is_not_judged():
    refusal = Answered({"stopReason": "refusal"})
    slow = f"Plain text is not answered within {SILENT.seconds:g} s either: a slow model needs a longer --timeout"
    assert judge_accepted(SILENT, SILENT, "Text").sentence == slow
    assert judge_empty(SILENT, SILENT).sentence == slow
    assert judge_rejected(SILENT, SILENT, "Audio").sentence == slow
    assert judge_accepted(refusal, refusal, "Text").result == "not_judged"
    assert judge_rejected(refusal, refusal, "Audio").result == "not_judged"
    assert judge_cancelled(NO_KEY, NO_KEY, 1).result == "not_judged"


def test_a_refusal_is_distinguished_from_dropping_the_content():
    outcome = judge_rejected(Answered({"stopReason": "refusal"}), DONE, "Audio")
    assert (str(outcome.result), outcome.sentence) == (
        "fail",
        "Audio ended the turn as refusal instead of with error -32602",
    )


def test_three_blank_lines_may_get_three_errors():
    assert judge_next(DONE, 3, "blank lines", lines=3).result == "pass"
    assert judge_next(DONE, 4, "blank lines", lines=3).result == "fail"


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        (Answered({"sessionId": "s"}), "pass"),
        (Answered({}), "fail"),
        (Answered(None), "fail"),
        (Refused(-32000, ""), "not_judged"),
        (NO_KEY, "not_judged"),
        (INVALID, "fail"),
        (SILENT, "fail"),
        (GONE, "fail"),
    ],
)
def test_the_verdict_on_session_new(reply: Reply, result: str):
    assert judge_session(reply).result == result


@pytest.mark.parametrize(
    ("reply", "offered", "supported", "result"),
    [
        (Answered({"protocolVersion": 1}), 65535, 1, "pass"),
        (Answered({"protocolVersion": 1}), 2, 1, "pass"),
        (Answered({"protocolVersion": 65535}), 65535, 1, "fail"),
        (Answered({"protocolVersion": "1"}), 1, 1, "fail"),
        (Answered({"protocolVersion": True}), 1, 1, "fail"),
        (Answered([]), 1, 1, "fail"),
        (Refused(-32022, ""), 1, 2, "pass"),
        (Refused(-32022, ""), 2, 1, "fail"),
        (INVALID, 65535, 1, "fail"),
        (SILENT, 1, 1, "fail"),
        (GONE, 1, 1, "fail"),
    ],
)
def test_the_verdict_on_the_chosen_version(reply: Reply, offered: int, supported: int, result: str):
    assert judge_version(reply, offered, supported=supported).result == result


@pytest.mark.parametrize(
    ("reply", "replies", "sentence"),
    [
        (DONE, 0, "After the line [] the next request is answered"),
        (NO_KEY, 1, "After the line [] the next request is answered"),
        (DONE, 2, "The line [] got 2 replies"),
        (SILENT, 1, "After the line [] the next request is not answered"),
        (GONE, 0, "The line [] ended the agent"),
    ],
)
def test_a_bad_line_may_get_one_reply(reply: Reply, replies: int, sentence: str):
    assert judge_next(reply, replies, "the line []").sentence == sentence


@pytest.mark.parametrize(
    ("codes", "result", "sentence"),
    [
        ([-32700], "pass", "Garbage got error -32700"),
        ([-32600], "fail", "Garbage got error -32600 instead of -32700"),
        ([], "fail", "Garbage got no reply"),
    ],
)
def test_the_verdict_on_the_error_reply_to_a_bad_line(codes: list[int | None], result: str, sentence: str):
    outcome = judge_error_reply(codes, -32700, "garbage")
    assert (outcome.result, outcome.sentence) == (result, sentence)


def test_an_error_reply_without_an_id_fails():
    outcome = judge_error_reply([-32700], -32700, "garbage", lacks_id=True)
    assert (str(outcome.result), outcome.sentence) == (
        "fail",
        "Garbage got error -32700 without the id null",
    )


@pytest.mark.parametrize(
    ("reply", "code", "result"),
    [
        (INVALID, None, "pass"),
        (Refused(-32601, ""), -32601, "pass"),
        (INVALID, -32601, "fail"),
        (DONE, None, "fail"),
        (SILENT, None, "fail"),
        (GONE, None, "fail"),
    ],
)
def test_a_call_that_must_fail_gets_an_error(reply: Reply, code: int | None, result: str):
    assert judge_error(reply, code, "It").result == result


def test_an_error_of_another_code_is_named_with_the_expected_one():
    assert judge_error(INVALID, -32601, "It").sentence == "It got error -32602 instead of -32601"


@pytest.mark.parametrize(
    ("reply", "after_s", "sentence"),
    [
        (Answered({"stopReason": "cancelled"}), 9, "The turn ended as cancelled"),
        (DONE, 9, "The turn ended as end_turn, not as cancelled"),
        (DONE, 0.1, "The turn ended as end_turn at about the time it was cancelled"),
        (NO_KEY, 1, "The cancelled turn ended with an error instead of the stop reason cancelled"),
        (SILENT, 9, "The turn went on after session/cancel"),
        (GONE, 1, "The agent crashed"),
    ],
)
def test_a_cancelled_turn_ends_as_cancelled(reply: Reply, after_s: float, sentence: str):
    assert judge_cancelled(reply, DONE, after_s).sentence == sentence


def test_an_empty_prompt_and_a_long_line_may_get_any_reply():
    for reply, result in ((DONE, "pass"), (INVALID, "pass"), (SILENT, "fail"), (GONE, "fail")):
        assert judge_empty(reply, DONE).result == result
        assert judge_answered(reply, "It").result == result


def test_noise_is_counted_and_its_first_line_quoted():
    assert judge_noise([]).result == "pass"
    outcome = judge_noise(["Welcome!", "more"])
    assert (outcome.sentence, outcome.observed) == ("2 lines on stdout were not messages", "the first: Welcome!")


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (DONE, "answered (end_turn)"),
        (Answered(None), "answered"),
        (Refused(-32000, ""), "error -32000"),
        (INVALID, "error -32602: no images"),
        (Silent(0.5), "no answer within 0.5 s"),
        (Gone(None), "the agent ended"),
        (Gone(3), "the agent ended with status 3"),
    ],
)
def test_every_reply_is_described_in_a_few_words(reply: Reply, text: str):
    assert describe(reply) == text


def test_secrets_long_texts_and_control_characters_are_not_reported():
    assert shorten("use sk-abcdefghijkl now") == "use [hidden] now"
    assert shorten("password is hunter22", ["hunter22", "", "is"]) == "password is [hidden]"
    assert shorten("a\n b\x1b[31m\x00") == "a b\ufffd[31m\ufffd"
    assert len(shorten("word " * 1000)) == 160


@pytest.mark.parametrize(
    ("fate", "declared", "undeclared"),
    [
        (
            ContentFate.ACCEPTED,
            ("pass", "An image was accepted and reached the model"),
            ("fail", "An image was accepted although it was not declared, and reached the model"),
        ),
        (
            ContentFate.DROPPED,
            ("fail", "An image did not reach the model: it was silently dropped"),
            ("fail", "An image did not reach the model: it was silently dropped"),
        ),
        (
            ContentFate.PLACEHOLDER,
            ("fail", "An image did not reach the model: it was replaced by a placeholder"),
            ("fail", "An image did not reach the model: it was replaced by a placeholder"),
        ),
        (
            None,
            ("pass", "An image was accepted"),
            ("fail", "An image was accepted or silently dropped"),
        ),
    ],
)
def test_the_fake_model_distinguishes_accepted_from_lost_content(
    fate: ContentFate | None, declared: tuple[str, str], undeclared: tuple[str, str]
):
    accepted, rejected = judge_accepted(DONE, DONE, "An image", fate), judge_rejected(DONE, DONE, "An image", fate)
    assert (str(accepted.result), accepted.sentence) == declared
    assert (str(rejected.result), rejected.sentence) == undeclared


@pytest.mark.parametrize(
    ("reply", "baseline", "result"),
    [
        (INVALID, DONE, "pass"),
        (Refused(-32002, "Not found"), DONE, "pass"),
        (Refused(-32603, "Internal error"), DONE, "fail"),
        (Refused(-32603, "no key"), Refused(-32603, "no key"), "not_judged"),
        (DONE, DONE, "fail"),
        (SILENT, DONE, "fail"),
    ],
)
def test_an_unrelated_error_is_no_rejection_of_a_wrong_request(reply: Reply, baseline: Reply, result: str):
    assert judge_request_error(reply, "A prompt to an unknown session", baseline=baseline).result == result
