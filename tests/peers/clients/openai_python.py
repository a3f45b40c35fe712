"""The openai package with its defaults: each call once, against the server whose address is given."""
# pyright: basic, reportMissingImports=false

import sys
from pathlib import Path
from typing import Any

from openai import OpenAI
from pydantic import BaseModel

MODEL = "gpt-4o"
PROMPT = "Read the file note.txt in the current folder and tell me what it says."
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
PARAMETERS = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}


class City(BaseModel):
    """The form of a structured answer."""

    name: str
    population: int


def chat(client: Any) -> str:
    """Every call of the chat completions API; return the answer to the task."""
    ask = [{"role": "user", "content": PROMPT}]
    client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello"}])
    for _ in client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello"}], stream=True):
        pass
    with client.chat.completions.stream(model=MODEL, messages=[{"role": "user", "content": "Hello"}]) as events:
        for _ in events:
            pass
    city = [{"role": "user", "content": "A city?"}]
    parsed = client.chat.completions.parse(model=MODEL, messages=city, response_format=City)
    print(parsed.choices[0].message.parsed)
    image = {"type": "image_url", "image_url": {"url": PIXEL}}
    client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}]
    )
    tool = {
        "type": "function",
        "function": {"name": "read_file", "description": "Read a file.", "parameters": PARAMETERS},
    }
    message = client.chat.completions.create(model=MODEL, messages=ask, tools=[tool]).choices[0].message
    call = message.tool_calls[0]
    result = {"role": "tool", "tool_call_id": call.id, "content": Path("note.txt").read_text()}
    answer = client.chat.completions.create(model=MODEL, messages=[*ask, message, result], tools=[tool])
    return answer.choices[0].message.content


def responses(client: Any) -> str:
    """Every call of the responses API; return the answer to the task."""
    client.responses.create(model=MODEL, input="Hello")
    for _ in client.responses.create(model=MODEL, input="Hello", stream=True):
        pass
    with client.responses.stream(model=MODEL, input="Hello") as events:
        for _ in events:
            pass
    print(client.responses.parse(model=MODEL, input="A city?", text_format=City).output_parsed)
    content = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PIXEL}]
    client.responses.create(model=MODEL, input=[{"role": "user", "content": content}])
    tool = {
        "type": "function",
        "name": "read_file",
        "description": "Read a file.",
        "parameters": PARAMETERS,
        "strict": True,
    }
    ask = [{"role": "user", "content": PROMPT}]
    called = client.responses.create(model=MODEL, input=ask, tools=[tool])
    call = called.output[-1]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": Path("note.txt").read_text()}
    return client.responses.create(model=MODEL, input=[*ask, *called.output, result], tools=[tool]).output_text


if __name__ == "__main__":
    sdk = OpenAI(base_url=sys.argv[1] + "/v1", api_key="a-key")
    print([model.id for model in sdk.models.list()])
    print(chat(sdk))
    print(responses(sdk))
