"""Run the fake model by hand: `python -m accord.acp_tools.inspect.fake_model`, until Ctrl-C."""

import asyncio
import contextlib
import shlex
import sys

from accord.acp_tools.inspect.fake_model import FakeModel


async def _serve() -> None:
    async with FakeModel() as model:
        for name, value in model.environ().items():
            sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
        sys.stdout.write(f"# The fake model is at {model.url}; Ctrl-C ends it.\n")
        sys.stdout.flush()
        printed = 0
        while True:
            await model.wait_until(lambda: False, 1)
            for request in model.requests:
                if request.number > printed:
                    printed = request.number
                    media = [f"{each.kind} {each.media_type} {len(each.data)} bytes" for each in request.media]
                    users = [message.text for message in request.messages if message.role == "user"]
                    text = " ".join(users[-1].split())[:200] if users else ""
                    sys.stdout.write(f"# {request.number} {request.api} {request.path} {media or ''} {text}\n")
            for path in model.unknown_paths:
                sys.stdout.write(f"# unknown: {path}\n")
            model.unknown_paths.clear()
            sys.stdout.flush()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve())
