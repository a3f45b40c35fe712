"""A raw agent for the tests of the proxy: it records every byte that it receives, and answers with unusual bytes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

behaviour, path = sys.argv[1:3]
GARBAGE = b'\xff\xfe\x00 {"jsonrpc"\r\n\n  \n[]\n{]\n{"jsonrpc":"2.0","id":99,"result":1}\r\n'
RESULTS = {1: '{"protocolVersion":1,"agentCapabilities":{}}', 2: '{"protocolVersion":2,"capabilities":{"session":{}}}'}
UPDATE = (
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    '{"sessionUpdate":"agent_message_chunk","content":{"text":"h\\u00e9","type":"text"}}}}\n'
)


def write(data: bytes) -> None:
    size = 7 if behaviour == "pieces" else max(1, len(data))
    for start in range(0, len(data), size):
        sys.stdout.buffer.write(data[start : start + size])
        sys.stdout.buffer.flush()


def flood() -> None:
    """Write small numbered lines without end."""
    number = 0
    while True:
        number += 1
        write(b'{"jsonrpc":"2.0","method":"test/%d","params":{"filling":"%s"}}\n' % (number, b"x" * 900))
        os.pwrite(sent, b"%20d" % number, 0)


def handle(line: bytes) -> None:
    try:
        message: Any = json.loads(line)
        if isinstance(message, list):
            call_id = int(message[-1]["id"])  # pyright: ignore[reportUnknownArgumentType]
            write(b'[ {"jsonrpc":"2.0","id":%d,"result":{}} ]\n' % call_id)
        elif message["method"] != "session/cancel":
            answer_or_end(message["method"], message["id"], message["params"])
    except (ValueError, LookupError, TypeError):
        write(b'{"jsonrpc": "2.0",   "id": null, "error": {"code": -32700, "message": "what?"}}\n')


def answer_or_end(method: str, call_id: object, params: dict[str, int]) -> None:
    match method:
        case "test/never":
            pass
        case "test/die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "test/half-line":
            write(b'{"jsonrpc":"2.0","id":99,"res')
            os._exit(3)
        case "test/leave-a-child":
            subprocess.Popen(["sleep", "60"])
            write(UPDATE.encode())
            os._exit(3)
        case "test/close-output":
            write(UPDATE.encode())
            os.close(1)
        case "test/close-input":
            os.close(0)
            write(UPDATE.encode())
            while not os.path.exists(f"{path}.go-on"):  # noqa: PTH110 - as below
                time.sleep(0.02)
            write(f'{{"jsonrpc":"2.0","id":{json.dumps(call_id)},"result":{{}}}}\n'.encode())
            os._exit(0)
        case _:
            answer(method, call_id, params)


def answer(method: str, call_id: object, params: dict[str, int]) -> None:
    result = ' {"stopReason":"end_turn"}'
    match method:
        case "test/flood":
            threading.Thread(target=flood, daemon=True).start()
            return
        case "test/garbage":
            write(GARBAGE)
        case "test/long":
            write(b'{"long":"' + b"y" * params["size"] + b'"}\n')
        case "session/prompt":
            write(UPDATE.encode())
        case _:
            result = RESULTS[params["protocolVersion"]]
    write(f'{{"jsonrpc":"2.0", "id":{json.dumps(call_id)}, "result": {result}}}\n'.encode())


if behaviour == "crash":
    sys.exit(3)
if behaviour == "stubborn":
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, signal.SIG_IGN)
sent = os.open(f"{path}.sent", os.O_RDWR | os.O_CREAT, 0o600)
with open(path, "wb", buffering=0) as record:  # noqa: PTH123 - started without the standard site, to be quick
    record.write(b"")
    for received in sys.stdin.buffer:
        record.write(received)
        handle(received)
while behaviour == "stubborn":
    time.sleep(1)
