"""Judge what an agent answers about sessions: replayed conversations, modes, config options, login methods. Pure.

The form of every result is judged in `conduct`; here it is read leniently, and what its members mean is judged.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from accord.acp_tools.inspect.replies import (
    Answered,
    CheckOutcome,
    Gone,
    Refused,
    Reply,
    Silent,
    describe,
    failed,
    judge_answered,
    judge_request_error,
    not_judged,
    passed,
    shorten,
    stop_reason,
)
from accord.acp_tools.json_values import as_list, as_object
from accord.errors import RpcCode
from accord.wire.inspection import Level

Update = Mapping[str, Any]

USER: Final = "user_message_chunk"
AGENT: Final = "agent_message_chunk"
SHOWN: Final = 60
"""How many characters of a text are shown."""
LOGIN_WORDS: Final = re.compile(
    r"(?<![a-z])(?:authenticat|unauthori[sz]ed|log ?in\b|logged in|sign(?:ed)? in\b|credentials?\b|api[ _-]?key)",
    re.IGNORECASE,
)
"""What an error says that is about a missing login."""
UNKNOWN_WORDS: Final = re.compile(
    r"unknown|invalid|unsupported|unavailable|not found|no such|not exist|\bno [\w ]+ found", re.IGNORECASE
)
"""What an error with another code says if it is about something that does not exist."""


def message_text(updates: Sequence[Update], kind: str) -> str:
    """The text of all messages of this kind."""
    contents = [as_object(update.get("content")) for update in updates if update.get("sessionUpdate") == kind]
    return "".join(str(content.get("text", "")) for content in contents)


def judge_declared(reply: Reply, method: str) -> CheckOutcome | None:
    """What is wrong with the reply to a declared method; None if it has a result."""
    match reply:
        case Answered():
            return None
        case Refused(code=RpcCode.METHOD_NOT_FOUND):
            return failed(f"{method} is declared, but does not exist", reply)
        case Refused(code=RpcCode.AUTH_REQUIRED):
            return not_judged("needs authentication", reply)
        case Refused():
            return failed(f"{method} was refused", reply)
        case _:
            return judge_answered(reply, method)


def judge_unknown(reply: Reply, method: str, what: str) -> CheckOutcome:
    """Whether a request about something that does not exist got an error that says so."""
    if isinstance(reply, Refused) and reply.code in (RpcCode.METHOD_NOT_FOUND, RpcCode.AUTH_REQUIRED):
        return not_judged(f"{method} does not work at all: {describe(reply)}", reply)
    if isinstance(reply, Refused) and UNKNOWN_WORDS.search(reply.message):
        return passed(f"{what} got error {reply.code}, which says so", reply)
    return judge_request_error(reply, what)


def judge_replay(before: Sequence[Update], after: Sequence[Update], marker: str, answer: str) -> CheckOutcome:
    """Whether `session/load` replayed the text with this marker and this answer of the agent before its response.

    `before` and `after` are the updates before and after the response.
    """
    for kind, side, text in ((USER, "user", marker), (AGENT, "agent", answer)):
        replayed = message_text(before, kind)
        if _has_words(replayed, text):
            continue
        if _has_words(message_text([*before, *after], kind), text):
            return failed(f"The text of the {side} was replayed after session/load was answered, not before")
        if not replayed or kind == USER:
            return failed(f"The text of the {side} was not replayed")
        # Not a must: what an agent shows beside its answer, such as a banner, may not be part of the conversation.
        shown = f"shown: {shorten(text, max_chars=SHOWN)}; replayed: {shorten(replayed, max_chars=SHOWN)}"
        outcome = failed("Only a part of the text of the agent was replayed")
        return replace(outcome, observed=shown, level=Level.SHOULD)
    return passed("The conversation was replayed before session/load was answered")


def _has_words(text: str, words: str) -> bool:
    """Whether the text contains these words; white space may differ, for example between two chunks."""
    return "".join(words.split()) in "".join(text.split())


def judge_no_replay(updates: Sequence[Update]) -> CheckOutcome:
    """Whether `session/resume` reopened a session without replaying it, as only `session/load` does."""
    if message_text(updates, USER) or message_text(updates, AGENT):
        return failed("session/resume replayed the conversation, which only session/load does")
    return passed("The session was reopened without a replay, and accepted a prompt")


def judge_closed_turn(reply: Reply) -> CheckOutcome:
    """Whether the turn that ran when its session was closed ended as a cancelled one does."""
    match reply:
        case Answered() if stop_reason(reply) == "cancelled":
            return passed("The session was closed, and its turn ended as cancelled", reply)
        case Answered():
            return passed("The session was closed, and its turn ended", reply)
        case Refused():
            outcome = failed("The turn of the closed session ended with an error instead of as cancelled", reply)
            return replace(outcome, level=Level.SHOULD)
        case Silent():
            return failed("The turn went on after session/close", reply)
        case Gone():
            return judge_answered(reply, "session/close")


def judge_both(replies: Sequence[Reply]) -> CheckOutcome | None:
    """A failure if one of two prompts, sent to two sessions at the same time, was not answered."""
    for reply in replies:
        if isinstance(reply, Refused):
            outcome = failed("A prompt was refused while another session had a turn", reply)
            return replace(outcome, level=Level.SHOULD)
        if not isinstance(reply, Answered):
            return failed("A prompt was not answered while another session had a turn", reply)
    return None


@dataclass(frozen=True, slots=True)
class OfferedModes:
    """The modes of a session."""

    current: Any
    ids: Sequence[Any]

    def fault(self) -> str | None:
        """What contradicts itself in these modes; None if nothing does."""
        if double := _first_double(self.ids):
            return f"Two modes have the id {double!r}"
        if self.current not in self.ids:
            return f"The current mode {self.current!r} is not one of the available modes"
        return None


def read_modes(result: Any) -> OfferedModes | None:
    """The modes in a result of `session/new`; None if it has none."""
    modes = as_object(as_object(result).get("modes"))
    if not modes:
        return None
    ids = [as_object(mode).get("id") for mode in as_list(modes.get("availableModes"))]
    return OfferedModes(modes.get("currentModeId"), ids)


@dataclass(frozen=True, slots=True)
class ConfigOption:
    """One config option of a session; a switch has no values to select from."""

    id: Any
    kind: Any
    category: Any
    current: Any
    values: Sequence[Any]

    def fault(self, *, allows_switches: bool) -> str | None:
        """What contradicts itself in this option; None if nothing does."""
        if self.kind == "boolean" and not allows_switches:
            return f"The option {self.id!r} is boolean, which the client did not declare"
        if self.kind != "select":
            return None
        if double := _first_double(self.values):
            return f"The option {self.id!r} has the value {double!r} twice"
        if self.current not in self.values:
            return f"The current value {self.current!r} of the option {self.id!r} is not one of its values"
        return None


def read_config_options(result: Any) -> list[ConfigOption]:
    """The config options in a result; the draft calls their ids `configId`."""
    return [
        ConfigOption(
            option.get("id", option.get("configId")),
            option.get("type"),
            option.get("category"),
            option.get("currentValue"),
            _option_values(option.get("options")),
        )
        for option in map(as_object, as_list(as_object(result).get("configOptions")))
    ]


def _option_values(options: Any) -> list[Any]:
    """The values to select from, which may be in groups."""
    values: list[Any] = []
    for option in map(as_object, as_list(options)):
        values += _option_values(option["options"]) if "options" in option else [option.get("value")]
    return values


def config_fault(options: Sequence[ConfigOption], *, is_draft: bool) -> str | None:
    """What contradicts itself in these config options; None if nothing does.

    The inspector does not declare that it shows switches, which agents of version 1 then must not send.
    """
    if double := _first_double([option.id for option in options]):
        return f"Two config options have the id {double!r}"
    return next((fault for option in options if (fault := option.fault(allows_switches=is_draft))), None)


def choose_option(options: Sequence[ConfigOption]) -> tuple[ConfigOption, Any] | None:
    """An option and another value for it; not the model if there is a choice, which other options depend on."""
    selectable = [option for option in options if len(option.values) > 1 and option.current in option.values]
    for option in sorted(selectable, key=lambda option: option.category == "model"):
        return option, next(value for value in option.values if value != option.current)
    return None


def auth_methods_fault(methods: Any, *, is_draft: bool) -> str | None:
    """What is wrong with `authMethods`; None if nothing is. The inspector declares no terminal for a login."""
    if not isinstance(methods, list):
        return "authMethods is not a list"
    id_key, offered = "methodId" if is_draft else "id", [as_object(method) for method in cast("list[Any]", methods)]
    for method in offered:
        for key in (id_key, "name", *(["type"] if is_draft else [])):
            if not isinstance(method.get(key), str):
                return f"A method of authMethods has no {key} that is text"
        if method.get("type") == "terminal":
            return f"The method {method[id_key]!r} needs a terminal, which the client did not declare"
    if double := _first_double([method[id_key] for method in offered]):
        return f"Two methods of authMethods have the id {double!r}"
    return None


def judge_login(reply: Reply, *, has_methods: bool) -> CheckOutcome | None:
    """Whether a `session/new` that was refused for a missing login got -32000; None if it was not refused for that."""
    if not isinstance(reply, Refused):
        return None
    if reply.code == RpcCode.AUTH_REQUIRED and has_methods:
        return passed(f"A missing login got error {RpcCode.AUTH_REQUIRED}, and authMethods says how to log in", reply)
    if reply.code == RpcCode.AUTH_REQUIRED:
        outcome = failed("Authentication is required, but authMethods is empty", reply)
        return replace(outcome, level=Level.SHOULD)
    if LOGIN_WORDS.search(reply.message):
        return failed(f"A missing login got error {reply.code} instead of {RpcCode.AUTH_REQUIRED}", reply)
    return None


def _first_double(values: Sequence[Any]) -> Any:
    """The first value that occurs twice."""
    return next((value for number, value in enumerate(values) if value in values[:number]), None)
