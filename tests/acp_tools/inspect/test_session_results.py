"""What agents answer about sessions, without an agent: one table for each question."""

from typing import Any

import pytest

from accord.acp_tools.inspect.replies import Answered, Gone, Refused, Silent
from accord.acp_tools.inspect.session_results import (
    auth_methods_fault,
    choose_option,
    config_fault,
    judge_closed_turn,
    judge_declared,
    judge_login,
    judge_replay,
    judge_unknown,
    message_text,
    read_config_options,
    read_modes,
)
from accord.wire.inspection import Level, Result


def chunk(kind: str, text: str) -> dict[str, Any]:
    return {"sessionUpdate": f"{kind}_message_chunk", "content": {"type": "text", "text": text}}


USER, AGENT = chunk("user", "Say ok (marker)"), chunk("agent", "ok it is")


@pytest.mark.parametrize(
    ("before", "after", "result", "level", "sentence"),
    [
        ([USER, AGENT], [], Result.PASS, None, "The conversation was replayed before session/load was answered"),
        (
            [chunk("user", "Say ok (mar"), chunk("user", "ker)"), chunk("agent", "ok\nit "), chunk("agent", "is")],
            [],
            Result.PASS,
            None,
            "The conversation was replayed before session/load was answered",
        ),
        ([], [], Result.FAIL, None, "The text of the user was not replayed"),
        ([AGENT], [], Result.FAIL, None, "The text of the user was not replayed"),
        ([USER], [], Result.FAIL, None, "The text of the agent was not replayed"),
        (
            [],
            [USER, AGENT],
            Result.FAIL,
            None,
            "The text of the user was replayed after session/load was answered, not before",
        ),
        (
            [USER],
            [AGENT],
            Result.FAIL,
            None,
            "The text of the agent was replayed after session/load was answered, not before",
        ),
        (
            [USER, chunk("agent", "ok")],
            [],
            Result.FAIL,
            Level.SHOULD,
            "Only a part of the text of the agent was replayed",
        ),
    ],
)
def test_a_replay_has_the_whole_conversation_before_the_response(
    before: list[Any], after: list[Any], result: Result, level: Level | None, sentence: str
):
    outcome = judge_replay(before, after, "marker", "ok it is")
    assert (outcome.result, outcome.level, outcome.sentence) == (result, level, sentence)


def test_updates_of_any_shape_have_text_or_none():
    assert (
        message_text([{}, {"sessionUpdate": "agent_message_chunk", "content": None}, AGENT], "agent_message_chunk")
        == "ok it is"
    )


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        (Refused(-32601, ""), Result.FAIL),
        (Refused(-32603, ""), Result.FAIL),
        (Refused(-32000, ""), Result.NOT_JUDGED),
        (Silent(1), Result.FAIL),
        (Gone(1), Result.FAIL),
    ],
)
def test_a_declared_method_has_to_work(reply: Any, result: Result):
    outcome = judge_declared(reply, "session/load")
    assert outcome is not None
    assert outcome.result is result
    assert judge_declared(Answered({}), "session/load") is None


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        (Refused(-32002, ""), Result.PASS),
        (Refused(-32602, ""), Result.PASS),
        (Refused(-32603, "Internal error (Session not found: x)"), Result.PASS),
        (Refused(-32603, "no rollout found for thread id"), Result.PASS),
        (Refused(-32603, "service failure"), Result.FAIL),
        (Refused(-32601, "Method not found"), Result.NOT_JUDGED),
        (Answered({}), Result.FAIL),
    ],
)
def test_an_error_about_something_unknown_says_so(reply: Any, result: Result):
    assert judge_unknown(reply, "session/load", "It").result is result


@pytest.mark.parametrize(
    ("reply", "result", "level"),
    [
        (Answered({"stopReason": "cancelled"}), Result.PASS, None),
        (Answered({"stopReason": "end_turn"}), Result.PASS, None),
        (Refused(-32603, ""), Result.FAIL, Level.SHOULD),
        (Silent(1), Result.FAIL, None),
        (Gone(1), Result.FAIL, None),
    ],
)
def test_closing_a_session_ends_its_turn(reply: Any, result: Result, level: Level | None):
    outcome = judge_closed_turn(reply)
    assert (outcome.result, outcome.level) == (result, level)


@pytest.mark.parametrize(
    ("modes", "fault"),
    [
        ({"currentModeId": "a", "availableModes": [{"id": "a"}, {"id": "b"}]}, None),
        (
            {"currentModeId": "c", "availableModes": [{"id": "a"}]},
            "The current mode 'c' is not one of the available modes",
        ),
        ({"currentModeId": "a", "availableModes": [{"id": "a"}, {"id": "a"}]}, "Two modes have the id 'a'"),
        ({"currentModeId": "a", "availableModes": "a"}, "The current mode 'a' is not one of the available modes"),
    ],
)
def test_modes_that_contradict_themselves_are_found(modes: Any, fault: str | None):
    offered = read_modes({"modes": modes})
    assert offered is not None
    assert offered.fault() == fault


@pytest.mark.parametrize("result", [None, {}, {"modes": None}, {"modes": []}, {"modes": {}}])
def test_a_result_without_modes_offers_none(result: Any):
    assert read_modes(result) is None


def select(name: str, current: str, *values: str, **members: Any) -> dict[str, Any]:
    options = [{"value": value, "name": value} for value in values]
    return {"id": name, "name": name, "type": "select", "currentValue": current, "options": options, **members}


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ([select("a", "x", "x", "y")], None),
        (
            [select("a", "x", options=[{"group": "g", "options": [{"value": "x"}]}, {"group": "h", "options": []}])],
            None,
        ),
        ([{"configId": "a", "type": "select", "currentValue": "x", "options": [{"value": "x"}]}], None),
        ([select("a", "x", "y")], "The current value 'x' of the option 'a' is not one of its values"),
        ([select("a", "x", "x", "x")], "The option 'a' has the value 'x' twice"),
        ([select("a", "x", "x"), select("a", "x", "x")], "Two config options have the id 'a'"),
        ([{"id": "a", "type": "_own", "currentValue": 3}], None),
    ],
)
def test_config_options_that_contradict_themselves_are_found(options: list[Any], fault: str | None):
    assert config_fault(read_config_options({"configOptions": options}), is_draft=False) == fault


def test_switches_need_a_declaration_of_the_client_in_version_1_only():
    switch = read_config_options({"configOptions": [{"id": "a", "type": "boolean", "currentValue": True}]})
    assert config_fault(switch, is_draft=False) == "The option 'a' is boolean, which the client did not declare"
    assert config_fault(switch, is_draft=True) is None


def test_an_option_that_is_not_the_model_is_set_if_there_is_one():
    model, other = select("m", "x", "x", "y", category="model"), select("o", "x", "x", "z")
    for options, expected in (([model, other], ("o", "z")), ([model], ("m", "y"))):
        chosen = choose_option(read_config_options({"configOptions": options}))
        assert chosen is not None
        assert (chosen[0].id, chosen[1]) == expected
    assert choose_option(read_config_options({"configOptions": [select("a", "x", "x")]})) is None


@pytest.mark.parametrize(
    ("methods", "is_draft", "fault"),
    [
        ([{"id": "a", "name": "A"}], False, None),
        ([{"id": "a", "name": "A", "type": "_own"}], False, None),
        ({}, False, "authMethods is not a list"),
        ([3], False, "A method of authMethods has no id that is text"),
        ([{"id": "a"}], False, "A method of authMethods has no name that is text"),
        ([{"id": "a", "name": "A"}] * 2, False, "Two methods of authMethods have the id 'a'"),
        (
            [{"id": "a", "name": "A", "type": "terminal"}],
            False,
            "The method 'a' needs a terminal, which the client did not declare",
        ),
        ([{"methodId": "a", "name": "A", "type": "agent"}], True, None),
        ([{"methodId": "a", "name": "A"}], True, "A method of authMethods has no type that is text"),
        ([{"id": "a", "name": "A", "type": "agent"}], True, "A method of authMethods has no methodId that is text"),
    ],
)
def test_malformed_authentication_methods_are_found(methods: Any, is_draft: bool, fault: str | None):
    assert auth_methods_fault(methods, is_draft=is_draft) == fault


@pytest.mark.parametrize(
    ("reply", "has_methods", "result", "level"),
    [
        (Refused(-32000, ""), True, Result.PASS, None),
        (Refused(-32000, ""), False, Result.FAIL, Level.SHOULD),
        (Refused(-32603, "Please log in first"), True, Result.FAIL, None),
        (Refused(-32603, "Set OPENAI_API_KEY"), True, Result.FAIL, None),
        (Refused(-32603, "Not authenticated"), False, Result.FAIL, None),
    ],
)
def test_a_missing_login_has_an_error_of_its_own(reply: Any, has_methods: bool, result: Result, level: Level | None):
    outcome = judge_login(reply, has_methods=has_methods)
    assert outcome is not None
    assert (outcome.result, outcome.level) == (result, level)


@pytest.mark.parametrize("reply", [Answered({}), Silent(1), Refused(-32603, "The blogging service is down")])
def test_other_failures_of_a_session_say_nothing_about_the_login(reply: Any):
    assert judge_login(reply, has_methods=True) is None
