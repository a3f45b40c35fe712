"""What pydantic-ai does with a model whose profile says: no images, no JSON schemas. The model is a local program."""

# ruff: noqa: T201, D101, D102 - it prints what happens, with the method names of a library

import json
import threading
import time
import warnings
from http.server import BaseHTTPRequestHandler, HTTPServer

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, NativeOutput, PromptedOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

RECEIVED = []


class Model(BaseHTTPRequestHandler):
    """Records a chat request and answers it with JSON."""

    def do_POST(self):
        RECEIVED.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        message = {"role": "assistant", "content": '{"name": "Berlin"}'}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        answer = {"id": "1", "object": "chat.completion", "created": int(time.time()), "model": "m", "choices": choices}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class City(BaseModel):
    name: str


server = HTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
provider = OpenAIProvider(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="unused")
profile = ModelProfile(supports_image_input=False, supports_json_schema_output=False)
model = OpenAIChatModel("m", provider=provider, profile=profile)
image = BinaryContent(b"\x89PNG", media_type="image/png")

answer = Agent(model).run_sync(["What is this?", image])
print("an image in the prompt:", [part["type"] for part in RECEIVED[-1]["messages"][-1]["content"]], "was sent")

try:
    Agent(model, output_type=NativeOutput(City)).run_sync("Name a city.")
except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
    print(f"a native JSON schema: {type(error).__name__}: {error}")

answer = Agent(model, output_type=PromptedOutput(City)).run_sync("Name a city.")
print(f"a prompted JSON schema: {answer.output!r}, from {json.dumps(RECEIVED[-1]['messages'][0])[:90]}…")

with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    Agent(model).run_sync("Hello", model_settings={"top_k": 40, "seed": 7})
print("top_k and seed:", {name: RECEIVED[-1].get(name) for name in ("top_k", "seed")}, "were sent; warnings:", warned)
