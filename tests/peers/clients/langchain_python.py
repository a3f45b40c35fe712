"""LangChain's chat models for both vendors with their defaults: plain, streamed, structured, and the task with a tool.

Arguments: the address of the server, which API (chat, responses or messages), and the model.
"""
# pyright: basic, reportMissingImports=false

import sys
from pathlib import Path

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

PROMPT = "Read the file note.txt in the current folder and tell me what it says."
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


class City(BaseModel):
    """The form of a structured answer."""

    name: str
    population: int


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


def run(model: ChatOpenAI | ChatAnthropic) -> str:
    """Every kind of call; return the answer to the task."""
    model.invoke("Hello")
    for _ in model.stream("Hello"):
        pass
    print(model.with_structured_output(City).invoke("A city?"))
    image = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    model.invoke([HumanMessage([{"type": "text", "text": "What is this?"}, image])])
    bound = model.bind_tools([read_file])
    messages = [HumanMessage(PROMPT)]
    answer = bound.invoke(messages)
    while answer.tool_calls:
        messages += [answer, *(read_file.invoke(call) for call in answer.tool_calls)]
        answer = bound.invoke(messages)
    return answer.text


if __name__ == "__main__":
    address, api, name = sys.argv[1:]
    if api == "messages":
        print(run(ChatAnthropic(model=name, base_url=address, api_key="a-key")))
    else:
        kind = {"use_responses_api": True} if api == "responses" else {}
        print(run(ChatOpenAI(model=name, base_url=address + "/v1", api_key="a-key", **kind)))
