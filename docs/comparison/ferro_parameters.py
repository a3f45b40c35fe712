"""What Ferro's gateway does with an image for a text model, and with fields that Anthropic's API does not have.

The models are a local program. `python ferro_parameters.py FERROGW` with the path of the program `ferrogw`.
"""

# ruff: noqa: T201, D102, S310, S603 - it prints what happens, and starts a program that the user names

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

KEY = "fgw_0123456789abcdef0123456789abcdef"
CONFIG = {"strategy": {"mode": "fallback"}, "targets": [{"virtual_key": "openai"}, {"virtual_key": "anthropic"}]}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "city", "schema": {"type": "object"}}}
CASES = {
    "an image for gpt-3.5-turbo": {"model": "gpt-3.5-turbo", "messages": [{"role": "user", "content": [IMAGE]}]},
    "seed, n = 2 and a JSON schema for Claude": {
        "model": "claude-3-5-sonnet-20241022",
        "messages": [{"role": "user", "content": "Name a city."}],
        "seed": 7,
        "n": 2,
        "response_format": SCHEMA,
    },
}
RECEIVED = []


class Models(BaseHTTPRequestHandler):
    """Records a request of either API and answers it with a sentence."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        RECEIVED.append(body)
        message = {"role": "assistant", "content": "Berlin is a city."}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        answer = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": choices,
            "usage": usage,
        }
        if self.path.endswith("/messages"):
            usage = {"input_tokens": 1, "output_tokens": 1}
            content = [{"type": "text", "text": "Berlin is a city."}]
            answer = {"id": "1", "type": "message", "role": "assistant", "content": content, "usage": usage}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def send(port, body):
    """The status, the headers and the body of the answer."""
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    request = Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(), headers)
    for _ in range(100):
        try:
            with urlopen(request, timeout=10) as response:
                return response.status, dict(response.headers), json.load(response)
        except HTTPError as error:
            return error.code, dict(error.headers), json.load(error)
        except URLError:  # it has not started yet
            time.sleep(0.1)
    sys.exit("ferrogw does not answer")


def show(port):
    """Send each case and print what the model received and what the client got."""
    for title, body in CASES.items():
        RECEIVED.clear()
        status, headers, answer = send(port, body)
        labels = sorted(name for name in headers if "drop" in name.lower() or "warn" in name.lower())
        got = answer.get("error", {}).get("message") or [each["message"]["content"] for each in answer["choices"]]
        sent = [sorted(received) for received in RECEIVED] or "nothing"
        print(f"  {title}: {status} {got}")
        print(f"    the model received {sent}; labels: {labels + [name for name in answer if 'drop' in name]}")


models = HTTPServer(("127.0.0.1", 0), Models)
threading.Thread(target=models.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{models.server_port}"
for number, policy in enumerate(("the default", "drop", "reject")):
    print(f"on_unsupported_param: {policy}")
    config = CONFIG if policy == "the default" else {**CONFIG, "compatibility": {"on_unsupported_param": policy}}
    port = models.server_port + 1 + number
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "config.json")
        file.write_text(json.dumps(config))
        environment = {
            "PATH": os.environ["PATH"],
            "GATEWAY_CONFIG": str(file),
            "MASTER_KEY": KEY,
            "PORT": str(port),
            "FERRO_MODEL_CATALOG_URL": address,  # it has a copy of the catalogue, and uses that
            **{f"{name}_API_KEY": "unused" for name in ("OPENAI", "ANTHROPIC")},
            **{f"{name}_BASE_URL": address for name in ("OPENAI", "ANTHROPIC")},
        }
        log = Path(folder, "log")
        with log.open("w") as output:
            gateway = subprocess.Popen(
                [sys.argv[1], "serve"], env=environment, cwd=folder, stdout=output, stderr=output
            )
        try:
            show(port)
        finally:
            gateway.terminate()
            gateway.wait(10)
        for line in log.read_text().splitlines():
            if "dropped_params" in line:
                print(f"    its log: {line[line.index('msg') - 1 : -1]}")
