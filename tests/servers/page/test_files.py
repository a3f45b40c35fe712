"""The files of the page over ASGI, and the page of a real service."""

import asyncio
import gzip
import os
from pathlib import Path

import aiohttp
import pytest

from accord.agents import demo
from accord.servers.http.app import Application
from accord.servers.http.authentication import unauthenticated
from accord.servers.page.files import STATIC, PageFiles, accepts_gzip, page_routes
from accord.servers.service import AllowAll, Caller, Headers
from tests.servers.process import accord_serve
from tests.servers.transports import Answered, InMemory, make_service, within

LONG = "const text = 'the same words again and again';\n" * 50
FILES = {
    "index.html": "<!doctype html><title>Page</title>",
    "style.css": "body { margin: 0 }",
    "main.js": LONG,
    "vendor/lit-html.js": "export const html = 1;",
    "vendor/LICENSES.txt": "Licences",
    "icon.svg": "<svg/>",
    "notes.md": "not served",
    ".hidden.js": "not served",
    "folder.js/inner.txt": "a folder with the name of a file",
}


LIBRARIES = ("lit-html.js", "LICENSES.txt")


class RefuseAll(AllowAll):
    """Refuses every caller, so that a file which needs authentication fails its test."""

    async def authenticate(self, headers: Headers) -> Caller:  # noqa: ARG002 - no token would help
        raise unauthenticated("No caller is known")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "static" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "secret.js").write_text("not served")
    return tmp_path / "static"


def application(folder: Path) -> Application:
    service = make_service(demo, authenticator=RefuseAll())
    return Application(service, page_routes(PageFiles(folder, LIBRARIES)), loopback_only=True)


def fetch(folder: Path, path: str, method: str = "GET", **headers: str) -> Answered:
    return within(lambda: InMemory(application(folder)).call(method, path, b"", **headers))


@pytest.mark.parametrize(
    ("path", "name", "media_type"),
    [
        ("/", "index.html", "text/html; charset=utf-8"),
        ("/page/index.html", "index.html", "text/html; charset=utf-8"),
        ("/page/style.css", "style.css", "text/css; charset=utf-8"),
        ("/page/main.js", "main.js", "text/javascript; charset=utf-8"),
        ("/page/vendor/lit-html.js", "vendor/lit-html.js", "text/javascript; charset=utf-8"),
        ("/page/vendor/LICENSES.txt", "vendor/LICENSES.txt", "text/plain; charset=utf-8"),
        ("/page/icon.svg", "icon.svg", "image/svg+xml"),
    ],
)
def test_each_file_is_served_with_its_type_and_strict_headers(folder: Path, path: str, name: str, media_type: str):
    given, head = fetch(folder, path), fetch(folder, path, "HEAD")
    assert (given.status, given.content.decode()) == (200, FILES[name])
    assert given.headers["content-type"] == media_type
    assert given.headers["cache-control"] == "no-cache"
    assert given.headers["x-content-type-options"] == "nosniff"
    assert given.headers["referrer-policy"] == "no-referrer"
    assert given.headers["vary"] == "Accept-Encoding"
    assert (head.status, head.content, head.headers) == (200, b"", given.headers)


def test_the_policy_lets_the_page_load_and_run_only_its_own_files(folder: Path):
    parts = fetch(folder, "/").headers["content-security-policy"].split("; ")
    assert {name: value for name, _, value in (part.partition(" ") for part in parts)} == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data: blob:",
        "media-src": "data: blob:",
        "connect-src": "'self'",
        "font-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "lit-html dompurify",
    }


@pytest.mark.parametrize(
    "name",
    [
        "",
        "missing.js",
        "vendor",
        "vendor/",
        "main.js/",
        "main.js/more.js",
        "folder.js",
        "notes.md",
        ".hidden.js",
        "../secret.js",
        "vendor/../main.js",
        "vendor/../../secret.js",
        "./main.js",
        "//main.js",
        "/etc/passwd.txt",
        "..\\secret.js",
        "main.js\x00.txt",
        "mäin.js",
        "a" * 300 + ".js",
    ],
)
def test_nothing_else_is_served_and_no_name_leads_out_of_the_folder(folder: Path, name: str):
    given = fetch(folder, f"/page/{name}")
    assert (given.status, given.json()["code"]) == (404, "not_found")
    assert given.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/page/main.js"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_files_can_only_be_read(folder: Path, path: str, method: str):
    given = fetch(folder, path, method)
    assert (given.status, given.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_client_that_has_the_file_gets_304_until_it_changes(folder: Path, encoding: str):
    app = InMemory(application(folder))

    async def read() -> list[int]:
        first = await app.call("GET", "/page/main.js", b"", accept_encoding=encoding)
        known = {"accept_encoding": encoding, "if_none_match": first.headers["etag"]}
        second = await app.call("GET", "/page/main.js", b"", **known)
        assert (second.content, second.headers["etag"]) == (b"", first.headers["etag"])
        (folder / "main.js").write_text("changed")
        third = await app.call("GET", "/page/main.js", b"", **known)
        assert third.content == b"changed"
        # Written in the same instant and of the same size, but for the time of the change.
        (folder / "main.js").write_text("CHANGED")
        os.utime(folder / "main.js", ns=(0, 1))
        assert (await app.call("GET", "/page/main.js", b"", **known)).content == b"CHANGED"
        return [first.status, second.status, third.status]

    assert within(read) == [200, 304, 200]


def test_a_file_is_compressed_for_a_client_that_accepts_it_if_that_is_smaller(folder: Path):
    plain, compressed = fetch(folder, "/page/main.js"), fetch(folder, "/page/main.js", accept_encoding="gzip, br")
    assert "content-encoding" not in plain.headers
    assert compressed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(compressed.content) == plain.content == LONG.encode()
    assert len(compressed.content) < len(plain.content)
    assert compressed.headers["etag"] != plain.headers["etag"]
    assert "content-encoding" not in fetch(folder, "/page/icon.svg", accept_encoding="gzip").headers


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("*", True),
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("gzip;q=nonsense", False),
        ("x-gzip", False),
        ("," * 1000 + "gzip", False),
    ],
)
def test_gzip_is_used_only_where_the_client_accepts_it(header: str, expected: bool):
    assert accepts_gzip(header.encode()) is expected


def test_a_request_under_another_host_name_gets_no_page_of_a_loopback_service(folder: Path):
    assert fetch(folder, "/", host="evil.example").status == 403


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_page_without_its_libraries_says_how_to_fetch_them(folder: Path, name: str):
    (folder / "vendor" / name).unlink()
    given = fetch(folder, "/")
    assert (given.status, given.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert given.headers["cache-control"] == "no-store"
    assert b"<code>make page</code>" in given.content
    assert fetch(folder, "/page/main.js").status == 200


def test_every_file_of_the_page_can_be_served():
    names = [str(path.relative_to(STATIC)) for path in STATIC.rglob("*") if path.is_file()]
    assert "index.html" in names
    for name in names:
        assert fetch(STATIC, f"/page/{name}").status == 200


@pytest.mark.parametrize("accept", ["text/html", "application/json", "*/*"])
def test_accord_serve_answers_with_the_page_whatever_is_accepted(tmp_path: Path, accept: str):
    assert at_root(tmp_path, "", accept) == (200, "text/html; charset=utf-8")


def test_the_page_can_be_turned_off(tmp_path: Path):
    assert at_root(tmp_path, "[server]\npage = false\n", "text/html") == (404, "application/problem+json")


def at_root(folder: Path, config: str, accept: str) -> tuple[int, str]:
    """The status and the type of what `accord serve` answers at `/`."""

    async def run() -> tuple[int, str]:
        async with (
            accord_serve(folder, config=config) as served,
            aiohttp.ClientSession(served.address) as client,
            client.get("/", headers={"accept": accept}) as response,
        ):
            return response.status, response.headers["content-type"]

    return asyncio.run(asyncio.wait_for(run(), 40))
