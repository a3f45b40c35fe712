"""Serve the files of the page, from the folder `static` beside this file.

They need no authentication: the page asks for a token and sends it to the API. A file is read and compressed when it is
first requested, and again when it has changed. The libraries in `static/vendor/` are not in the repository:
`scripts/fetch_page.py` fetches them at set-up and when a wheel is built.
"""

import gzip
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.types import Scope

from accord.errors import ErrorCode, RefusedError
from accord.servers.http.exchange import MAX_RANGES, parse_range, read_headers
from accord.servers.http.read_only import HTML, ReadOnlyEndpoint, ReadOnlyResponse, problem_response, with_etag
from accord.wire.routes import PAGE_FILE_PATH, PAGE_PATH

STATIC: Final = Path(__file__).parent / "static"
VENDOR: Final = Path(__file__).parent / "vendor.json"
"""The names of the libraries, with their sizes and hashes."""
INDEX: Final = "index.html"
MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".html": HTML,
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
"""The kinds of files that are served."""
FILE_NAME: Final = re.compile(r"(?:[\w-]+/)*[\w-]+(?:\.[\w-]+)+", re.ASCII)
"""Names below the folder: no part of one begins with a dot, so none leads out of it."""
MAX_NAME_CHARS: Final = 200
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src data: blob:; "
        "connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types lit-html dompurify"
    ),
    "referrer-policy": "no-referrer",
    "vary": "Accept-Encoding",
}
"""Also of the files that are not the document: a browser can open each of them by itself."""
NO_LIBRARIES: Final = b"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Accord</title></head>
<body><p>The service is running, but the libraries of its page are missing. Run <code>make page</code> in the folder of
the source code, and load this page again.</p></body>
</html>
"""


@dataclass(frozen=True, slots=True)
class PageFile:
    """The content of one file, and its compressed form if that is smaller."""

    version: tuple[int, int]
    """The time of the last change and the size: a file with another version is read again."""
    plain: bytes
    compressed: bytes | None


class PageFiles:
    """The files of a folder. `libraries` are the names below `vendor/` without which the page cannot work."""

    def __init__(self, folder: Path = STATIC, libraries: Collection[str] | None = None) -> None:
        self._folder: Final = folder
        self._libraries: Final = read_libraries() if libraries is None else libraries
        self._cache: Final[dict[str, PageFile]] = {}

    def respond_index(self, scope: Scope) -> ReadOnlyResponse:
        """Answer with the document, or with 503 if a library is missing."""
        if all((self._folder / "vendor" / name).is_file() for name in self._libraries):
            return self.respond(scope, INDEX)
        return ReadOnlyResponse(NO_LIBRARIES, HTML, 503, {**HEADERS, "cache-control": "no-store"})

    def respond(self, scope: Scope, name: str) -> ReadOnlyResponse:
        """Answer with the file of this name, or with 404."""
        media_type = MEDIA_TYPES.get(Path(name).suffix)
        if media_type is None or len(name) > MAX_NAME_CHARS or not FILE_NAME.fullmatch(name):
            return _not_found()
        try:
            file = self._read(name)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return _not_found()
        if file.compressed is not None and accepts_gzip(read_headers(scope).get(b"accept-encoding", b"")):
            return with_etag(scope, file.compressed, media_type, {**HEADERS, "content-encoding": "gzip"})
        return with_etag(scope, file.plain, media_type, HEADERS)

    def _read(self, name: str) -> PageFile:
        path = self._folder / name
        found = path.stat()
        version, known = (found.st_mtime_ns, found.st_size), self._cache.get(name)
        if known is not None and known.version == version:
            return known
        plain = path.read_bytes()
        compressed = gzip.compress(plain, mtime=0)  # without the time: every process has the same entity tag
        self._cache[name] = PageFile(version, plain, compressed if len(compressed) < len(plain) else None)
        return self._cache[name]


def page_routes(files: PageFiles | None = None) -> dict[str, ReadOnlyEndpoint]:
    """The paths of the page and of its files."""
    files = files or PageFiles()

    async def read_index(scope: Scope) -> ReadOnlyResponse:
        return files.respond_index(scope)

    async def read_file(scope: Scope) -> ReadOnlyResponse:
        return files.respond(scope, str(scope["path_params"]["path"]))

    return {PAGE_PATH: ReadOnlyEndpoint(read_index), PAGE_FILE_PATH: ReadOnlyEndpoint(read_file)}


def read_libraries() -> Collection[str]:
    """The names of the libraries that the page uses."""
    return json.loads(VENDOR.read_text(encoding="utf-8")).keys()


def accepts_gzip(accept_encoding: bytes) -> bool:
    """Whether a client with this header takes a body that is compressed with gzip (RFC 9110)."""
    accepted = dict(map(parse_range, accept_encoding.decode("latin-1").split(",")[:MAX_RANGES]))
    return accepted.get("gzip", accepted.get("*", 0.0)) > 0


def _not_found() -> ReadOnlyResponse:
    return problem_response(RefusedError("The page has no file of this name", ErrorCode.NOT_FOUND, {}))
