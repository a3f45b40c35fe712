"""Large bodies of many small values, against a real process: refused quickly, in little memory, while others are served."""

import asyncio
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import Any

import aiohttp
import pytest

from tests.servers.serving_child import child
from tests.servers.transports import body, within

SIZE = 64 * 1024 * 1024 - 10_000


def padded(what: bytes, field: str, size: int = SIZE) -> bytes:
    """A request of this size that has this value in a list as often as it fits."""
    mark = '"here"'
    head, tail = json.dumps(body(7, "1", **json.loads(f'{{"{field}": {{"x": "here"}}}}'))).split(mark)
    return head.encode() + b"[" + what + (b"," + what) * (size // (len(what) + 1)) + b"]" + tail.encode()


def content(what: bytes) -> bytes:
    """A request of almost 64 MB of such content blocks."""
    return padded(what, "content").replace(b'{"x": [', b"[", 1).replace(b"]}}", b"]}", 1)


BODIES: dict[str, Callable[[], bytes]] = {
    "unknown content blocks": lambda: content(b'{"type":"x"}'),
    "empty lists in meta": lambda: padded(b"[]", "meta"),
    "empty lists in a frame": lambda: padded(b"[]", "meta", 15 * 1024 * 1024),
}


def peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


async def post_http(session: aiohttp.ClientSession, address: str, hostile: bytes) -> Any:
    sent, headers = BytesIO(hostile), {"Content-Type": "application/json"}
    async with session.post(f"{address}/v1/assist", data=sent, headers=headers) as got:
        return got.status, (await got.json())["code"]


async def post_frame(session: aiohttp.ClientSession, address: str, hostile: bytes) -> Any:
    async with session.ws_connect(f"{address}/v1/ws", max_msg_size=0) as socket:
        await socket.send_str(hostile.decode())
        packet = await socket.receive_json(timeout=20)
        return packet["op"], packet["p"]["code"]


async def ask_meanwhile(session: aiohttp.ClientSession, address: str, stop: asyncio.Event) -> list[float]:
    """Small turns of another client, one after the other, and how long each took."""
    took: list[float] = []
    number = 100
    while not stop.is_set() or not took:
        number, began_at = number + 1, perf_counter()
        async with session.post(f"{address}/v1/assist", json=body(number, "1", session=f"s{number}")) as got:
            assert got.status == 200
        took.append(perf_counter() - began_at)
        await asyncio.sleep(0.01)
    return took


@pytest.mark.parametrize(
    ("send", "name"),
    [(post_http, "unknown content blocks"), (post_http, "empty lists in meta"), (post_frame, "empty lists in a frame")],
)
def test_a_body_of_many_values_is_refused_while_others_are_served(send: Any, name: str, tmp_path: Path):
    async def run() -> None:
        hostile = BODIES[name]()
        async with child(tmp_path / "s.db") as (process, address), aiohttp.ClientSession() as session:
            stop = asyncio.Event()
            other = asyncio.create_task(ask_meanwhile(session, address, stop))
            began_at = perf_counter()
            refused = await send(session, address, hostile)
            took_s = perf_counter() - began_at
            stop.set()
            waits = await other
            print(f"{took_s:.2f} s, others at most {max(waits):.3f} s, peak {peak_mb(process.pid):.0f} MB")
            assert refused == ((413, "too_large") if send is post_http else ("error", "too_large"))
            # Both clients share this process, where packing 64 MB takes most of the time.
            assert took_s < 5
            assert max(waits) < 2
            assert peak_mb(process.pid) < 400

    within(run)


def test_media_of_many_bytes_and_few_values_are_still_accepted(tmp_path: Path):
    async def run() -> None:
        link = {"type": "resource_link", "name": "n, [x], {y}" * 99, "uri": "data:image/png;base64," + "A" * 30_000_000}
        sent, headers = BytesIO(json.dumps(body(9, "1", content=[link])).encode()), {"Content-Type": "application/json"}
        async with (
            child(tmp_path / "s.db") as (_, address),
            aiohttp.ClientSession() as session,
            session.post(f"{address}/v1/assist", data=sent, headers=headers) as got,
        ):
            assert got.status == 200

    within(run)
