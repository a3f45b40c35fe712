"""What the fake model replies to a request: the directives that a prompt can contain. Pure.

The inspector controls only the prompt, so the prompt has the script. In the text of a user, `accord:` and a word is a
directive; what follows on its line are its arguments:

- `accord:ok` replies with a short text that contains "ok", which is also the reply to a prompt without a directive
- `accord:slow` replies with a word each 100 ms for two minutes
- `accord:read PATH`, `accord:write PATH TEXT` and `accord:run COMMAND` call the tool of the agent that does this, and
  then reply with the beginning of its result
- `accord:call NAME {"json": "arguments"}` calls the tool with this name
- `accord:error STATUS` answers with an HTTP error, `accord:refuse` with a refusal

The newest text of a user with a directive counts, and in it the last directive. A newer text with a marker
(`accord-marker-…`) and no directive is a prompt of its own, which has a plain reply.
"""

import json
import re
from dataclasses import dataclass
from typing import Final, assert_never

from accord.acp_tools.inspect.fake_model.received_request import ReceivedRequest, message_text
from accord.acp_tools.inspect.fake_model.schema_values import schema_value
from accord.acp_tools.inspect.fake_model.tool_calls import (
    Action,
    ChosenCall,
    ToolInput,
    call_by_name,
    choose_call,
    finishing_call,
    plain_name,
)
from accord.acp_tools.json_values import as_object
from accord.wire.conversation import Role, TextPart
from accord.wire.disposition import Api
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ToolCallPiece, ToolSpec

MARKER: Final = "accord-marker-"
PLAIN: Final = "This is a short answer of a fake model: ok"
SIDE_ANSWER: Final = "A conversation: ok"
REFUSAL: Final = "I cannot help with that."
PAUSE_S: Final = 0.1
SLOW_WORDS: Final = 1_200
RESULT_CHARACTERS: Final = 500

DIRECTIVE: Final = re.compile(r"\baccord:(ok|slow|read|write|run|call|error|refuse)\b[ \t]*([^\n]*)")
_CLOSING_TAG: Final = re.compile(r"</\w[\w-]*>.*$")
"""Agents put the prompt into tags; what follows on the line is not the prompt's."""
_WORD: Final = re.compile(r'"([^"]*)"\s*|(\S+)\s*')

SIDE_REQUEST: Final = re.compile(
    r"title generator|thread title|session title|conversation title|isNewTopic"
    r"|\b(?:generate|create|write|produce|suggest|extract)\b[^.\n]{0,60}\b(?:title|headline|topic|slug)\b"
    r"|\byou name\b[^.\n]{0,40}\b(?:conversation|session|chat)s?\b"
    r"|\bsummari[sz]e\b[^.\n]{0,40}\b(?:conversation|session|chat|history)\b",
    re.IGNORECASE,
)
"""What agents say when they request the title or the summary of a conversation, beside the turn itself."""
BEGINNING: Final = 300
"""Where they say it in a message, in characters: the long instructions of other agents mention titles, too."""

FINISHING_TOOLS: Final = ("attemptcompletion", "finalresult", "finish", "submit", "complete", "respond", "done")
"""Tools that end a turn with an answer, for requests in which some tool must be called."""
ALWAYS_FINISHING_TOOLS: Final = ("attemptcompletion",)
"""Agents with these (Cline and its relatives) reject an answer in text."""


@dataclass(frozen=True, slots=True)
class TextReply:
    """Text, with a pause after each word of a slow one."""

    text: str
    pause_s: float = 0.0
    is_refusal: bool = False
    missing_tool: str | None = None
    """The directive for which the agent has no tool."""


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An HTTP error."""

    status: int


Reply = TextReply | ErrorReply | ChosenCall

USAGE: Final = {"input_tokens": 100, "output_tokens": 10}
SIGNATURE: Final = "YWNjb3Jk"
"""Gemini 3 models sign their calls, and their clients send the signature back; any base64 will do."""


@dataclass(frozen=True, slots=True)
class Directive:
    """A directive of a prompt, and the result of the tool that was called for it, if it has come."""

    name: str
    arguments: str = ""
    result: str | None = None


def choose_reply(request: ReceivedRequest) -> Reply:
    """The reply to this request."""
    if demanded := _demanded_tool(request):
        return finishing_call(demanded, "ok")
    if request.schema is not None:
        # Without a schema the prompt describes the object; a title is what agents request in this way.
        return TextReply(json.dumps(schema_value(request.schema) if request.schema else {"title": "ok", "ok": True}))
    if is_side_request(request):
        return TextReply(SIDE_ANSWER)
    reply = _follow(find_directive(request), request)
    if isinstance(reply, TextReply) and not reply.pause_s and not reply.is_refusal:
        names = FINISHING_TOOLS if request.forced_tool is not None else ALWAYS_FINISHING_TOOLS
        tools = {plain_name(tool.name): tool for tool in request.tools}
        finishing = next((tools[name] for name in names if name in tools), None)
        return finishing_call(finishing, reply.text) if finishing else reply
    return reply


def answer_pieces(request: ReceivedRequest, reply: TextReply | ChosenCall) -> list[AnyPiece]:
    """The pieces of this answer, a word or a call each, and its end."""
    if isinstance(reply, ChosenCall):
        signature = SIGNATURE if request.api is Api.GEMINI else None
        call_id = f"call_accord{request.number}"
        call = ToolCallPiece(id=call_id, name=reply.tool.name, input=reply.arguments, signature=signature)
        return [call, EndPiece(reason="tool_use", usage=USAGE)]
    # Where an answer has a member for a refusal beside its text, agents ignore it: it belongs to structured answers.
    is_marked = reply.is_refusal and request.api is Api.RESPONSES
    first, *more = reply.text.split(" ")
    words = [TextPiece(text=word, refusal=is_marked) for word in (first, *(f" {word}" for word in more))]
    return [*words, EndPiece(reason="refusal" if reply.is_refusal else "end_turn", usage=USAGE)]


def is_side_request(request: ReceivedRequest) -> bool:
    """Whether the agent requests something beside the turn: a title, a summary, a decision in JSON."""
    if request.schema is not None or _demanded_tool(request):
        return True
    instructions = (message for message in request.messages if message.role in (Role.SYSTEM, Role.USER))
    beginnings = [message_text(message)[:BEGINNING] for message in instructions]
    return not request.tools and any(SIDE_REQUEST.search(beginning) for beginning in beginnings)


def _demanded_tool(request: ReceivedRequest) -> ToolSpec | None:
    """The one tool that the answer has to call, which is how some agents request an answer in JSON."""
    named = [tool for tool in request.tools if request.forced_tool in ("", tool.name)]
    return named[0] if len(named) == 1 else None


def find_directive(request: ReceivedRequest) -> Directive:
    """The directive that this request has to follow; `ok` if there is none."""
    result: str | None = None
    for message in reversed(request.messages):
        if message.role is Role.TOOL:
            result = message_text(message)
        if message.role is not Role.USER:
            continue
        # Agents put several prompts into one message, a part for each, after a turn that was cancelled.
        for part in reversed([part for part in message.content if isinstance(part, TextPart)]):
            if found := list(DIRECTIVE.finditer(part.text)):
                return Directive(found[-1][1], _CLOSING_TAG.sub("", found[-1][2]).strip(), result)
            if MARKER in part.text:
                return Directive("ok")
    return Directive("ok")


def _follow(directive: Directive, request: ReceivedRequest) -> Reply:
    match directive.name:
        case "slow":
            return TextReply(" ".join(f"word{number}" for number in range(1, SLOW_WORDS)) + " ok", pause_s=PAUSE_S)
        case "error":
            status = int(directive.arguments[:3]) if re.match(r"[45]\d\d\b", directive.arguments) else 500
            return ErrorReply(status)
        case "refuse":
            return TextReply(REFUSAL, is_refusal=True)
        case "read" | "write" | "run" | "call" if directive.result is not None:
            return TextReply(f"The tool returned: {directive.result[:RESULT_CHARACTERS]}\nok")
        case "read" | "write" | "run" | "call":
            missing = TextReply(f"no tool for {directive.name}", missing_tool=directive.name)
            return _tool_call(directive, request) or missing
        case _:
            return TextReply(PLAIN)


def _tool_call(directive: Directive, request: ReceivedRequest) -> ChosenCall | None:
    first = _WORD.match(directive.arguments)
    word = (first[1] or first[2]) if first else ""
    rest = directive.arguments[first.end() :] if first else ""
    if directive.name == "call":
        try:
            arguments = as_object(json.loads(rest or "{}"))
        except ValueError:
            arguments = {}
        return call_by_name(word, arguments, request.tools)
    action = Action(directive.name)
    match action:
        case Action.READ:
            given = ToolInput(path=word)
        case Action.WRITE:
            given = ToolInput(path=word, text=rest)
        case Action.RUN:
            given = ToolInput(command=directive.arguments)
        case _:
            assert_never(action)
    return choose_call(action, given, request.tools)
