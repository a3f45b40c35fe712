"""What one request and one chunk of a stream cost with each HTTP client for model endpoints, on uvloop.

The endpoint is a process of its own that writes prepared bytes (`bench/gateways/upstream.py`). The clients take turns
in one run, and the best of several rounds counts: the processor time of this process, since the machine is shared.
Chunks of a paced stream come one by one, as a model sends them, so that each is one read.
"""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import process_time
from typing import Final

import uvloop

from accord.backends.model_options import TRANSPORTS, make_upstream
from accord.backends.upstream import Upstream, UpstreamError, UpstreamRequest, UpstreamTimeouts

ROUNDS: Final = 8
REQUESTS: Final = 960
WORKERS: Final = 16
STREAMS: Final = 16
PAUSE_MS: Final = 2
HEADERS: Final = {"accept": "*/*", "content-type": "application/json", "authorization": "Bearer k"}
Measured = Callable[[Upstream, str], Awaitable[int]]


def chat(url: str, body: bytes = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}') -> UpstreamRequest:
    """A chat request."""
    return UpstreamRequest("POST", f"{url}/v1/chat/completions", HEADERS, body)


async def call(upstream: Upstream, request: UpstreamRequest, times: int) -> int:
    """Send this request so often, one after the other; return the number of reads."""
    for _ in range(times):
        reply = await upstream.send(request)
        while await reply.read():
            pass
        await reply.close()
    return times


async def one_by_one(upstream: Upstream, url: str) -> int:
    """Requests without concurrency."""
    return await call(upstream, chat(url), REQUESTS)


async def in_parallel(upstream: Upstream, url: str) -> int:
    """Requests of several workers."""
    return sum(await asyncio.gather(*(call(upstream, chat(url), REQUESTS // WORKERS) for _ in range(WORKERS))))


async def paced_streams(upstream: Upstream, url: str) -> int:
    """Streams at the same time, whose chunks come one by one; return the number of reads."""

    async def stream() -> int:
        reads = 0
        reply = await upstream.send(chat(url, b'{"model":"m","stream":true,"messages":[]}'))
        while await reply.read():
            reads += 1
        await reply.close()
        return reads

    await call(upstream, UpstreamRequest("GET", f"{url}/pace/{PAUSE_MS}"), 1)
    reads = sum(await asyncio.gather(*(stream() for _ in range(STREAMS))))
    await call(upstream, UpstreamRequest("GET", f"{url}/pace/0"), 1)
    return reads


MEASURED: Final[dict[str, Measured]] = {
    "request, one by one": one_by_one,
    f"request, {WORKERS} at once": in_parallel,
    "read of a paced stream": paced_streams,
}


@asynccontextmanager
async def served() -> AsyncGenerator[str]:
    """The address of the endpoint, once it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "bench.gateways.upstream", str(port)]
    process = await asyncio.create_subprocess_exec(*command, cwd=Path(__file__).parent.parent, stdin=subprocess.DEVNULL)
    upstream = make_upstream("direct", url, UpstreamTimeouts(), None)
    try:
        async with asyncio.timeout(20):
            while True:
                with suppress(UpstreamError):
                    await call(upstream, UpstreamRequest("GET", f"{url}/health"), 1)
                    break
                await asyncio.sleep(0.05)
        yield url
    finally:
        await upstream.aclose()
        process.kill()
        await process.wait()


async def main() -> None:
    """Print the figures."""
    least: dict[tuple[str, str], float] = {}
    async with served() as url:
        upstreams = {name: make_upstream(name, url, UpstreamTimeouts(), None) for name in TRANSPORTS}
        for _ in range(ROUNDS):
            for what, measure in MEASURED.items():
                for name, upstream in upstreams.items():
                    began_at = process_time()
                    count = await measure(upstream, url)
                    took = (process_time() - began_at) / count
                    least[what, name] = min(took, least.get((what, name), took))
        for upstream in upstreams.values():
            await upstream.aclose()
    print("Processor time of the client:")
    for what in MEASURED:
        figures = "  ".join(f"{name} {least[what, name] * 1e6:6.1f} µs" for name in TRANSPORTS)
        print(f"  {what:24} {figures}  ({least[what, 'aiohttp'] / least[what, 'direct']:.1f} times less)")


if __name__ == "__main__":
    uvloop.run(main())
