"""The floor of the benchmark: a pass-through of Starlette and aiohttp, with nothing that a gateway adds.

It reads no JSON, keeps no record and writes no log; what it costs is the price of HTTP in Python.

    python -m bench.gateways.bare PORT UPSTREAM_PORT
"""

import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route


def make_application(upstream: str) -> Starlette:
    """One route that forwards a chat request and its answer."""
    clients: list[aiohttp.ClientSession] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            clients.append(client)
            yield

    async def forward(request: Request) -> Response:
        answer = await clients[0].post(
            upstream, data=await request.body(), headers={"content-type": "application/json"}
        )
        kind = answer.headers.get("content-type", "application/json")
        if kind.startswith("text/event-stream"):
            return StreamingResponse(pieces(answer), answer.status, media_type=kind)
        async with answer:
            return Response(await answer.read(), answer.status, media_type=kind)

    return Starlette(routes=[Route("/v1/chat/completions", forward, methods=["POST"])], lifespan=lifespan)


async def pieces(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The body as it arrives."""
    async with answer:
        async for piece in answer.content.iter_any():
            yield piece


def main(port: int, upstream_port: int) -> None:
    """Serve until the process is ended."""
    application = make_application(f"http://127.0.0.1:{upstream_port}/v1/chat/completions")
    uvicorn.run(application, port=port, loop="uvloop", http="httptools", access_log=False, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
