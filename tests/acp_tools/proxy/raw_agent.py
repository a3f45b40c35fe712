"""A raw agent for the tests of the proxy: keeps every byte that it is sent, and answers in bytes of its own choosing."""

import json
import os
import signal
import sys
import threading
import time
from typing import Any

manner, path = sys.argv[1:3]
GARBAGE = b'\xff\xfe\x00 {"jsonrpc"\r\n\n  \n[]\n{]\n{"jsonrpc":"2.0","id":99,"result":1}\r\n'
RESULTS = {1: '{"protocolVersion":1,"agentCapabilities":{}}', 2: '{"protocolVersion":2,"capabilities":{"session":{}}}'}
UPDATE = (
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    '{"sessionUpdate":"agent_message_chunk","content":{"text":"h\\u00e9","type":"text"}}}}\n'
)


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def flood() -> None:
    """Small numbered lines for as long as they are taken."""
    number = 0
    while True:
        number += 1
        write(b'{"jsonrpc":"2.0","method":"test/%d","params":{"filling":"%s"}}\n' % (number, b"x" * 900))
        os.pwrite(sent, b"%20d" % number, 0)


def hear(line: bytes) -> None:
    try:
        told: Any = json.loads(line)
        if isinstance(told, list):
            own = int(told[-1]["id"])  # pyright: ignore[reportUnknownArgumentType]
            write(b'[ {"jsonrpc":"2.0","id":%d,"result":{}} ]\n' % own)
        elif told["method"] != "session/cancel":
            answer(told["method"], told["id"], told["params"])
    except (ValueError, LookupError, TypeError):
        write(b'{"jsonrpc": "2.0",   "id": null, "error": {"code": -32700, "message": "what?"}}\n')


def answer(method: str, own: object, params: dict[str, int]) -> None:
    result = ' {"stopReason":"end_turn"}'
    match method:
        case "test/flood":
            threading.Thread(target=flood, daemon=True).start()
            return
        case "test/die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "test/garbage":
            write(GARBAGE)
        case "test/long":
            write(b'{"long":"' + b"y" * params["size"] + b'"}\n')
        case "session/prompt":
            write(UPDATE.encode())
        case _:
            result = RESULTS[params["protocolVersion"]]
    write(f'{{"jsonrpc":"2.0", "id":{json.dumps(own)}, "result": {result}}}\n'.encode())


if manner == "crash":
    sys.exit(3)
if manner == "stubborn":
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, signal.SIG_IGN)
sent = os.open(f"{path}.sent", os.O_RDWR | os.O_CREAT, 0o600)
with open(path, "wb", buffering=0) as kept:  # noqa: PTH123 - started without the standard site, to be quick
    kept.write(b"")
    for said in sys.stdin.buffer:
        kept.write(said)
        hear(said)
while manner == "stubborn":
    time.sleep(1)
