"""The API for agent authors: an agent is an async generator over a turn.

    agent = Agent(accepts=["image"])

    @agent
    async def answer(turn: Turn) -> AsyncIterator[Yielded]:
        yield turn.progress("Looking", 0.5)
        async for text in turn.ask(f"Answer briefly: {turn.text}"):
            yield text

It yields strings, presentation events and, if needed, packets. The engine delivers them; this module knows no backend,
no server and no store.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction, isroutine, signature, unwrap
from typing import Any, Final, Protocol, TypeVar, cast
from uuid import UUID, uuid5

from pydantic_core import from_json

from accord.acp.schema_parts import ContentBlock, ResourceLink
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
from accord.core.work.conversation import assistant_message, links_to_files, tool_result_message
from accord.errors import AgentError, UsageError
from accord.ports import Clock
from accord.wire.agent_work import Permission, PermissionRequest, PermissionStatus
from accord.wire.conversation import ChatMessage, ConversationMessage, MessagePart
from accord.wire.event import PresentationEvent, PresentationEventType
from accord.wire.manifest import CapabilityRequirements
from accord.wire.message import Message, as_model
from accord.wire.packet import EventPacket, StreamPacket
from accord.wire.request import ServiceRequest
from accord.wire.work import AnyPiece, TextPiece, ToolCallPiece, ToolSpec, WorkPiece

REMEDIES: Final = (
    (iscoroutinefunction, "it is a coroutine function: use `yield` instead of `return`"),
    (isgeneratorfunction, "it is a plain generator: write `async def` instead of `def`"),
)


def check_agent_function(run: Any) -> None:
    """Raise `UsageError`, with a remedy, for a function that is no async generator of one argument."""
    # Without decorators that use `functools.wraps`; of a callable object, its `__call__` method.
    function: Any = unwrap(run)
    if not (isroutine(function) or issubclass(type(function), partial)):
        function = getattr(function, "__call__", None)  # noqa: B004 - the method is wanted
    code = getattr(function, "__code__", None)
    place = "" if code is None else f"{code.co_filename}:{code.co_firstlineno}: "
    name = getattr(run, "__name__", type(run).__name__)
    # A plain function may return an async generator that it makes; then its annotation says so.
    if not isasyncgenfunction(function) and "Async" not in str(getattr(function, "__annotations__", {}).get("return")):
        otherwise = "write `async def` and `yield` the answer"
        remedy = next((remedy for is_kind, remedy in REMEDIES if is_kind(function)), otherwise)
        raise UsageError(f"{place}{name} cannot be an agent, which is an async generator function; {remedy}")
    try:
        signature(run).bind(None)
    except TypeError:
        raise UsageError(f"{place}{name} cannot be an agent: it should take one argument, the turn") from None


NEVER_RESTART: Final = "never"
RESTARTS: Final = (NEVER_RESTART, "safe")
"""What an agent may say about a turn whose worker died."""

_Kind = PresentationEventType

Yielded = str | PresentationEvent | StreamPacket
AgentFunction = Callable[["Turn"], AsyncIterator[Yielded]]
MessageT = TypeVar("MessageT", bound=Message | ToolSpec)

A_BLOCK: Final = '{"type": "text", "text": "…"}'
A_TOOL: Final = '{"name": "add", "description": "Add two numbers", "input_schema": {"type": "object"}}'
SOME_REQUIREMENTS: Final = '{"required": [{"capability": "tool_use", "min_support": "native"}]}'


class UserFacingError(Exception):
    """Raise this in an agent to show the user what went wrong; the turn then ends without an error."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable: Final = retryable


@dataclass(frozen=True, slots=True)
class Question:
    """A question to the negotiated backend; `Turn.ask` describes each field."""

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


class AskBackend(Protocol):
    """Sends a question to a backend."""

    def __call__(self, turn: "Turn", question: Question, received: list[AnyPiece]) -> AsyncIterator[AnyPiece]:
        """The answer, piece by piece; each is added to those that were received before."""
        ...


Permissions = Callable[[PermissionRequest], Awaitable[Permission]]
"""Requests a permission from the user and returns the answer."""

CANNOT_ASK: Final = Permission(status=PermissionStatus.NO_CLIENT, why="This client cannot be asked")


async def deny_permission(_: PermissionRequest) -> Permission:
    """Deny: a permission that cannot be requested is not granted."""
    return CANNOT_ASK


class Answer:
    """The answer to one question: iterate over its text, or await all of it."""

    def __init__(self, pieces: AsyncIterator[AnyPiece], received: Sequence[AnyPiece]) -> None:
        self._pieces: Final = pieces
        self._received: Final = received

    def __aiter__(self) -> "Answer":
        return self

    async def __anext__(self) -> str:
        while True:
            piece = await anext(self._pieces)
            if isinstance(piece, TextPiece):
                return piece.text

    def pieces(self) -> AsyncIterator[AnyPiece]:
        """All pieces as they arrive: text, thoughts, tool calls, the end."""
        return self._pieces

    @property
    def message(self) -> ConversationMessage:
        """The pieces so far as the model's message, for `follow`, with the results of its tool calls after it."""
        return assistant_message(self._received)

    async def text(self) -> str:
        """The whole text."""
        return "".join([text async for text in self])

    async def value(self) -> Any:
        """The answer as an object that matches the schema of the question."""
        return from_json(await self.text())

    async def calls(self) -> list[ToolCallPiece]:
        """The model's tool calls, once the answer has ended."""
        return [piece async for piece in self.pieces() if isinstance(piece, ToolCallPiece) and not piece.cut]


class Turn:
    """One request of a user, with the methods that an agent needs to answer it."""

    def __init__(
        self,
        request: ServiceRequest,
        history: Sequence[ChatMessage],
        *,
        ask_backend: AskBackend,
        clock: Clock,
        permissions: Permissions = deny_permission,
    ) -> None:
        self.request: Final = request
        self.history: Final = history
        self.client: Final[ClientProfile] = profile_client(request.payload.capabilities)
        self._ask_backend: Final = ask_backend
        self._clock: Final = clock
        self._permissions: Final = permissions
        self._events = 0
        self._forwarded: Final[set[Any]] = set()
        self._permission_requests = 0

    @property
    def text(self) -> str:
        """The user's text."""
        return self.request.payload.query

    @property
    def files(self) -> Sequence[str]:
        """The addresses of the request's files, as they were sent."""
        return self.request.payload.files

    @property
    def content(self) -> Sequence[ContentBlock]:
        """The content blocks of the request, and a link to each of its files; the agent accepts all of them."""
        blocks = self.request.payload.content or ()
        linked = {block.uri for block in blocks if isinstance(block, ResourceLink)}
        return (*blocks, *links_to_files(file for file in self.files if file not in linked))

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
        """Ask the negotiated backend: `await turn.ask("…").text()`, or iterate over the text as it arrives.

        prompt: the question; by default the user's text.
        content: images, audio and resources to send with it, as content blocks or dicts. By default the user's content,
            with links to the user's files, goes with the user's text, and none goes with a prompt of the agent.
        system: the system message, instead of the agent's.
        schema: a JSON Schema that the answer must match; `await turn.ask(schema=…).value()` is then the object.
        tools: the tools that the model may call: `{"name": …, "description": …, "input_schema": …}` or `ToolSpec`.
            `await answer.calls()` gives its calls.
        stop: where the answer ends, one text or several.
        thinking: whether the model should think before it answers.
        requirements: what the backend must be able to do, `{"required": [{"capability": …, "min_support": …}]}`,
            instead of what the agent and the client's request require.
        parameters: sampling parameters such as `{"temperature": 0.2, "max_tokens": 500}`.
        follow: to continue after tool calls, `[answer.message, turn.result(call, "…"), …]`, with all else as before.
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
        received: list[AnyPiece] = []
        return Answer(self._ask_backend(self, question, received), received)

    def result(
        self, call: ToolCallPiece, content: str | Sequence[MessagePart], *, is_error: bool = False
    ) -> ConversationMessage:
        """The message with a tool's result for this call, for `follow`."""
        return tool_result_message(call, content, is_error=is_error)

    def progress(self, label: str, share: float | None = None, *, status: str = "running") -> PresentationEvent:
        """A progress event; `share` is from 0.0 to 1.0."""
        return self._event(_Kind.PROGRESS_INDICATOR, {"label": label, "status": status, "progress_percent": share})

    def citation(self, *items: Mapping[str, Any]) -> PresentationEvent:
        """A citation event; each source has `source_id`, `uri`, `title` and optionally a `snippet`."""
        return self._event(_Kind.CITATION_BLOCK, {"items": [dict(item) for item in items]})

    def media(self, *items: Mapping[str, Any]) -> PresentationEvent:
        """A media event; each item has `url`, `mime_type` and optionally an `alt_text`."""
        return self._event(_Kind.MEDIA_CAROUSEL, {"items": [dict(item) for item in items]})

    def markdown(self, content: str) -> PresentationEvent:
        """A block of markdown."""
        return self._event(_Kind.MARKDOWN_BLOCK, {"content": content})

    def thought(self, thought: str, **more: Any) -> PresentationEvent:
        """A step of reasoning; not part of the answer."""
        return self._event(_Kind.THOUGHT_TRACE, {"thought": thought, **more})

    def user_error(self, message: str, **more: Any) -> PresentationEvent:
        """An event that shows the user that something failed."""
        return self._event(_Kind.USER_ERROR, {"message": message, **more})

    def plan(self, *steps: Mapping[str, Any] | str) -> EventPacket:
        """A plan with all of its steps: texts, or dicts with `content`, `status` and `priority`.

        Editors show it; a client that shows progress gets the share that is done, any other client a text list.
        """
        return self._work_event(build_plan_event(steps))

    def tool_call(self, call_id: str, title: str, *content: Any, **more: Any) -> EventPacket:
        """A tool call and its output: texts, content blocks or diffs; the same id again updates the same call.

        `status` is pending, in_progress, completed or failed; `kind`, `locations`, `raw_input` and `raw_output` are
        ACP's. Editors show it, other clients get it as progress; a client without progress gets only failures.
        """
        return self._work_event(build_tool_call_event(call_id, title, content, {"status": "in_progress", **more}))

    def work(self, piece: WorkPiece) -> EventPacket:
        """The event for a backend's own plan or tool call, like `plan` and `tool_call` for the agent's."""
        packet = self._work_event(piece.event)
        self._forwarded.add(packet.p["id"])
        return packet

    def is_forwarded(self, event: Mapping[str, Any]) -> bool:
        """Whether this event was made by `work`: what a backend declares differs from what this agent declares."""
        return event.get("id") in self._forwarded

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
        """Request the user's permission: `if await turn.permission("Delete build/", kind="delete"): …`.

        With the id of a `tool_call` that was yielded before, the request is for that call. `option` is the user's
        choice. A permission that cannot be requested, or whose answer is not valid, is denied; `status` and `why` say
        so. While the user decides, the agent's time is paused. Only the agent can remember an `allow_always`.
        """
        self._permission_requests += 1
        used_id = call_id if call_id is not None else f"permission-{self._permission_requests}"
        details = {"kind": kind, "locations": locations, "raw_input": raw_input}
        given = {name: value for name, value in details.items() if value is not None}
        return await self._permissions(build_permission_request(title, used_id, content, given, options))

    def event(self, kind: str, data: Mapping[str, Any]) -> EventPacket:
        """An event of a custom type; a client that did not declare the type gets a notice that the event is stored."""
        event_id, now = self._next_id(), self._clock.now()
        return EventPacket(p={"id": str(event_id), "type": kind, "timestamp": now.isoformat(), "data": dict(data)})

    def _work_event(self, members: Mapping[str, Any]) -> EventPacket:
        return EventPacket(p={"id": str(self._next_id()), "timestamp": self._clock.now().isoformat(), **members})

    def _event(self, kind: PresentationEventType, data: Mapping[str, Any]) -> PresentationEvent:
        return PresentationEvent(type=kind, data=dict(data), id=self._next_id(), timestamp=self._clock.now())

    def _next_id(self) -> UUID:
        """An id derived from the request's id, so that a repeated turn has the same ids."""
        self._events += 1
        return uuid5(self.request.request_id, f"event-{self._events}")


class Agent:
    """An agent: its function and the content that it accepts.

    `accepts` names what a prompt may contain besides text and links: `["image", "audio", "embeddedContext"]`, or the
    same as ACP declares it, `{"image": True}`. `requires` is what every request needs of a backend, as in
    `turn.ask(requirements=…)`: a request that no backend can serve is refused before the agent runs. `system` is the
    system message of its questions. `restart="safe"` says that the agent may be run again from the start when the
    worker that ran it has died: what was sent already is not sent again, and running it twice does no harm. By default
    such a turn ends with an error. A function that is not an async generator, or an unknown name, raises `UsageError`
    at once.
    """

    def __init__(  # noqa: PLR0913 - what an agent declares
        self,
        run: AgentFunction | None = None,
        *,
        name: str | None = None,
        accepts: PromptCapabilitiesLike | Sequence[str] = None,
        requires: CapabilityRequirements | Mapping[str, Any] | None = None,
        system: str | None = None,
        restart: str = NEVER_RESTART,
    ) -> None:
        if restart not in RESTARTS:
            raise UsageError(f"restart={restart!r}: {unknown_name('value', restart, RESTARTS)}")
        self.may_restart: Final = restart != NEVER_RESTART
        self.accepts: Final[PromptCapabilitiesLike] = parse_accepts(accepts)
        self.requires: Final = (
            None if requires is None else _as_message(CapabilityRequirements, requires, "requires", SOME_REQUIREMENTS)
        )
        self.system: Final = system
        self._name = name
        self._run = run
        if run is not None:
            check_agent_function(run)

    def __call__(self, run: AgentFunction) -> "Agent":
        """Use as a decorator: set the agent's function."""
        check_agent_function(run)
        self._run = run
        return self

    @property
    def name(self) -> str:
        """The agent's name; by default that of its function."""
        return self._name or getattr(self._run, "__name__", "agent")

    @property
    def is_defined(self) -> bool:
        """Whether it has a function."""
        return self._run is not None

    @property
    def source_file(self) -> str | None:
        """The file of its function, to recognise its frames in a stack."""
        code = getattr(self._run, "__code__", None)
        return code.co_filename if code is not None else None

    def run(self, turn: Turn) -> AsyncIterator[Yielded]:
        """Run the function for a turn; gives what it yields."""
        if self._run is None:
            raise AgentError(f"The agent {self.name} has no function: decorate an async generator function with it")
        found = self._run(turn)
        if not hasattr(found, "__anext__"):  # a function whose annotation promises one
            raise AgentError(f"The agent {self.name} is not an async generator: `yield` each part of its answer")
        return found


def _as_message(kind: type[MessageT], given: MessageT | Mapping[str, Any], argument: str, example: str) -> MessageT:
    """The message itself, or the one that a dict describes; raises `UsageError` with an example otherwise."""
    made = as_model(kind, given, argument, example)
    if made is given:
        return made
    # Messages ignore unknown keys, as the protocol requires; here an unknown key is a mistake of the author.
    if isinstance(made, ToolSpec):
        known = [each.name for each in fields(made)]
    else:
        members = type(made).model_fields.items()
        known = list(dict.fromkeys(spelled for name, each in members for spelled in (name, each.alias or name)))
    for key in cast("Mapping[str, Any]", given):
        if key not in known:
            raise UsageError(f"{kind.__name__}: {unknown_name('key', key, known)}")
    return made
