"""The sentences that stand for what cannot be shown: ids, parameters and English; another catalogue may be handed in.

Decides words only. A parameter is put in as it is, once: braces inside one are text, and nothing but a plain name
between braces is ever looked up. When a sentence is used is not decided here.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from accord.core.strip import ENGLISH as STRIPPER_ENGLISH
from accord.errors import UsageError

ENGLISH: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sources": "Sources:",
        "source_line": "{number}. {title}: {url}",
        "source_line_without_url": "{number}. {title}",
        "sources_more": "({count} more)",
        "sources_spoken": "Sources: {list}.",
        "sources_spoken_one": "Source: {list}.",
        "source_untitled": "untitled",
        "media_line": "{kind}{place}: {alt}{format} {url}",
        "media_line_without_url": "{kind}{place}: {alt}{format}",
        "media_line_without_alt": "{kind}{place}{format} {url}",
        "media_line_bare": "{kind}{place}{format}",
        "media_place": " {number}/{total}",
        "media_format": " ({format})",
        "media_spoken_one": "{kind}: {list}.",
        "media_spoken": "{count} {kinds}: {list}.",
        "media_spoken_bare_one": "{kind} without a description.",
        "media_spoken_bare": "{count} {kinds} without descriptions.",
        "kind_image": "Image",
        "kind_audio": "Audio",
        "kind_video": "Video",
        "kind_other": "File",
        "kinds_image": "images",
        "kinds_audio": "audio recordings",
        "kinds_video": "videos",
        "kinds_other": "files",
        "failed": "Failed: {label}",
        "failed_spoken": "Failed: {label}.",
        "error": "Error: {message}",
        "error_spoken": "Error: {message}.",
        "error_with_code": "Error {code}: {message}",
        "error_unexplained": "Error: something went wrong.",
        "error_retry": "{error} Trying again may help.",
        "list_and": "{first} and {last}",
        "list_comma": "{first}, {next}",
        "list_more": "{count} more",
        "deferred": "(“{type}” cannot be shown here. It is kept as {id}.)",
        "deferred_spoken": "Something that cannot be shown here was kept for later.",
        "deferred_full": "(More cannot be shown here, and no more can be kept.)",
        "deferred_full_spoken": "More cannot be shown here, and no more can be kept.",
    }
)

_PARAMETER: Final = re.compile(r"\{([a-z_]*)\}")


class Catalogue:
    """Every sentence by its id, in the language handed in where it has one, in English otherwise."""

    __slots__ = ("_texts", "for_stripper")

    def __init__(self, overrides: Mapping[str, str] | None = None) -> None:
        self._texts: Final = _merged(ENGLISH, overrides or {})
        self.for_stripper: Final = _merged(STRIPPER_ENGLISH, overrides or {})

    def tell(self, message: str, /, **parameters: str | int) -> str:
        """The sentence with its parameters in place."""
        return _PARAMETER.sub(lambda found: str(parameters.get(found[1], found[0])), self._texts[message])


def _merged(english: Mapping[str, str], overrides: Mapping[str, str]) -> Mapping[str, str]:
    merged = dict(english)
    for message, text in overrides.items():
        if message in english:
            _check(message, text, english[message])
            merged[message] = text
    return MappingProxyType(merged)


def _check(message: str, text: object, english: str) -> None:
    known = set(_PARAMETER.findall(english))
    if not isinstance(text, str) or set(_PARAMETER.findall(text)) - known:
        expected = ", ".join(sorted(known)) or "none"
        raise UsageError(f"The message '{message}' should be text; its parameters may be: {expected}")
    if set("{}") & set(_PARAMETER.sub("", text)):
        raise UsageError(f"The message '{message}' has a brace that is not part of a parameter")


IN_ENGLISH: Final = Catalogue()
"""What every client gets for whom no other language was handed in."""
