"""`accord serve` loads what it serves with: each module costs every start some time, and its memory for good."""

import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

LIMIT_S = 60
CONFIG = """
[[backends]]
name = "m"
kind = "openai"
model = "m"
base_url = "http://127.0.0.1:9/v1"
manifest = "declared"
[store]
kind = "sqlite"
path = "accord.db"
"""
IMPORTED = re.compile(r"^import time: .*\| +(\S+)$", re.MULTILINE)
"""A line that Python writes to standard error for each module with `-X importtime`."""
UNUSED = """
    PIL aiohttp alembic asyncpg cryptography greenlet httpx jinja2 joserfc jsonschema_rs limits mako rich
    sqlalchemy.dialects.postgresql sqlalchemy.orm tkinter tracemalloc unittest
    accord.acp_tools accord.backends.acp accord.apis.gemini.codec
    accord.backends.upstream_aiohttp accord.client accord.console accord.servers.acp accord.stdio
    accord.stores.memory accord.stores.migrations accord.stores.postgres
    accord.acp.draft accord.acp.schema_v1 accord.acp.schema_v2
    accord.wire.contract accord.wire.inspection
""".split()
"""What a service with one OpenAI backend and an up-to-date SQLite file does not use; each with all below it."""


def test_a_service_loads_nothing_that_it_does_not_use(tmp_path: Path):
    (tmp_path / "accord.toml").write_text(CONFIG)
    accord = [sys.executable, "-X", "importtime", "-m", "accord"]
    added = subprocess.run(
        [*accord, "keys", "add", "ada", "--config", "accord.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert "alembic" in imported_by(added.stderr)  # the file was new: what this test looks for can be seen
    command = [*accord, "serve", "--config", "accord.toml", "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as service:
        assert service.stderr is not None
        try:
            before = "".join(takewhile(lambda line: not line.startswith("Send a request"), service.stderr))
            service.terminate()
            _, after = service.communicate(timeout=LIMIT_S)
        finally:
            service.kill()
    assert "Serving demo at" in before
    found = imported_by(before + after)
    assert {"accord.stores.sqlite", "accord.apis.chat.codec", "uvicorn"} <= found
    assert sorted(name for name in found if any(f"{name}.".startswith(f"{unused}.") for unused in UNUSED)) == []


def imported_by(output: str) -> set[str]:
    """The modules that a process has imported, by what it wrote to standard error."""
    return set(IMPORTED.findall(output))
