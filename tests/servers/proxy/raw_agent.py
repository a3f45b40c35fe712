"""A raw agent for the tests of the proxy: keeps every byte that it is sent, and answers in bytes of its own choosing."""

import json
import sys

manner, path = sys.argv[1:3]
if manner == "crash":
    sys.exit(3)
with open(path, "wb", buffering=0) as kept:  # noqa: PTH123 - started without the standard site, to be quick
    for line in sys.stdin.buffer:
        kept.write(line)
        try:
            told = json.loads(line)
            method, own = told["method"], told["id"]
        except (ValueError, KeyError, TypeError):
            sys.stdout.buffer.write(
                b'{"jsonrpc": "2.0",   "id": null, "error": {"code": -32700, "message": "what?"}}\n'
            )
            sys.stdout.buffer.flush()
            continue
        if method == "session/prompt":
            text = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"text":"h\\u00e9","type":"text"}}}}'
            sys.stdout.write(text + "\n")
            answer = '"result":  {"stopReason":"end_turn"}'
        else:
            answer = '"result":{"protocolVersion":1,"agentCapabilities":{}}'
        sys.stdout.write(f'{{"jsonrpc":"2.0", "id":{json.dumps(own)}, {answer}}}\n')
        sys.stdout.flush()
