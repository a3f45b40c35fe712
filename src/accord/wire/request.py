"""The request and response envelopes (CAP), and the capabilities that a client declares. Unknown fields are ignored."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, cast
from uuid import UUID

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    model_serializer,
)
from pydantic_core import CoreSchema, core_schema

from accord.wire.acp.content import ContentBlock
from accord.wire.manifest import CapabilityRequirements
from accord.wire.message import (
    AbsentDict,
    AbsentList,
    FreeObject,
    FreeValue,
    KeepsAbsent,
    Message,
    UtcTime,
    drop_unset,
    is_absent,
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


class ClientCapabilities(Message, frozen=True):
    """The rendering capabilities that a client declares with its request."""

    supported_events: Annotated[list[str], KeepsAbsent()] = Field(
        default_factory=AbsentList,
        exclude_if=is_absent,
        description="Event types the client can render, in any letter case. Absent: the standard set.",
    )
    prefers_markdown: bool = Field(default=True, description="False asks for plain text.")
    image_resolution: str | None = Field(default=None, description="low, high or auto; anything else counts as auto.")
    text_profile: TextProfile | None = Field(default=None, description="How text without markdown is written.")
    speech_format: SpeechFormat | None = Field(
        default=None, description="ssml: text to be spoken is escaped, to be put between <speak> and </speak>."
    )
    min_fidelity: MinFidelity | None = Field(
        default=None, description="The stream ends with an error rather than with an event below this rung."
    )

    @property
    def declares_events(self) -> bool:
        """Whether `supported_events` was declared: absent means the standard set, `[]` means none."""
        return type(self.supported_events) is not AbsentList

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClientCapabilities):
            return NotImplemented
        # The two lists are equal, and mean opposite things.
        return self.declares_events is other.declares_events and super().__eq__(other)

    def __hash__(self) -> int:
        return hash((self.declares_events, *self.supported_events, self.prefers_markdown, self.image_resolution))

    @model_serializer(mode="wrap")
    def _serialise(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo):
        return drop_unset(self, handler, info, "prefers_markdown")


class Identity(Message, frozen=True):
    """A user or an agent."""

    id: str
    name: str
    role: str | None = None


class SessionContext(Message, frozen=True):
    """The user, the session and, if named, the agent of a request."""

    session_id: str
    user: Identity
    agent: Identity | None = None


class _OrUuid:
    """Accepts a `UUID` in Python where text is expected."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = handler(source)
        either = core_schema.no_info_before_validator_function(
            lambda given: str(given) if isinstance(given, UUID) else given, text
        )
        return core_schema.json_or_python_schema(json_schema=text, python_schema=either)


def _read_older_shape(payload: Any, info: ValidationInfo) -> None:
    """Take everything but the query from the `payload` of the older shape; what is given outside of it wins."""
    if not isinstance(payload, dict) or "input" not in payload:
        return
    members = cast("dict[str, Any]", payload)
    fields = {name: members[name] for name in OLDER_FIELDS if name in members}
    inner = AgentRequest.model_validate({**fields, "query": ""})
    data = info.data  # the fields of the request that is being read; an invalid one is missing
    for name in fields:
        if name in data and (data[name] is None or is_absent(data[name])):
            data[name] = getattr(inner, name)
    others = {name: value for name, value in members.items() if name != "input" and name not in OLDER_FIELDS}
    if others and "meta" in data:
        data["meta"] = {**others, **data["meta"]}


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


class AgentRequest(Message, frozen=True):
    """The request to the agent. The older shape `{session_id, payload: {input}, capabilities}` is accepted as well."""

    model_config = ConfigDict(json_schema_extra=_add_older_shape)

    query: str = Field(validation_alias=AliasChoices("query", AliasPath("payload", "input")))
    files: Annotated[list[str], KeepsAbsent()] = Field(default_factory=AbsentList, exclude_if=is_absent)
    conversation_id: str | None = None
    meta: Annotated[FreeObject, KeepsAbsent()] = Field(default_factory=AbsentDict, exclude_if=is_absent)
    session_id: Annotated[str, _OrUuid()] | None = None
    capabilities: ClientCapabilities | None = None
    content: list[ContentBlock] | None = Field(default=None, fail_fast=True)  # of a million bad blocks, one is reported
    requirements: CapabilityRequirements | None = None
    # Always None: the fields before it have taken what it held. Reading it last costs nothing where it is absent.
    payload: Annotated[FreeValue, AfterValidator(_read_older_shape)] = Field(default=None, exclude=True, repr=False)

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

    request_id: UUID
    context: SessionContext
    payload: AgentRequest


class ServiceResponse(Message, frozen=True):
    """The complete result of one request."""

    request_id: UUID
    created_at: UtcTime
    output: FreeObject
    metrics: FreeObject | None = None
