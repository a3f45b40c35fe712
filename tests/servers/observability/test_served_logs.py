"""The log of a real `accord serve`: what its libraries warn of has the format of everything else."""

import asyncio
import json
from pathlib import Path

from tests.servers.process import accord_serve
from tests.servers.transports import within


def test_a_warning_of_uvicorn_is_a_line_of_json_like_every_other(tmp_path: Path):
    async def run() -> None:
        async with accord_serve(tmp_path, "--log-json") as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
            await reader.read()
            writer.close()
            line = json.loads(await served.until_logged("Invalid HTTP request received"))
            assert (line["level"], line["logger"]) == ("warning", "uvicorn.error")

    within(run)
