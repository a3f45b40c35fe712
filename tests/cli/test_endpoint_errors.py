"""The error message of an endpoint is in the log, the receipt and `accord ask`.

Clients get our own message, and the endpoint's only where the request is at fault.
"""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from accord.apis.failure import MASK, text_of, without_secrets
from tests.servers.process import accord_serve
from tests.servers.transports import body

KEY = "plainwordsonly"
"""A key that does not look like one."""
MESSAGE = "Unsupported value: 'temperature' must be 1"
PAGE = "<html><head><style>p {}</style></head><body><h1>502 Bad Gateway</h1><p>proxy-7</p></body></html>"
CONFIG = """
[[backends]]
name = "first"
kind = "openai"
model = "tiny"
base_url = "{url}/v1"
key_env = "TINY_KEY"
options = {{ retries = 0 }}
overrides = {{ streaming = "native" }}

[[backends]]
name = "second"
kind = "openai"
model = "tiny"
base_url = "{url}/page"
key_env = "TINY_KEY"
options = {{ retries = 0 }}
overrides = {{ streaming = "native" }}
"""


class Failing(BaseHTTPRequestHandler):
    """An endpoint that repeats the key that it was sent, and a proxy's page."""

    def do_GET(self) -> None:
        self._fail()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        self._fail()

    def _fail(self) -> None:
        key = self.headers.get("authorization", "").removeprefix("Bearer ")
        message = f"{MESSAGE}\n2026-01-01 error forged \x1b[2J {key} sk-abcdef123456"
        error = json.dumps({"error": {"message": message, "type": "invalid_request_error"}})
        is_page = self.path.startswith("/page")
        kind, text = ("text/html", PAGE) if is_page else ("application/json", error)
        self.send_response(502 if is_page else 404 if self.path.startswith("/gone") else 400)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""


@pytest.fixture(scope="module")
def config() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Failing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield CONFIG.format(url=f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    thread.join(10)
    server.server_close()


def is_clean(text: str) -> bool:
    return KEY not in text and "sk-abcdef" not in text and "\x1b" not in text


def test_the_log_and_the_receipt_have_the_endpoints_message_and_the_client_has_ours(tmp_path: Path, config: str):
    async def run() -> tuple[list[str], str, dict[str, Any]]:
        environ = {"TINY_KEY": KEY}
        async with (
            accord_serve(tmp_path, "relay", "--log-json", config=config, environ=environ) as served,
            aiohttp.ClientSession(served.address) as client,
        ):
            async with client.post("/v1/assist", json=body(1)) as response:
                answer = await response.text()
            await served.until_logged("turn failed")
            async with client.get(f"/v1/requests/{body(1)['request_id']}/receipt") as response:
                return list(served.log_lines), answer, await response.json()

    lines, answer, receipt = asyncio.run(run())
    records = [json.loads(line) for line in lines if line.startswith("{")]
    failed = [record["fields"] for record in records if record["message"] == "backend failed"]
    assert [fields["backend"] for fields in failed] == ["first", "second"]
    assert failed[0]["endpoint_message"].startswith(MESSAGE)
    assert failed[0]["endpoint_message"].endswith(f"{MASK} {MASK}")
    assert failed[1]["endpoint_message"] == "502 Bad Gateway proxy-7"
    assert [fallback["endpoint_message"] for fallback in receipt["work"][0]["fallbacks"]] == [
        fields["endpoint_message"] for fields in failed
    ]
    assert MESSAGE not in answer
    assert "proxy-7" not in answer
    assert "the endpoint failed (502)" in answer
    assert is_clean("".join(lines) + answer + json.dumps(receipt))


@pytest.mark.parametrize(("path", "says"), [("/gone", "there is no such model or address (404)"), ("/v1", "(400)")])
def test_a_client_whose_request_is_at_fault_gets_the_endpoints_message(
    tmp_path: Path, config: str, path: str, says: str
):
    only = config.partition('[[backends]]\nname = "second"')[0].replace("/v1", path)

    async def run() -> tuple[int, str]:
        environ = {"TINY_KEY": KEY}
        async with (
            accord_serve(tmp_path, "relay", config=only, environ=environ) as served,
            aiohttp.ClientSession(served.address) as client,
            client.post("/v1/assist", json=body(1)) as response,
        ):
            return response.status, await response.text()

    status, answer = asyncio.run(run())
    assert status == 502
    assert f"{says}: {MESSAGE} 2026-01-01 error forged" in answer
    assert f"{MASK} {MASK}" in answer
    assert is_clean(answer)


def test_ask_prints_the_message_of_each_endpoint(tmp_path: Path, config: str):
    (tmp_path / "accord.toml").write_text(config)
    command = [sys.executable, "-m", "accord", "ask", "hi", "--config", "accord.toml"]
    environ = {**os.environ, "TINY_KEY": KEY}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert any(line.startswith(f"first says: {MESSAGE}") for line in lines)
    assert "second says: 502 Bad Gateway proxy-7" in lines
    assert is_clean(done.stderr)
    assert not any(line.startswith("2026-01-01") for line in lines)


@pytest.mark.parametrize(
    ("message", "masked"),
    [
        ("Incorrect API key provided: sk-proj-abc***xyz.", f"Incorrect API key provided: {MASK}"),
        ("invalid_api_key: the api key is not valid", "invalid_api_key: the api key is not valid"),
        ("Rate limit reached in organization org-AbC123def", f"Rate limit reached in organization {MASK}"),
        ("Bearer abc123def456 was refused", f"{MASK} was refused"),
        ("key AIzaSyA1234567890abc expired", f"key {MASK} expired"),
        ("two\nlines\tand   blanks", "two lines and blanks"),
        ("a screen \x1b[2J cleared", "a screen \\u001b[2J cleared"),
    ],
)
def test_only_what_looks_like_a_key_is_masked(message: str, masked: str):
    assert without_secrets(message) == masked


@pytest.mark.parametrize("junk", [b"", b"  \n", b"<html></html>"])
def test_a_body_without_a_message_gives_none(junk: bytes):
    assert text_of(junk) is None
