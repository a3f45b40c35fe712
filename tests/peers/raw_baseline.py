"""An agent without a library that declares no content beyond the baseline, records every line, and is killed by the word "die"."""

import json
import os
import signal
import sys

RESULTS = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}

with open(sys.argv[1], "wb", buffering=0) as record:  # noqa: PTH123 - started without the standard site, to be quick
    for line in sys.stdin.buffer:
        record.write(line)
        call = json.loads(line)
        if "die" in json.dumps(call["params"]):
            os.kill(os.getpid(), signal.SIGKILL)
        result = RESULTS.get(call["method"], {"stopReason": "end_turn"})
        print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}), flush=True)
