"""Addresses that a client can open safely (decision 5).

Text stays as it was sent: no normalising, no punycode, no added slash. The web's own schemes are matched in
compiled code; the rest, which is rare, is looked up in the tables below. Nothing here fetches anything.
"""

import re
from typing import Annotated, Any, Final

from pydantic import GetCoreSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

_WEB: Final = r"^[hH][tT][tT][pP][sS]?://[^\s/?#\\\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$"
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):(//)?(?=[^\s/])|(file):///", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]|\s$")
_DATA_URL: Final = re.compile(r"data:([a-z0-9.+-]+/[a-z0-9.+-]+)[;,]", re.IGNORECASE)

# Anything that runs script, reads the browser's own pages, or hands the text to a program of the desktop.
UNSAFE_SCHEMES: Final = frozenset(
    "javascript vbscript livescript jscript mocha data blob filesystem about view-source jar chrome "
    "chrome-extension moz-extension resource wyciwyg intent shell cmd hcp help ldap mhtml".split()
)
UNSAFE_SCHEME_PREFIXES: Final = ("ms-", "search-ms", "x-javascript")
# Without `//` a name before a colon may be anything (`localhost:8000`): only identifiers known to be harmless.
OPAQUE_SCHEMES: Final = frozenset("arxiv cid doi geo isbn magnet mailto mid news pmid sms tag tel urn".split())
INLINE_MEDIA: Final = ("image/", "audio/", "video/")


def is_safe_address(text: str) -> bool:
    """Whether a client may be given this as something to open."""
    if _CONTROL.search(text) or not (found := _SCHEME.match(text)):
        return False
    if found[3]:
        return True
    scheme = found[1].lower()
    if scheme in UNSAFE_SCHEMES or scheme.startswith(UNSAFE_SCHEME_PREFIXES):
        return False
    return bool(found[2]) or scheme in OPAQUE_SCHEMES


def inline_media_type(text: str) -> str | None:
    """The media type that a `data:` URL says it carries, in lower case; None if it is not such a URL."""
    found = _DATA_URL.match(text)
    return found[1].lower() if found else None


def _safe(text: str) -> str:
    if is_safe_address(text):
        return text
    raise PydanticCustomError("url_unsafe", "Expected an absolute URL that is safe to open, such as https://…")


def _safe_or_inline(text: str) -> str:
    inline = inline_media_type(text)
    if inline and inline.startswith(INLINE_MEDIA) and not _CONTROL.search(text):
        return text
    return _safe(text)


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
            custom_error_message="Expected an absolute URL that is safe to open, such as https://…",
        )


_URI_SCHEMA: Final = WithJsonSchema({"type": "string", "format": "uri"})

SafeUrl = Annotated[str, _CompiledFirst(_safe), _URI_SCHEMA]
"""An address of a source."""

MediaUrl = Annotated[str, _CompiledFirst(_safe_or_inline), _URI_SCHEMA]
"""An address of a medium: a `SafeUrl`, or the medium itself as a `data:` URL."""
