"""Addresses that a client can open safely (decision 5): an allow-list for each use.

Text stays as it was sent: no normalising, no punycode, no added slash. The web's own schemes are matched in
compiled code; the rest, which is rare, is looked up in the tables below. Nothing here fetches anything.
"""

import re
from typing import Annotated, Any, Final

from pydantic import GetCoreSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

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
