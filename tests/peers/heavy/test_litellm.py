"""The model backends with LiteLLM's proxy, a real server of three model APIs, which answers from a script."""

import asyncio
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import ModelApi
from accord.apis.messages.codec import MessagesCodec
from accord.apis.responses.codec import ResponsesCodec
from accord.backends.model import Endpoint, ModelBackend
from accord.backends.upstream_aiohttp import AiohttpUpstream
from accord.ports import SystemClock
from accord.wire.conversation import Conversation
from accord.wire.work import AnyPiece, EndPiece, TextPiece, WorkOrder

LITELLM = Path(os.environ["ACCORD_PEERS"]).resolve() / "litellm" / "bin" / "litellm"
ANSWER: Final = "Hello there."
SCRIPT: Final = f"""
model_list:
  - model_name: scripted
    litellm_params: {{model: openai/scripted, api_key: none, mock_response: "{ANSWER}"}}
general_settings: {{dangerously_permit_weak_or_unset_master_key: true}}
"""
QUIET: Final = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "PYTHONUNBUFFERED": "1"}
LIMIT_S: Final = 120


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("litellm")
    (folder / "config.yaml").write_text(SCRIPT)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [LITELLM, "--config", folder / "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, env={**os.environ, **QUIET}
    ) as process:
        assert process.stdout
        watch = threading.Timer(LIMIT_S, process.kill)
        watch.start()
        try:
            lines: list[str] = []
            while "Uvicorn running" not in (line := process.stdout.readline()):
                assert line, lines
                lines.append(line)
            yield f"http://127.0.0.1:{port}"
        finally:
            watch.cancel()
            process.kill()


# LiteLLM cannot stream a scripted answer over the responses API: it answers 500 with an internal AttributeError.
@pytest.mark.parametrize(
    ("api", "base", "stream"),
    [
        (ChatCodec, "/v1", True),
        (ChatCodec, "/v1", False),
        (ResponsesCodec, "/v1", False),
        (MessagesCodec, "", True),
        (MessagesCodec, "", False),
    ],
)
def test_each_api_is_answered(url: str, api: Callable[[], ModelApi], base: str, *, stream: bool):
    message = {"role": "user", "content": [{"type": "text", "text": "Say hello."}]}
    order = WorkOrder(conversation=Conversation.model_validate({"messages": [message]}), stream=stream)

    async def run() -> list[AnyPiece]:
        endpoint = Endpoint(url + base, "scripted", "a-key")
        backend = ModelBackend("litellm", api(), endpoint, AiohttpUpstream(), SystemClock())
        try:
            await backend.probe()
            return [piece async for piece in backend.answer(order)]
        finally:
            await backend.aclose()

    *texts, end = asyncio.run(asyncio.wait_for(run(), LIMIT_S))
    assert "".join(piece.text for piece in texts if isinstance(piece, TextPiece)) == ANSWER
    assert isinstance(end, EndPiece)
    assert end.usage
