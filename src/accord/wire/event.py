"""Presentation events (CAP), a union by `type`, and the URLs that they may contain.

How an event is adapted to a client is decided in `core/output`.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self
from uuid import UUID, uuid4

from pydantic import (
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StrictFloat,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from accord.wire.message import (
    FreeObject,
    FreeValue,
    Message,
    SparseMessage,
    Tagged,
    UtcTime,
    WrittenAsText,
    close_union,
)

# URLs stay as they were sent: no normalising, no punycode, no added slash. http and https are matched in compiled code;
# the rest, which is rare, is looked up in the tables below.

UNSAFE: Final = "Expected an absolute URL that is safe to open, such as https://…"
_WEB: Final = r"^[hH][tT][tT][pP][sS]?://[^\s/?#\\\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$"
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):(//)?(?=[^\s/])", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]|\s$")
_DATA_URL: Final = re.compile(r"data:([a-z0-9.+-]+/[a-z0-9.+-]+)[;,]", re.IGNORECASE)

# Allow-lists, since a click on any other scheme hands the text to the program that registered it: `vscode:` and `ms-…:`
# run programs, `ssh:` and `ldap:` take arguments, `file:` and `smb:` open files and send credentials to a host.
LINK_PLACES: Final = frozenset("http https s3 gs".split())
"""Schemes of a link with `//`: the web, and names of stored objects, which no program opens."""
LINK_NAMES: Final = frozenset("arxiv doi isbn mailto pmid tel urn".split())
"""Schemes of a link without `//`: names of publications, mail addresses and phone numbers."""

# SVG is a document that can contain scripts and load others, so it is not allowed as an inline image.
INLINE_IMAGES: Final = frozenset("png jpeg jpg gif webp avif apng bmp tiff heic heif x-icon vnd.microsoft.icon".split())


def is_safe_address(text: str) -> bool:
    """Whether this URL is safe to be opened as a link."""
    if _CONTROL.search(text) or not (found := _SCHEME.match(text)):
        return False
    return found[1].lower() in (LINK_PLACES if found[2] else LINK_NAMES)


def inline_media_type(text: str) -> str | None:
    """Return the media type of a `data:` URL, in lower case; None if this is not one."""
    found = _DATA_URL.match(text)
    return found[1].lower() if found else None


def is_inline_medium(text: str) -> bool:
    """Whether this is a `data:` URL of a raster image, audio or video."""
    family, _, kind = (inline_media_type(text) or "").partition("/")
    is_listed = family in ("audio", "video") or (family == "image" and kind in INLINE_IMAGES)
    return is_listed and not _CONTROL.search(text)


class _CheckedUrl:
    """Accepts http and https in compiled code, and calls `is_allowed` only for other URLs."""

    def __init__(self, is_allowed: Callable[[str], bool]) -> None:
        self._is_allowed: Final = is_allowed

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = handler(source)
        web = core_schema.str_schema(pattern=_WEB)
        other = core_schema.no_info_after_validator_function(self._check, text)
        return core_schema.custom_error_schema(
            core_schema.union_schema([web, other], mode="left_to_right"),
            custom_error_type="url_unsafe",
            custom_error_message=UNSAFE,
        )

    def _check(self, text: str) -> str:
        if self._is_allowed(text):
            return text
        raise PydanticCustomError("url_unsafe", UNSAFE)


_URI_SCHEMA: Final = WithJsonSchema({"type": "string", "format": "uri"})

SafeUrl = Annotated[str, _CheckedUrl(is_safe_address), _URI_SCHEMA]
"""The URL of a source, to be opened by a click."""

MediaUrl = Annotated[str, _CheckedUrl(is_inline_medium), _URI_SCHEMA]
"""The URL of media, to be loaded: on the web, or inline as a `data:` URL."""


class PresentationEventType(StrEnum):
    """The event types of the protocol."""

    CITATION_BLOCK = "citation_block"
    PROGRESS_INDICATOR = "progress_indicator"
    MEDIA_CAROUSEL = "media_carousel"
    MARKDOWN_BLOCK = "markdown_block"
    USER_ERROR = "user_error"
    THOUGHT_TRACE = "thought_trace"


_Type = PresentationEventType


class CitationItem(Message, frozen=True):
    """One source."""

    source_id: str = Field(description="The id of the source.")
    uri: SafeUrl = Field(description="Where it is.")
    title: str = Field(description="Its title.")
    snippet: str | None = Field(default=None, description="The passage that matters.")


class CitationBlock(Message, frozen=True):
    """The sources of an answer."""

    items: list[CitationItem] = Field(description="The sources.")


class MediaVariant(Message, frozen=True):
    """The same media item in another size."""

    url: MediaUrl = Field(description="Where it is.")
    mime_type: str = Field(description="Its media type.")
    width: Annotated[int, Field(gt=0)] | None = Field(default=None, description="Its width in pixels.")
    height: Annotated[int, Field(gt=0)] | None = Field(default=None, description="Its height in pixels.")
    bytes: Annotated[int, Field(gt=0)] | None = Field(default=None, description="Its size in bytes.")


class MediaItem(Message, frozen=True):
    """An image, audio or video, by URL or inline."""

    url: MediaUrl = Field(description="Where it is, or a `data:` URL.")
    mime_type: str = Field(description="Its media type; that of the `data:` URL, if it is one.")
    alt_text: str | None = Field(default=None, description="A description for clients that do not show it.")
    variants: list[MediaVariant] | None = Field(default=None, description="The same in other sizes.")

    @model_validator(mode="after")
    def _check_inline_type(self) -> Self:
        inline = inline_media_type(self.url)
        if inline and inline != self.mime_type.partition(";")[0].strip().lower():
            raise PydanticCustomError("media_type_mismatch", "mime_type should be the media type of the data: URL")
        return self


class MediaCarousel(Message, frozen=True):
    """A carousel of media items."""

    items: list[MediaItem] = Field(description="The media items.")


class ProgressUpdate(Message, frozen=True):
    """The progress of a task."""

    label: str = Field(description="What is being done; updates of one label replace each other.")
    status: Literal["running", "complete", "failed"] = Field(description="Whether it still runs.")
    progress_percent: Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)] | None = Field(
        default=None, description="The share that is done, from 0.0 to 1.0."
    )


class MarkdownBlock(Message, frozen=True):
    """A block of markdown."""

    content: str = Field(description="The markdown.")


class UserError(SparseMessage, frozen=True):
    """A failed sub-task; the stream itself goes on. Additional members are kept."""

    model_config = ConfigDict(extra="allow")
    sparse = ("domain", "retryable")
    __pydantic_extra__: dict[str, FreeValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    message: str = Field(description="What failed, for the user.")
    code: StrictInt | StrictFloat | StrictStr | None = Field(default=None, description="A code of the agent's own.")
    domain: Literal["client", "system", "llm", "tool", "security"] = Field(
        default="system", description="Where it failed."
    )
    retryable: bool = Field(default=False, description="Whether trying again can help.")

    @model_serializer(mode="wrap")
    def _serialise(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo):
        fields = super()._serialise(handler, info)
        # Leaving out absent fields would also leave out members that the agent sent as null.
        return fields | (self.__pydantic_extra__ or {})


class PresentationEvent(Tagged, frozen=True):
    """An event to be shown to the user. `PresentationEvent(type=…, data=…)` builds the kind that `type` names.

    If `id` or `timestamp` are absent, they are set when the event is read.
    """

    id: UUID = Field(default_factory=uuid4, description="The id of the event.")
    timestamp: UtcTime = Field(default_factory=lambda: datetime.now(UTC), description="When the event was made.")
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
    data: CitationBlock = Field(description="The sources.")


class ProgressEvent(PresentationEvent, frozen=True):
    """Progress."""

    type: Annotated[Literal[PresentationEventType.PROGRESS_INDICATOR], WrittenAsText()] = (
        PresentationEventType.PROGRESS_INDICATOR
    )
    data: ProgressUpdate = Field(description="The progress.")


class MediaEvent(PresentationEvent, frozen=True):
    """Media."""

    type: Annotated[Literal[PresentationEventType.MEDIA_CAROUSEL], WrittenAsText()] = (
        PresentationEventType.MEDIA_CAROUSEL
    )
    data: MediaCarousel = Field(description="The media items.")


class MarkdownEvent(PresentationEvent, frozen=True):
    """Markdown."""

    type: Annotated[Literal[PresentationEventType.MARKDOWN_BLOCK], WrittenAsText()] = (
        PresentationEventType.MARKDOWN_BLOCK
    )
    data: MarkdownBlock = Field(description="The markdown.")


class UserErrorEvent(PresentationEvent, frozen=True):
    """A failed sub-task."""

    type: Annotated[Literal[_Type.USER_ERROR], WrittenAsText()] = _Type.USER_ERROR
    data: UserError = Field(description="What failed.")


class ThoughtEvent(PresentationEvent, frozen=True):
    """Steps of reasoning, in any form."""

    type: Annotated[Literal[_Type.THOUGHT_TRACE], WrittenAsText()] = _Type.THOUGHT_TRACE
    data: FreeObject = Field(description="The reasoning, such as `thought`.")


close_union(
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
