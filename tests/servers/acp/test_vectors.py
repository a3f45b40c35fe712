"""Every prompt of the conformance vectors through `accord acp`, in both versions of the protocol."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.acp.editor import Editor
from tests.servers.acp.forking import editors
from tests.vectors import read_vectors

PROMPTS = [row for row in read_vectors("content.jsonl") if row["context"] == "prompt"]
VERSIONS = (1, 2)
NAMED = {1: "promptCapabilities.", 2: "session.prompt."}
"""How an error names a capability in each version; a vector names it in its own."""


def declared(row: dict[str, Any]) -> str:
    """The declaration as it is read off the wire, malformed flags included."""
    if row["capabilities"] is None:
        return "None"
    kind = f"schema_v{row['protocolVersion']}.PromptCapabilities"
    return f"{kind}.model_validate({row['capabilities']!r})"


DECLARATIONS = list(dict.fromkeys(declared(row) for row in PROMPTS))
MODULE = f"""
from accord import Agent
from accord.acp import schema_v1, schema_v2


async def run(turn):
    yield 'ok'


agents = [{", ".join(DECLARATIONS)}]
for number, accepts in enumerate(agents):
    globals()[f"agent{{number}}"] = Agent(run, name="vectors", accepts=accepts)
"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[int, str], tuple[Editor, str]]]:
    """An editor and its session for each version and each declaration."""
    folder = tmp_path_factory.mktemp("vectors")
    (folder / "vectors_agents.py").write_text(MODULE)
    wanted = [(version, number) for version in VERSIONS for number in range(len(DECLARATIONS))]
    with editors(folder, [f"vectors_agents:agent{number}" for _, number in wanted]) as made:
        yield {
            (version, DECLARATIONS[number]): (editor, editor.new_session(version))
            for editor, (version, number) in zip(made, wanted, strict=True)
        }


@pytest.mark.parametrize("version", VERSIONS)
def test_every_prompt_gets_its_verdict_from_the_server(opened: dict[tuple[int, str], tuple[Editor, str]], version: int):
    for row in PROMPTS:
        editor, session = opened[version, declared(row)]
        answer, messages = editor.call("session/prompt", sessionId=session, prompt=row["content"])
        if version == 2 and not row["content"]:
            assert answer["error"]["data"]["error"] == "invalid_content_structure"  # the draft needs a block
        elif row["valid"]:
            assert stop_reason(editor, version, answer) == "end_turn", row["id"]
        else:
            assert_refused(row, json.loads(json.dumps(answer["error"]).replace(NAMED[version], NAMED[1])))
            assert messages == [], row["id"]


def stop_reason(editor: Editor, version: int, answer: Any) -> str:
    """Why the turn stopped: in version 1 the prompt's result says it, in the draft an update."""
    if version == 1:
        return answer["result"]["stopReason"]
    assert "messageId" in answer["result"]
    return editor.until_idle()[-1]["stopReason"]


def assert_refused(row: dict[str, Any], error: Any) -> None:
    expected = row["response"]
    if row["exact"]:
        assert error == expected, row["id"]
    assert (error["code"], error["message"]) == (expected["code"], expected["message"]), row["id"]
    assert error["data"].get("error") == expected["data"].get("error"), row["id"]
    assert "AAAADUlEQVR42mP8" not in json.dumps(error), row["id"]
