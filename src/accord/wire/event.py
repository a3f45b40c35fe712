"""Presentation events (CAP), told apart by `type`, and the URLs that may stand in them (decision 5)."""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self
from uuid import UUID, uuid4

from pydantic import (
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    SerializerFunctionWrapHandler,
    StrictFloat,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from accord.wire.message import FreeObject, FreeValue, Message, Tagged, WrittenAsText, close_union

# Addresses that a client can open safely (decision 5): an allow-list for each use.
#
# Text stays as it was sent: no normalising, no punycode, no added slash. The web's own schemes are matched in
# compiled code; the rest, which is rare, is looked up in the tables below. Nothing here fetches anything.

UNSAFE: Final = "Expected an absolute URL that is safe to open, such as https://…"
_WEB: Final = r"^[hH][tT][tT][pP][sS]?://[^\s/?#\\\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$"
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):(//)?(?=[^\s/])", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]|\s$")
_DATA_URL: Final = re.compile(r"data:([a-z0-9.+-]+/[a-z0-9.+-]+)[;,]", re.IGNORECASE)

# Allow-lists, since a click on any other scheme hands the text to whichever program claims it: `vscode:` and `ms-…:`
# run things, `ssh:` and `ldap:` take arguments, `file:` and `smb:` open files and send credentials to a host.
LINK_PLACES: Final = frozenset("http https s3 gs".split())
"""Schemes of a link that go on with `//`: the web, and names of stored objects, which nothing opens."""
LINK_NAMES: Final = frozenset("arxiv doi isbn mailto pmid tel urn".split())
"""Schemes of a link that do not: names of publications, and whom to write to or call."""

# SVG is a document that can hold scripts and fetch others, so it is no inline image.
INLINE_IMAGES: Final = frozenset("png jpeg jpg gif webp avif apng bmp tiff heic heif x-icon vnd.microsoft.icon".split())


def is_safe_address(text: str) -> bool:
    """Whether a client may be given this as a link."""
    if _CONTROL.search(text) or not (found := _SCHEME.match(text)):
        return False
    return found[1].lower() in (LINK_PLACES if found[2] else LINK_NAMES)


def inline_media_type(text: str) -> str | None:
    """The media type that a `data:` URL says it carries, in lower case; None if it is not such a URL."""
    found = _DATA_URL.match(text)
    return found[1].lower() if found else None


def is_inline_medium(text: str) -> bool:
    """Whether this is a raster image, a sound or a film as a `data:` URL."""
    family, _, kind = (inline_media_type(text) or "").partition("/")
    is_listed = family in ("audio", "video") or (family == "image" and kind in INLINE_IMAGES)
    return is_listed and not _CONTROL.search(text)


def _link(text: str) -> str:
    if is_safe_address(text):
        return text
    raise _refusal()


def _inline(text: str) -> str:
    if is_inline_medium(text):
        return text
    raise _refusal()


def _refusal() -> PydanticCustomError:
    return PydanticCustomError("url_unsafe", UNSAFE)


class _CompiledFirst:
    """Lets compiled code take the web's own addresses and asks Python only about the others."""

    def __init__(self, otherwise: Any) -> None:
        self.otherwise = otherwise

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = handler(source)
        web = core_schema.str_schema(pattern=_WEB)
        other = core_schema.no_info_after_validator_function(self.otherwise, text)
        return core_schema.custom_error_schema(
            core_schema.union_schema([web, other], mode="left_to_right"),
            custom_error_type="url_unsafe",
            custom_error_message=UNSAFE,
        )


_URI_SCHEMA: Final = WithJsonSchema({"type": "string", "format": "uri"})

SafeUrl = Annotated[str, _CompiledFirst(_link), _URI_SCHEMA]
"""An address of a source, to be opened by a click."""

MediaUrl = Annotated[str, _CompiledFirst(_inline), _URI_SCHEMA]
"""An address of a medium, to be loaded: on the web, or the medium itself as a `data:` URL."""


# What an agent shows beside its text (CAP, presentation events), told apart by `type`.
#
# Decisions 4 and 5: each type has its own payload, an empty object is no payload, and addresses are safe to open.
# How an event looks on a given client is not decided here.


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
