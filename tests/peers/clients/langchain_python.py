"""LangChain's chat models for both vendors with their defaults: plain, streamed, structured, and the task with a tool.

Arguments: the address of the server, and which API: chat, responses or messages.
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
    return work(model)


def work(model: ChatOpenAI | ChatAnthropic) -> str:
    """Do the task; return the answer."""
    bound = model.bind_tools([read_file])
    messages = [HumanMessage(PROMPT)]
    answer = bound.invoke(messages)
    while answer.tool_calls:
        messages += [answer, *(read_file.invoke(call) for call in answer.tool_calls)]
        answer = bound.invoke(messages)
    return answer.text


if __name__ == "__main__":
    address, api, *rest = sys.argv[1:]
    chosen = (
        ChatAnthropic(model=rest[0] if rest else "claude-opus-5-5", base_url=address, api_key="a-key")
        if api == "messages"
        else ChatOpenAI(
            model=rest[0] if rest else "gpt-4o",
            base_url=address + "/v1",
            api_key="a-key",
            use_responses_api=True if api == "responses" else None,
        )
    )
    print(work(chosen) if rest else run(chosen))
