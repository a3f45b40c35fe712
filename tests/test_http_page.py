"""docs/http.md is right: every request on it, and on two other pages, is answered by a real service as the page says."""

import asyncio
import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from accord.wire.request import AgentRequest, ClientCapabilities, ServiceRequest, ServiceResponse, SessionContext
from tests.page_blocks import read_blocks
from tests.servers.process import accord_serve

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "http.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8000"
PAIRS = [
    (command.language, command.text, answer.text)
    for page in ("http.md", "receipts.md", "backends.md")
    for command, answer in pairwise(read_blocks(page))
    if command.language in ("sh", "python") and ADDRESS in command.text
]
INTERPRETERS = {"sh": ["sh", "-c"], "python": [sys.executable, "-c"]}
CHANGES = ("request_id", "created_at", "duration_ms", "last")
"""Members whose values are different each time."""


def settled(value: Any) -> Any:
    """The same without what changes from one run to the next; an id that the request chose stays."""
    if isinstance(value, list):
        return [settled(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    return {
        name: "…" if name in CHANGES and not str(inner).startswith("00000000-") else settled(inner)
        for name, inner in cast("dict[str, Any]", value).items()
    }


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each command of the page prints, run one after the other against one service."""

    def run(language: str, command: str, address: str) -> str:
        program = [*INTERPRETERS[language], command.replace(ADDRESS, address)]
        done = subprocess.run(program, capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def run_all() -> list[str]:
        async with accord_serve(tmp_path_factory.mktemp("page"), "accord.agents:relay") as served:
            return [await asyncio.to_thread(run, language, command, served.address) for language, command, _ in PAIRS]

    return asyncio.run(asyncio.wait_for(run_all(), 60))


def test_every_block_of_the_page_is_a_request_or_its_answer():
    blocks = read_blocks("http.md")
    assert len(blocks) == 2 * len([pair for pair in PAIRS if pair[1] in PAGE])


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_every_request_is_answered_as_the_page_says(answers: list[str], number: int):
    expected = PAIRS[number][2]
    if expected.startswith("{") and expected.count("\n{") == 0:
        assert settled(json.loads(answers[number])) == settled(json.loads(expected))
    else:
        assert answers[number].rstrip() == expected.rstrip()


def test_whole_answers_on_the_page_are_responses():
    whole = [answer for _, _, answer in PAIRS if '"output"' in answer]
    assert len(whole) == 2
    assert all(ServiceResponse.parse(answer).metrics for answer in whole)


@pytest.mark.parametrize("model", [ServiceRequest, SessionContext, AgentRequest, ClientCapabilities])
def test_every_member_of_a_request_is_listed(model: Any):
    listed = set(re.findall(r"`(?:context\.|payload\.)?(\w+)`", PAGE))
    older = {"session_id"} if model is AgentRequest else set[str]()
    assert set(model.model_fields) - older - {"context", "payload"} <= listed
