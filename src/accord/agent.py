"""The API for agent authors: an agent is an async generator over a turn."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction, isroutine, signature, unwrap
from typing import Any, Final, Protocol, TypeVar, cast
from uuid import UUID, uuid5

from pydantic_core import from_json

from accord.core.output.agent_work import (
    ALLOW_OR_REJECT,
    OfferedOptions,
    build_permission_request,
    build_plan_event,
    build_tool_call_event,
)
from accord.core.output.profile import ClientProfile, profile_client
from accord.core.prompt.verdict import PromptCapabilitiesLike, parse_accepts
from accord.core.vocabulary import unknown_name
from accord.core.work.conversation import assistant_message, tool_result_message
from accord.errors import AgentError, UsageError
from accord.ports import Clock
from accord.wire.acp.content import ContentBlock
from accord.wire.agent_work import Permission, PermissionRequest, PermissionStatus
from accord.wire.conversation import ChatMessage, ConversationMessage, MessagePart
from accord.wire.event import PresentationEvent, PresentationEventType
from accord.wire.manifest import CapabilityRequirements
from accord.wire.message import Message, as_model
from accord.wire.packet import EventPacket, StreamPacket
from accord.wire.request import ServiceRequest
from accord.wire.work import AnyPiece, TextPiece, ToolCallPiece, ToolSpec, WorkPiece

# Whether a function can be an agent: an async generator function that takes the turn.

CURES: Final = (
    (iscoroutinefunction, "it is a coroutine function: use `yield` instead of `return`"),
    (isgeneratorfunction, "it is a plain generator: write `async def` instead of `def`"),
)


def check_agent_function(run: Any) -> None:
    """Raise `UsageError`, naming the cure, for a function that cannot be an agent."""
    function = _function_of(run)
    code = getattr(function, "__code__", None)
    place = "" if code is None else f"{code.co_filename}:{code.co_firstlineno}: "
    name = getattr(run, "__name__", type(run).__name__)
    # A plain function may also pass on an async generator that it makes; then its annotation says so.
    if not isasyncgenfunction(function) and "Async" not in str(getattr(function, "__annotations__", {}).get("return")):
        otherwise = "write `async def` and `yield` the answer"
        cure = next((cure for is_kind, cure in CURES if is_kind(function)), otherwise)
        raise UsageError(f"{place}{name} cannot be an agent, which is an async generator function; {cure}")
    try:
        signature(run).bind(None)
    except TypeError:
        raise UsageError(f"{place}{name} cannot be an agent: it should take one argument, the turn") from None


def _function_of(run: Any) -> Any:
    """The function itself: without decorators that name what they wrap; of an object that can be called, its method."""
    found = unwrap(run)
    is_object = not any(is_kind(found) for is_kind in (isroutine, _is_partial))
    return getattr(found, "__call__", None) if is_object else found  # noqa: B004 - its method is wanted


def _is_partial(found: Any) -> bool:
    return isinstance(found, partial)


# The API for agent authors: an agent is an async generator over a turn.
#
#     agent = Agent(accepts=["image"])
#
#     @agent
#     async def answer(turn: Turn) -> AsyncIterator[Yielded]:
#         yield turn.progress("Looking", 0.5)
#         async for text in turn.ask(f"Answer briefly: {turn.text}"):
#             yield text
#
# It yields strings, presentation events and, if it must, packets. How they reach a client is the engine's business;
# this
# file knows no backend, no server and no store.

_Kind = PresentationEventType

Yielded = str | PresentationEvent | StreamPacket
Run = Callable[["Turn"], AsyncIterator[Yielded]]
MessageT = TypeVar("MessageT", bound=Message)

A_BLOCK: Final = '{"type": "text", "text": "…"}'
A_TOOL: Final = '{"name": "add", "description": "Add two numbers", "input_schema": {"type": "object"}}'
SOME_REQUIREMENTS: Final = '{"required": [{"capability": "tool_use", "min_support": "native"}]}'


class UserFacingError(Exception):
    """Raise this in an agent to tell the user what went wrong; the agent itself is well."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable: Final = retryable


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent asks the negotiated backend; `Turn.ask` says what each field means."""

    prompt: str | None = None
    content: Sequence[ContentBlock] | None = None
    system: str | None = None
    schema: Mapping[str, Any] | None = None
    tools: Sequence[ToolSpec] = ()
    stop: Sequence[str] = ()
    thinking: bool = False
    requirements: CapabilityRequirements | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    follow: Sequence[ConversationMessage] = ()


class Asks(Protocol):
    """Whoever puts a question to a backend."""

    def __call__(self, turn: "Turn", question: Question) -> AsyncIterator[AnyPiece]:
        """The answer, piece by piece."""
        ...


Permissions = Callable[[PermissionRequest], Awaitable[Permission]]
"""Whoever asks the user for permission, and says what came of it."""

CANNOT_ASK: Final = Permission.trusted(status=PermissionStatus.NO_CLIENT, why="This client cannot be asked")


async def deny_permission(_: PermissionRequest) -> Permission:
    """Deny: a permission that cannot be requested is not granted."""
    return CANNOT_ASK


class Answer:
    """The answer to one question: iterate over its text, or wait for all of it."""

    def __init__(self, pieces: AsyncIterator[AnyPiece]) -> None:
        self._pieces: Final = pieces
        self._came: Final[list[AnyPiece]] = []

    def __aiter__(self) -> "Answer":
        return self

    async def __anext__(self) -> str:
        while True:
            piece = await self._next()
            if isinstance(piece, TextPiece):
                return piece.text

    async def pieces(self) -> AsyncIterator[AnyPiece]:
        """Everything as it comes: text, thoughts, calls of tools, the end."""
        async for piece in self._pieces:
            self._came.append(piece)
            yield piece

    @property
    def message(self) -> ConversationMessage:
        """What came so far, as the model's own message: `follow` gives it back, with what its tools answered."""
        return assistant_message(self._came)

    async def text(self) -> str:
        """The whole text."""
        return "".join([text async for text in self])

    async def value(self) -> Any:
        """The answer as the object that was asked for; it fits the schema that was given."""
        return from_json(await self.text())

    async def calls(self) -> list[ToolCallPiece]:
        """The tools that the model calls."""
        return [piece async for piece in self.pieces() if isinstance(piece, ToolCallPiece)]

    async def _next(self) -> AnyPiece:
        piece = await anext(self._pieces)
        self._came.append(piece)
        return piece


class Turn:
    """One question of a user, and everything an agent may know of it."""

    def __init__(
        self,
        request: ServiceRequest,
        history: Sequence[ChatMessage],
        *,
        asks: Asks,
        clock: Clock,
        permissions: Permissions = deny_permission,
    ) -> None:
        self.request: Final = request
        self.history: Final = history
        self.client: Final[ClientProfile] = profile_client(request.payload.capabilities)
        self._asks: Final = asks
        self._clock: Final = clock
        self._permissions: Final = permissions
        self._events = 0
        self._permissions_asked = 0

    @property
    def text(self) -> str:
        """What the user wrote."""
        return self.request.payload.query

    @property
    def content(self) -> Sequence[ContentBlock]:
        """What came with it; all of it is what the agent accepts."""
        return self.request.payload.content or ()

    def ask(  # noqa: PLR0913 - one parameter for each thing that a question may have
        self,
        prompt: str | None = None,
        *,
        content: Sequence[ContentBlock | Mapping[str, Any]] | None = None,
        system: str | None = None,
        schema: Mapping[str, Any] | None = None,
        tools: Sequence[ToolSpec | Mapping[str, Any]] = (),
        stop: str | Sequence[str] = (),
        thinking: bool = False,
        requirements: CapabilityRequirements | Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        follow: Sequence[ConversationMessage] = (),
    ) -> Answer:
        """Ask the negotiated backend: `await turn.ask("…").text()`, or iterate over the text as it comes.

        prompt: the question; without one it is what the user wrote.
        content: images, audio and resources that go with it, as content blocks or the same as dicts. Without it, what
            the user sent goes with the user's own words, and nothing with a prompt of the agent's.
        system: the system message, instead of the agent's own.
        schema: a JSON Schema that the answer must fit; `await turn.ask(schema=…).value()` is then the object.
        tools: the tools that the model may call: `{"name": …, "description": …, "input_schema": …}` or `ToolSpec`.
            `await answer.calls()` gives its calls.
        stop: where the answer ends, one text or several.
        thinking: whether the model should think before it answers.
        requirements: what the backend must be able to do, `{"required": [{"capability": …, "min_support": …}]}`,
            instead of what the client's request requires.
        parameters: sampling parameters such as `{"temperature": 0.2, "max_tokens": 500}`.
        follow: to go on after calls of tools, `[answer.message, turn.result(call, "…"), …]`, with all else as before.
        """
        if schema is not None and not isinstance(schema, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError("schema: expected a JSON Schema as a dict, such as MyModel.model_json_schema()")
        question = Question(
            prompt=prompt,
            content=None
            if content is None
            else [_as_message(ContentBlock, each, "content", A_BLOCK) for each in content],
            system=system,
            schema=schema,
            tools=[_as_message(ToolSpec, each, "tools", A_TOOL) for each in tools],
            stop=[stop] if isinstance(stop, str) else stop,
            thinking=thinking,
            requirements=None
            if requirements is None
            else _as_message(CapabilityRequirements, requirements, "requirements", SOME_REQUIREMENTS),
            parameters=parameters or {},
            follow=follow,
        )
        return Answer(self._asks(self, question))

    def result(
        self, call: ToolCallPiece, content: str | Sequence[MessagePart], *, is_error: bool = False
    ) -> ConversationMessage:
        """What the agent's tool answers to this call, for `follow`."""
        return tool_result_message(call, content, is_error=is_error)

    def progress(self, label: str, share: float | None = None, *, status: str = "running") -> PresentationEvent:
        """How far a piece of work has come."""
        return self._shown(_Kind.PROGRESS_INDICATOR, {"label": label, "status": status, "progress_percent": share})

    def citation(self, *items: Mapping[str, Any]) -> PresentationEvent:
        """Sources: `source_id`, `uri`, `title` and perhaps a `snippet` each."""
        return self._shown(_Kind.CITATION_BLOCK, {"items": [dict(item) for item in items]})

    def media(self, *items: Mapping[str, Any]) -> PresentationEvent:
        """Media: `url`, `mime_type` and perhaps an `alt_text` each."""
        return self._shown(_Kind.MEDIA_CAROUSEL, {"items": [dict(item) for item in items]})

    def markdown(self, content: str) -> PresentationEvent:
        """A block of markdown."""
        return self._shown(_Kind.MARKDOWN_BLOCK, {"content": content})

    def thought(self, thought: str, **more: Any) -> PresentationEvent:
        """A step of reasoning; never part of the answer."""
        return self._shown(_Kind.THOUGHT_TRACE, {"thought": thought, **more})

    def user_error(self, message: str, **more: Any) -> PresentationEvent:
        """Something failed, and the user should know."""
        return self._shown(_Kind.USER_ERROR, {"message": message, **more})

    def plan(self, *steps: Mapping[str, Any] | str) -> EventPacket:
        """What is to be done, all of it every time: texts, or `content`, `status` and `priority` each.

        Editors show it; a client that shows progress gets its share that is done, any other a list in words.
        """
        return self._worked(build_plan_event(steps))

    def tool_call(self, call_id: str, title: str, *content: Any, **more: Any) -> EventPacket:
        """A tool at work and what it gave: texts, content blocks or diffs; the same id again is the same call.

        `status` is pending, in_progress, completed or failed; `kind`, `locations`, `raw_input` and `raw_output` are
        ACP's. Editors show it, others get it as progress; who shows no progress is told only that it failed.
        """
        return self._worked(build_tool_call_event(call_id, title, content, {"status": "in_progress", **more}))

    def work(self, piece: WorkPiece) -> EventPacket:
        """What a backend shows of its own work, shown as `plan` and `tool_call` show the agent's."""
        return self._worked(piece.event)

    async def permission(  # noqa: PLR0913 - what an editor can show of it
        self,
        title: str,
        *content: Any,
        call_id: str | None = None,
        kind: str | None = None,
        locations: Sequence[Mapping[str, Any]] | None = None,
        raw_input: Any = None,
        options: OfferedOptions = ALLOW_OR_REJECT,
    ) -> Permission:
        """The user's leave to do this: `if await turn.permission("Delete build/", kind="delete"): …`.

        With the id of a `tool_call` that was yielded before, it is asked for that call. What was chosen is `option`; a
        client that cannot be asked, or whose answer makes no sense, has not allowed it, and `status` and `why` say so.
        While the user thinks, no time limit of the turn runs. Nobody remembers an `allow_always` but the agent.
        """
        self._permissions_asked += 1
        own = call_id if call_id is not None else f"permission-{self._permissions_asked}"
        shown = {"kind": kind, "locations": locations, "raw_input": raw_input}
        more = {name: told for name, told in shown.items() if told is not None}
        return await self._permissions(build_permission_request(title, own, content, more, options))

    def event(self, kind: str, data: Mapping[str, Any]) -> EventPacket:
        """An event of a type of the agent's own; a client that did not declare it is told that it is kept."""
        own, now = self._next_id(), self._clock.now()
        return EventPacket(p={"id": str(own), "type": kind, "timestamp": now.isoformat(), "data": dict(data)})

    def _worked(self, members: Mapping[str, Any]) -> EventPacket:
        return EventPacket(p={"id": str(self._next_id()), "timestamp": self._clock.now().isoformat(), **members})

    def _shown(self, kind: PresentationEventType, data: Mapping[str, Any]) -> PresentationEvent:
        return PresentationEvent(type=kind, data=dict(data), id=self._next_id(), timestamp=self._clock.now())

    def _next_id(self) -> UUID:
        """Follows from the request's id, so that a repeated turn has the same ids."""
        self._events += 1
        return uuid5(self.request.request_id, f"event-{self._events}")


class Agent:
    """An agent: what it accepts in a prompt, and what it does with it.

    `accepts` names what a prompt may carry beside text and links: `["image", "audio", "embeddedContext"]`, or the same
    as ACP declares it, `{"image": True}`. `system` is the system message of its questions. A function that is not an
    async generator, or a name that is not known, raises `UsageError` at once.
    """

    def __init__(
        self,
        run: Run | None = None,
        *,
        name: str | None = None,
        accepts: PromptCapabilitiesLike | Sequence[str] = None,
        system: str | None = None,
    ) -> None:
        self.accepts: Final[PromptCapabilitiesLike] = parse_accepts(accepts)
        self.system: Final = system
        self._name = name
        self._run = run
        if run is not None:
            check_agent_function(run)

    def __call__(self, run: Run) -> "Agent":
        """Use as a decorator: this is what the agent does."""
        check_agent_function(run)
        self._run = run
        return self

    @property
    def name(self) -> str:
        """What it is called; its function's name unless it has one of its own."""
        return self._name or getattr(self._run, "__name__", "agent")

    @property
    def is_defined(self) -> bool:
        """Whether it has a function."""
        return self._run is not None

    @property
    def source_file(self) -> str | None:
        """The file of its function, if it is one; frames of a stack are told apart by it."""
        code = getattr(self._run, "__code__", None)
        return code.co_filename if code is not None else None

    def run(self, turn: Turn) -> AsyncIterator[Yielded]:
        """Its answer to this turn."""
        if self._run is None:
            raise AgentError(f"The agent {self.name} does nothing yet: decorate an async generator function with it")
        found = self._run(turn)
        if not hasattr(found, "__anext__"):  # a function whose annotation promises one
            raise AgentError(f"The agent {self.name} should be an async generator: let it yield what it says")
        return found


def _as_message(kind: type[MessageT], given: MessageT | Mapping[str, Any], argument: str, example: str) -> MessageT:
    """The message that this is, or that this dict describes; raises our error, naming the cure, if it is neither."""
    made = as_model(kind, given, argument, example)
    if made is given:
        return made
    # Messages ignore what they do not know, as the wire wants it; here it is a slip of the author.
    fields = type(made).model_fields.items()
    known = list(dict.fromkeys(spelled for name, field in fields for spelled in (name, field.alias or name)))
    for key in cast("Mapping[str, Any]", given):
        if key not in known:
            raise UsageError(f"{kind.__name__}: {unknown_name('key', key, known)}")
    return made
