"""What an agent shows beside its text (CAP, presentation events), told apart by `type`.

Decisions 4 and 5: each type has its own payload, an empty object is no payload, and addresses are safe to open.
How an event looks on a given client is not decided here.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID, uuid4

from pydantic import (
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from accord.wire.message import FreeObject, FreeValue, Message, Tagged, WrittenAsText, seal
from accord.wire.url import MediaUrl, SafeUrl, inline_media_type


class PresentationEventType(StrEnum):
    """The event types that the protocol names."""

    CITATION_BLOCK = "citation_block"
    PROGRESS_INDICATOR = "progress_indicator"
    MEDIA_CAROUSEL = "media_carousel"
    MARKDOWN_BLOCK = "markdown_block"
    USER_ERROR = "user_error"
    THOUGHT_TRACE = "thought_trace"


_Type = PresentationEventType


class CitationItem(Message, frozen=True):
    """One source."""

    source_id: str
    uri: SafeUrl
    title: str
    snippet: str | None = None


class CitationBlock(Message, frozen=True):
    """Sources of what was said."""

    items: list[CitationItem]


class MediaVariant(Message, frozen=True):
    """The same medium in another size, for clients that ask for less."""

    url: MediaUrl
    mime_type: str
    width: Annotated[int, Field(gt=0)] | None = None
    height: Annotated[int, Field(gt=0)] | None = None
    bytes: Annotated[int, Field(gt=0)] | None = None


class MediaItem(Message, frozen=True):
    """One picture, sound or film, by address or inline."""

    url: MediaUrl
    mime_type: str
    alt_text: str | None = None
    variants: list[MediaVariant] | None = None

    @model_validator(mode="after")
    def _inline_type_agrees(self) -> Self:
        inline = inline_media_type(self.url)
        if inline and inline != self.mime_type.partition(";")[0].strip().lower():
            raise PydanticCustomError("media_type_mismatch", "mime_type should be what the data: URL says it carries")
        return self


class MediaCarousel(Message, frozen=True):
    """Media to look through."""

    items: list[MediaItem]


class ProgressUpdate(Message, frozen=True):
    """How far a piece of work has come."""

    label: str
    status: Literal["running", "complete", "failed"]
    progress_percent: Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)] | None = None


class MarkdownBlock(Message, frozen=True):
    """A block of markdown."""

    content: str


class UserError(Message, frozen=True):
    """A failed sub-task, told to the user; the agent is well. Keeps whatever else was sent."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, FreeValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    message: str
    code: StrictInt | StrictFloat | StrictStr | None = None
    domain: Literal["client", "system", "llm", "tool", "security"] = "system"
    retryable: bool = False

    @model_serializer(mode="wrap")
    def _keep_every_key(self, handler: SerializerFunctionWrapHandler):
        fields: dict[str, Any] = handler(self)
        # Leaving out absent fields would also leave out what the agent itself sent as null.
        return fields | (self.__pydantic_extra__ or {})


class PresentationEvent(Tagged, frozen=True):
    """An event for the user's eyes. `PresentationEvent(type=…, data=…)` builds the kind that `type` names.

    The wire may leave out `id` and `timestamp`; both are then given when the event is read.
    """

    id: UUID = Field(default_factory=uuid4)
    timestamp: datetime = Field(default_factory=lambda: datetime.now(UTC))
    type: PresentationEventType
    data: Any

    if TYPE_CHECKING:  # the type may be given by its wire name

        def __init__(
            self, *, type: PresentationEventType | str, data: Any, id: UUID = ..., timestamp: datetime = ...
        ) -> None: ...


class CitationEvent(PresentationEvent, frozen=True):
    """Sources."""

    type: Annotated[Literal[PresentationEventType.CITATION_BLOCK], WrittenAsText()] = (
        PresentationEventType.CITATION_BLOCK
    )
    data: CitationBlock


class ProgressEvent(PresentationEvent, frozen=True):
    """Progress."""

    type: Annotated[Literal[PresentationEventType.PROGRESS_INDICATOR], WrittenAsText()] = (
        PresentationEventType.PROGRESS_INDICATOR
    )
    data: ProgressUpdate


class MediaEvent(PresentationEvent, frozen=True):
    """Media."""

    type: Annotated[Literal[PresentationEventType.MEDIA_CAROUSEL], WrittenAsText()] = (
        PresentationEventType.MEDIA_CAROUSEL
    )
    data: MediaCarousel


class MarkdownEvent(PresentationEvent, frozen=True):
    """Markdown."""

    type: Annotated[Literal[PresentationEventType.MARKDOWN_BLOCK], WrittenAsText()] = (
        PresentationEventType.MARKDOWN_BLOCK
    )
    data: MarkdownBlock


class UserErrorEvent(PresentationEvent, frozen=True):
    """A failed sub-task."""

    type: Annotated[Literal[_Type.USER_ERROR], WrittenAsText()] = _Type.USER_ERROR
    data: UserError


class ThoughtEvent(PresentationEvent, frozen=True):
    """Steps of reasoning, in whatever form the agent has them."""

    type: Annotated[Literal[_Type.THOUGHT_TRACE], WrittenAsText()] = _Type.THOUGHT_TRACE
    data: FreeObject


AnyEvent = CitationEvent | ProgressEvent | MediaEvent | MarkdownEvent | UserErrorEvent | ThoughtEvent
"""For a `match` that the type checker can prove complete."""

seal(
    PresentationEvent,
    "type",
    {
        _Type.CITATION_BLOCK: CitationEvent,
        _Type.PROGRESS_INDICATOR: ProgressEvent,
        _Type.MEDIA_CAROUSEL: MediaEvent,
        _Type.MARKDOWN_BLOCK: MarkdownEvent,
        _Type.USER_ERROR: UserErrorEvent,
        _Type.THOUGHT_TRACE: ThoughtEvent,
    },
)
