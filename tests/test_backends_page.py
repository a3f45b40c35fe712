"""docs/backends.md is right: its configurations can be built, and its backend answers."""

import asyncio
import inspect
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from accord.apis.chat.codec import ChatCodec
from accord.apis.failure import FAILURE_RULES
from accord.apis.messages.codec import MessagesCodec
from accord.apis.responses.codec import ResponsesCodec
from accord.assembly.parts import build_backends
from accord.backends.model import Endpoint, ModelBackend
from accord.backends.model_options import APIS, OPTIONS
from accord.backends.upstream import UpstreamReply, UpstreamRequest
from accord.config import read_config
from accord.core.sse import ServerEvent
from accord.core.work.fields import TABLE
from accord.ports import SystemClock
from accord.wire.conversation import Conversation
from accord.wire.disposition import Api, Disposition
from accord.wire.work import EndPiece, TextPiece, WorkOrder

PAGE = (Path(__file__).parent.parent / "docs/backends.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
PROGRAMS = [body for language, body in BLOCKS if language == "python"]
ASKED = {"messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]}


class Answered:
    """A reply that has already arrived."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "application/json"}

    def __init__(self, body: bytes) -> None:
        self._left = [body]

    async def read(self) -> bytes:
        return self._left.pop() if self._left else b""

    async def close(self) -> None:
        self._left.clear()


class Server:
    """An upstream whose server says hello."""

    def __init__(self) -> None:
        self.requested: list[UpstreamRequest] = []

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        self.requested.append(request)
        return Answered(b'{"text": "Hello yourself"}')

    async def aclose(self) -> None:
        return


@pytest.mark.parametrize("text", [body for language, body in BLOCKS if language == "toml"])
def test_every_configuration_of_the_page_can_be_built(text: str):
    loaded = read_config(text)
    for config in loaded.config.backends:
        if find_spec(next(iter(APIS[config.kind].values()))[0]) is None:
            pytest.skip(f"{config.kind} is not here yet")
    assert [each.config.name for each in build_backends(loaded)] == [each.name for each in loaded.config.backends]


def test_each_failure_has_its_status_its_message_and_its_effect():
    listed = {
        name: (int(status), passed_on.strip() == "yes", outage.strip() == "yes")
        for status, names, passed_on, outage in re.findall(r"^\| (\d{3}) \| (.*) \|(.*)\|(.*)\|$", PAGE, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    rules = FAILURE_RULES.items()
    assert listed == {name: (rule.caller_status, rule.is_callers_fault, rule.is_outage) for name, rule in rules}


def test_every_option_is_listed():
    options = PAGE.partition("## Where a manifest")[0]
    listed = re.findall(
        r"`(\w+)`", "".join(line.split("|")[1] for line in options.splitlines() if line.startswith("| `"))
    )
    assert sorted(listed) == sorted(OPTIONS)


def test_every_option_of_one_api_is_listed():
    for api, codec in (("chat", ChatCodec), ("responses", ResponsesCodec), ("messages", MessagesCodec)):
        text = re.search(rf"^- {api}: (.*?)[;.]$", PAGE, flags=re.DOTALL | re.MULTILINE)
        assert text is not None
        named = re.sub(r"\([^)]*\)", "", text[1])
        assert re.findall(r"`(\w+)`", named) == list(inspect.signature(codec).parameters)


def test_the_custom_api_of_the_page_answers():
    code, _ = PROGRAMS
    assert len(code.splitlines()) <= 40
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the page's own example
    server = Server()
    backend = ModelBackend("mine", names["Plain"](), Endpoint("http://127.0.0.1:9", "m"), server, SystemClock())

    async def answer() -> list[Any]:
        order = WorkOrder(conversation=Conversation.model_validate(ASKED))
        return [piece async for piece in backend.answer(order)]

    assert asyncio.run(asyncio.wait_for(answer(), 20)) == [TextPiece(text="Hello yourself"), EndPiece()]
    assert server.requested[0].body == b'{"model":"m","text":"hello"}'


def test_the_dialect_of_the_page_follows_its_one_file():
    names: dict[str, Any] = {}
    exec(PROGRAMS[1], names)  # noqa: S102 - the page's own example
    codec = names["CODEC"]()
    order = WorkOrder(conversation=Conversation.model_validate(ASKED), parameters={"max_tokens": 9, "seed": 7})
    body = codec.write_request(order, "m").body
    assert (body["max_tokens"], body["random_seed"]) == (9, 7)
    assert codec.relayed_body({"seed": 7}, "m", keeps_reasoning=False)[0]["random_seed"] == 7
    cells = [codec.column.cell(TABLE[Api.CHAT][name]) for name in ("logit_bias", "store")]
    assert cells == [Disposition.DROPPED, Disposition.DROPPED]
    reader = codec.answer_reader()
    chunk = b'{"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "finished"}]}'
    pieces = [piece for data in (chunk, b"[END]") for piece in reader.feed(ServerEvent(data))]
    assert [pieces[0], pieces[-1].reason] == [TextPiece(text="Hi"), "end_turn"]
