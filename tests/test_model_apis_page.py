"""docs/model-apis.md tells the truth: its request gets its answer, its links and settings exist."""

import asyncio
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, cast

from accord.config.model import GroupConfig
from accord.core.work.fields import TABLE
from accord.run.call_log import MAX_PENDING
from accord.run.refusals import KEEP_S
from accord.run.write_behind import BEHIND_S, GATHER_S
from accord.servers.http.model_calls import PATHS
from accord.wire.disposition import Api
from tests.servers.model_apis.scripted_upstream import Service, with_service
from tests.servers.process import accord_serve

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "model-apis.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE))
ANSWER, END = re.findall(r"^```json\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
IDS = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")


def settled(value: Any) -> Any:
    """The same without ids and times."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {name: 0 if name == "created" else settled(inner) for name, inner in members}
    if isinstance(value, list):
        return [settled(inner) for inner in cast("list[Any]", value)]
    return IDS.sub("…", value) if isinstance(value, str) else value


def test_the_request_on_the_page_gets_the_answer_on_the_page(tmp_path: Path):
    def run(address: str) -> str:
        command = BLOCKS["sh"].replace("http://127.0.0.1:8000", address)
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=20, check=True)
        return done.stdout

    async def answer() -> str:
        async with accord_serve(tmp_path) as served:
            return await asyncio.to_thread(run, served.address)

    answered = asyncio.run(asyncio.wait_for(answer(), 60))
    assert settled(json.loads(answered)) == settled(json.loads(ANSWER))


def test_the_end_of_a_stream_on_the_page_is_what_a_client_gets():
    citation = {
        "type": "char_location",
        "cited_text": "It ends on 31 May.",
        "document_index": 0,
        "document_title": "Contract",
        "start_char_index": 0,
        "end_char_index": 18,
    }
    start: dict[str, Any] = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [],
    }
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**start, "usage": {"input_tokens": 40, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "It ends in May."}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": citation}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}, "usage": {"output_tokens": 8}},
        {"type": "message_stop"},
    ]
    arrived = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events]

    async def ask(service: Service) -> list[dict[str, Any]]:
        answer = await service.answer(
            Api.MESSAGES, Api.CHAT, arrived, stream=True, stream_options={"include_usage": False}
        )
        return answer.events

    assert settled(with_service(ask)[-1]) == settled(json.loads(END))


def test_the_sdk_of_the_readme_gets_an_answer_with_its_label(tmp_path: Path):
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    code = next(
        body for body in re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE) if "OpenAI" in body
    )

    def run(address: str) -> str:
        call = f"\nimport json; print(json.dumps(answer_with_label('Hello', '{address}/v1')))"
        done = subprocess.run(
            [sys.executable, "-c", code + call], capture_output=True, text=True, timeout=30, check=True
        )
        return done.stdout

    async def answer() -> str:
        async with accord_serve(tmp_path) as served:
            return await asyncio.to_thread(run, served.address)

    text, label = json.loads(asyncio.run(asyncio.wait_for(answer(), 60)))
    assert text.startswith("I am demo-text, a script without a model. Your message has 1 word.")
    assert [(each["field"], each["disposition"]) for each in label["dispositions"]] == [("seed", "dropped")]


def test_the_group_on_the_page_is_a_group():
    group = tomllib.loads(BLOCKS["toml"])["groups"]["fast"]
    assert GroupConfig.model_validate(group).backends == ["small", "large"]


def test_the_page_names_every_path_and_true_limits():
    assert all(path in PAGE for path in PATHS.values())
    assert f"{KEEP_S / 60:.0f}" == "10"
    assert "ten minutes" in PAGE
    assert GATHER_S < BEHIND_S < 0.05
    assert "within 50 ms" in PAGE
    assert f"{MAX_PENDING:,} receipts" in PAGE
    assert {row.name for rows in TABLE.values() for row in rows.values()} >= {"background", "conversation", "logprobs"}
