"""`accord serve` as a real process, with a scripted model server behind three backends: one for each API."""

import os
import re
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.record_clients.server import ModelServer, model_server
from scripts.record_clients.task import CONTENT, NOTE

BACKENDS: Final = ("chat", "responses", "messages")
"""The names of the backends, which are the APIs that they use."""
PATHS: Final = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
"""Where each backend sends its requests."""
CONFIG: Final = """
[[backends]]
name = "chat"
kind = "openai"
model = "gpt-4o"
base_url = "{address}/v1"
[backends.options]
retries = 0

[[backends]]
name = "responses"
kind = "openai"
model = "gpt-4o"
base_url = "{address}/v1"
[backends.options]
api = "responses"
retries = 0

[[backends]]
name = "messages"
kind = "anthropic"
model = "claude-opus-5-5"
base_url = "{address}"
[backends.options]
retries = 0

[store]
path = "accord.db"
"""


@dataclass(frozen=True, slots=True)
class ServedModels:
    """A running service. `upstream` has the requests that it sent; `folder` is where a scripted model reads files."""

    address: str
    upstream: ModelServer
    folder: Path


@contextmanager
def serve_models(folder: Path, config: str = "") -> Generator[ServedModels]:
    """Serve the three backends until the block ends; `config` is added to the configuration."""
    work = folder / "work"
    work.mkdir()
    (work / NOTE).write_text(CONTENT + "\n")
    keys = {f"ACCORD_KEY_{name.upper()}": "a-key" for name in BACKENDS}
    with (
        model_server(work) as upstream,
        serve_config(folder, CONFIG.format(address=upstream.address) + config, keys) as address,
    ):
        yield ServedModels(address, upstream, work)


@contextmanager
def serve_config(folder: Path, config: str, keys: Mapping[str, str]) -> Generator[str]:
    """Run `accord serve` with this configuration and these variables, and give its address."""
    (folder / "accord.toml").write_text(config)
    log = folder / "log"
    command = [sys.executable, "-m", "accord", "serve", "--port", "0", "--config", "accord.toml"]
    environ = {**os.environ, "PYTHONUNBUFFERED": "1", "ACCORD_STATE_DIR": str(folder / "state")}
    environ |= keys
    with (
        log.open("w") as errors,
        subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout
        try:
            # A process that cannot start ends, and then there is no line; pytest's limit bounds the rest.
            found = re.search(r"http://\S+?(?=/v1)", process.stdout.readline())
            assert found, log.read_text()
            yield found.group()
        finally:
            process.kill()
            process.wait(10)
