"""The request and response envelopes (CAP), and the capabilities that a client declares. Unknown fields are ignored."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, cast
from uuid import UUID

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from accord.acp.schema_parts import ContentBlock
from accord.wire.manifest import CapabilityRequirements
from accord.wire.message import (
    FreeObject,
    FreeValue,
    Message,
    SparseMessage,
    UtcTime,
)


class TextProfile(StrEnum):
    """How text without markdown is written: to be read or to be spoken."""

    PLAIN = "plain"
    SPEECH = "speech"


class SpeechFormat(StrEnum):
    """The format of text to be spoken."""

    TEXT = "text"
    SSML = "ssml"


class MinFidelity(StrEnum):
    """The lowest rung of the ladder that a strict client accepts."""

    NATIVE = "native"
    SIMPLIFIED = "simplified"
    SUBSTITUTED = "substituted"
    DESCRIBED = "described"


class ClientCapabilities(SparseMessage, frozen=True):
    """The rendering capabilities that a client declares with its request."""

    sparse = ("supported_events", "prefers_markdown")

    supported_events: list[str] = Field(
        default_factory=list[str],
        description="Event types the client can render, in any letter case. Absent: the standard set.",
    )
    prefers_markdown: bool = Field(default=True, description="False asks for plain text.")
    image_resolution: str | None = Field(default=None, description="low, high or auto; anything else counts as auto.")
    text_profile: TextProfile | None = Field(default=None, description="How text without markdown is written.")
    speech_format: SpeechFormat | None = Field(
        default=None, description="ssml: text to be spoken is escaped, to be put between `<speak>` and `</speak>`."
    )
    min_fidelity: MinFidelity | None = Field(
        default=None, description="The stream ends with an error rather than with an event below this rung."
    )

    @property
    def declares_events(self) -> bool:
        """Whether `supported_events` was declared: absent means the standard set, `[]` means none."""
        return "supported_events" in self.model_fields_set

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClientCapabilities):
            return NotImplemented
        # The two lists are equal, and mean opposite things.
        return self.declares_events is other.declares_events and super().__eq__(other)

    def __hash__(self) -> int:
        return hash((self.declares_events, *self.supported_events, self.prefers_markdown, self.image_resolution))


class Identity(Message, frozen=True):
    """A user or an agent."""

    id: str = Field(description="The id, which is never reused.")
    name: str = Field(description="The name to show.")
    role: str | None = Field(default=None, description="What it is, such as `user` or `agent`.")


class SessionContext(Message, frozen=True):
    """The user, the session and, if named, the agent of a request."""

    session_id: str = Field(description="The session; a new one begins with a new id.")
    user: Identity = Field(description="The user of the request; with a token, the user of the token.")
    agent: Identity | None = Field(default=None, description="The agent that should answer; absent: the service's own.")


class _OrUuid:
    """Accepts a `UUID` in Python where text is expected."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = handler(source)
        either = core_schema.no_info_before_validator_function(
            lambda given: str(given) if isinstance(given, UUID) else given, text
        )
        return core_schema.json_or_python_schema(json_schema=text, python_schema=either)


class OuterFields(dict[str, Any]):
    """The fields that the `payload` of the older shape has changed, as they were without it; equal to any other.

    A digest that is older than this way of reading needs them (`run/request_digest.py`).
    """

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, OuterFields)


@dataclass(frozen=True, slots=True)
class OlderPayload:
    """The `payload` of the older shape: the fields of a request that it has, and its other members."""

    request: "AgentRequest"
    others: dict[str, Any]


def _read_older_shape(payload: Any) -> OlderPayload | None:
    if not isinstance(payload, dict) or "input" not in payload:
        return None
    members = cast("dict[str, Any]", payload)
    fields = {name: members[name] for name in OLDER_FIELDS if name in members}
    others = {name: value for name, value in members.items() if name != "input" and name not in OLDER_FIELDS}
    return OlderPayload(AgentRequest.model_validate({**fields, "query": ""}), others)


OLDER_FIELDS: Final = ("files", "conversation_id", "meta", "capabilities", "content", "requirements")
"""The fields of a request that may also be inside the `payload` of the older shape."""


def _add_older_shape(schema: dict[str, Any]) -> None:
    del schema["required"]
    schema["properties"]["payload"] = {"description": "Of the older shape; ignored if it has no `input`."}
    older = {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "description": "The older shape: `input` is the query, fields of the request are read as such, and any other "
        "member becomes a member of `meta`. What is also given outside of `payload` is read from there.",
    }
    schema["anyOf"] = [{"required": ["query"]}, {"properties": {"payload": older}, "required": ["payload"]}]


class AgentRequest(SparseMessage, frozen=True):
    """The request to the agent. The older shape `{session_id, payload: {input}, capabilities}` is accepted as well."""

    model_config = ConfigDict(json_schema_extra=_add_older_shape)
    sparse = ("files", "meta")

    query: str = Field(
        validation_alias=AliasChoices("query", AliasPath("payload", "input")), description="The user's text."
    )
    files: list[str] = Field(default_factory=list, description="Addresses of files.")
    conversation_id: str | None = Field(
        default=None, description="The conversation to continue; absent: that of the session."
    )
    meta: FreeObject = Field(default_factory=dict, description="Anything else that the agent should get.")
    session_id: Annotated[str, _OrUuid()] | None = Field(default=None, description="Of the older shape.")
    capabilities: ClientCapabilities | None = Field(
        default=None, description="What the client can show; absent: the standard client."
    )
    content: list[ContentBlock] | None = Field(
        default=None, fail_fast=True, description="Images, audio and resources, beside the text."
    )  # of a million bad blocks, one is reported
    requirements: CapabilityRequirements | None = Field(
        default=None, description="What the backend must be able to do."
    )
    payload: Annotated[FreeValue, AfterValidator(_read_older_shape)] = Field(default=None, exclude=True, repr=False)

    @model_validator(mode="after")
    def _take_older_shape(self) -> Self:
        """Take everything but the query from the `payload` of the older shape; what is given outside of it wins."""
        older = self.payload
        if isinstance(older, OlderPayload):
            given, inner, before = self.model_fields_set, older.request, vars(self).copy()
            names = [name for name in inner.model_fields_set if name not in given or before[name] is None]
            taken = {name: getattr(inner, name) for name in names}
            if older.others:
                taken["meta"] = {**older.others, **(taken.get("meta") or self.meta)}
            # The model is frozen for its users, and not yet theirs.
            vars(self).update(taken, payload=OuterFields({name: before[name] for name in taken}))
            given.update(taken)
        return self

    if TYPE_CHECKING:  # the call accepts both shapes, and dicts for models

        def __init__(  # noqa: PLR0913 - one parameter for each field
            self,
            *,
            query: str = ...,
            files: Iterable[str] = ...,
            conversation_id: str | None = None,
            meta: Mapping[str, Any] = ...,
            session_id: str | UUID | None = None,
            capabilities: ClientCapabilities | Mapping[str, Any] | None = None,
            content: Iterable[ContentBlock | Mapping[str, Any]] | None = None,
            requirements: CapabilityRequirements | Mapping[str, Any] | None = None,
            payload: Mapping[str, Any] | None = None,
        ) -> None: ...


class ServiceRequest(Message, frozen=True):
    """One request, identified by its id."""

    request_id: UUID = Field(description="Chosen by the client; the same id again is the same request.")
    context: SessionContext = Field(description="Who sends it, in which session.")
    payload: AgentRequest = Field(description="What is asked.")


class ServiceResponse(Message, frozen=True):
    """The complete result of one request."""

    request_id: UUID = Field(description="The id of the request.")
    created_at: UtcTime = Field(description="When the answer was complete.")
    output: FreeObject = Field(description="The answer: `text`, and `events` with their `text_offset`.")
    metrics: FreeObject | None = Field(default=None, description="Times, tokens and compromises of the turn.")
