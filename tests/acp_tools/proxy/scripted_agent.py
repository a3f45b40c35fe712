"""An agent that sends `_meta.updates` of each request, one line each, and then `_meta.answer` as its result."""

import json
import sys

for line in sys.stdin:
    call = json.loads(line)
    meta = call["params"].get("_meta", {})
    for update in meta.get("updates", []):
        params = {"sessionId": "s", "update": update}
        print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    answer = meta.get("answer", {"stopReason": "end_turn"})
    print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": answer}), flush=True)
