"""Run the fake model by hand: `python -m accord.acp_tools.inspect.fake_model`, until Ctrl-C."""

import asyncio
import contextlib
import shlex
import signal
import sys

from accord.acp_tools.inspect.fake_model import ReceivedRequest
from accord.acp_tools.inspect.fake_model.received_request import message_text
from accord.acp_tools.inspect.fake_model.server import FakeModel
from accord.terminal import escape_line
from accord.wire.conversation import Role


async def _serve() -> None:
    async with FakeModel() as model:
        for name, value in model.environ().items():
            _print(f"export {name}={shlex.quote(value)}")
        _print(f"# The fake model is at {model.url}; Ctrl-C ends it.")
        printed: set[int] = set()
        while True:
            # Unknown paths end no wait, so they are looked for each second.
            await model.wait_until(lambda: any(each.number not in printed for each in model.requests), timeout_s=1)
            new = [request for request in model.requests if request.number not in printed]
            printed.update(request.number for request in new)
            refused = (f"refused: {each}" for each in dict.fromkeys(map(str, model.refused)))
            unknown = (f"unknown: {path}" for path in model.unknown_paths)
            for line in [*map(_describe, new), *refused, *unknown]:
                _print(f"# {line}")
            model.refused.clear()
            model.unknown_paths.clear()


def _describe(request: ReceivedRequest) -> str:
    users = [message for message in request.messages if message.role is Role.USER]
    media = [f"[{each.kind} {each.media_type} {len(each.data)} bytes]" for each in request.media]
    text = " ".join(message_text(users[-1]).split())[-200:] if users else ""
    return " ".join([str(request.number), request.api, request.model, *media, text])


def _print(line: str) -> None:
    sys.stdout.write(escape_line(line) + "\n")
    sys.stdout.flush()


async def _serve_until_interrupted() -> None:
    serving = asyncio.ensure_future(_serve())
    # Also where the starting shell ignores Ctrl-C, as one in the background does.
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


if __name__ == "__main__":
    asyncio.run(_serve_until_interrupted())
