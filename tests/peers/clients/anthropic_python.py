"""The anthropic package with its defaults: each call once, against the server whose address is given."""
# pyright: basic, reportMissingImports=false

import sys
from pathlib import Path
from typing import Any

from anthropic import Anthropic, beta_tool
from pydantic import BaseModel

MODEL = "claude-opus-5-5"
PROMPT = "Read the file note.txt in the current folder and tell me what it says."
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {
    "name": "read_file",
    "description": "Read a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


class City(BaseModel):
    """The form of a structured answer."""

    name: str
    population: int


@beta_tool
def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


def plain(client: Any) -> str:
    """Every call of the messages API; return the answer to the task."""
    create = client.messages.create
    create(model=MODEL, max_tokens=256, messages=HELLO)
    for _ in create(model=MODEL, max_tokens=256, messages=HELLO, stream=True):
        pass
    with client.messages.stream(model=MODEL, max_tokens=256, messages=HELLO) as events:
        events.get_final_message()
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "What is this?"}]
    create(model=MODEL, max_tokens=256, messages=[{"role": "user", "content": content}])
    client.messages.count_tokens(model=MODEL, messages=HELLO, tools=[TOOL])
    print(client.messages.parse(model=MODEL, max_tokens=256, messages=HELLO, output_format=City).parsed_output)
    ask = [{"role": "user", "content": PROMPT}]
    called = create(model=MODEL, max_tokens=256, messages=ask, tools=[TOOL])
    text = Path("note.txt").read_text()
    result = {"type": "tool_result", "tool_use_id": called.content[-1].id, "content": text}
    history = [*ask, {"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    return create(model=MODEL, max_tokens=256, messages=history, tools=[TOOL]).content[0].text


def beta(client: Any) -> str:
    """The calls of the beta API that do more than the plain ones; return the answer to the task."""
    print(client.beta.messages.parse(model=MODEL, max_tokens=256, messages=HELLO, output_format=City).parsed_output)
    ask = [{"role": "user", "content": PROMPT}]
    runner = client.beta.messages.tool_runner(model=MODEL, max_tokens=256, messages=ask, tools=[read_file])
    return runner.until_done().content[0].text


if __name__ == "__main__":
    sdk = Anthropic(base_url=sys.argv[1], api_key="a-key")
    print([model.id for model in sdk.models.list()])
    print(plain(sdk))
    print(beta(sdk))
