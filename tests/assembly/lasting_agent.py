"""An ACP agent that leaves its process id in a file. A stubborn one outlives its input; a mute one never answers."""

import json
import os
import sys
import time

path, manner = sys.argv[1:3]
with open(f"{path}.new", "w", encoding="utf-8") as file:  # noqa: PTH123 - started without the standard site, to be quick
    file.write(str(os.getpid()))
os.rename(f"{path}.new", path)  # noqa: PTH104 - whoever sees the file sees all of it
if manner != "mute":
    for line in sys.stdin:
        call = json.loads(line)
        print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": {"protocolVersion": 1}}), flush=True)
if manner != "polite":
    time.sleep(60)
