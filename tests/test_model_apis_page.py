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
from accord.engine.call_log import FLUSH_AFTER_S, MAX_PENDING
from accord.engine.model_call import LEARNED_FOR_S
from accord.servers.http.model_calls import PATHS
from tests.servers.process import accord_serve

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "model-apis.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE))
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
    assert settled(json.loads(answered)) == settled(json.loads(BLOCKS["json"]))


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
    assert f"{LEARNED_FOR_S / 60:.0f}" == "10"
    assert "ten minutes" in PAGE
    assert f"within {FLUSH_AFTER_S * 1000:.0f} ms" in PAGE
    assert f"{MAX_PENDING:,} receipts" in PAGE
    assert {row.name for rows in TABLE.values() for row in rows.values()} >= {"background", "conversation", "logprobs"}
