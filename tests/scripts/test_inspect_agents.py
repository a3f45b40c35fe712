"""`make inspect-agents`: the page of real agents, and how agents get their settings."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from scripts.agents.packages import AGENTS, FOLDER
from scripts.agents.page import stable, write_page

from accord.wire.inspection import (
    CheckGroup,
    ContentFate,
    DeclaredCapability,
    InspectedAgent,
    InspectionFinding,
    InspectionReport,
    Level,
    Result,
)

PAGE = (Path(__file__).parent.parent.parent / "docs/acp-agents.md").read_text(encoding="utf-8")
AGENT = AGENTS[0]
FATES = [
    (Result.PASS, ContentFate.ACCEPTED, None, "accepted"),
    (Result.FAIL, ContentFate.DROPPED, "answered (end_turn)", "dropped"),
    (Result.FAIL, ContentFate.PLACEHOLDER, "answered (end_turn)", "placeholder"),
    (Result.PASS, ContentFate.REJECTED, "error -32602: no", "rejected -32602"),
    (Result.PASS, None, "error -32602: no", "rejected -32602"),
    (Result.PASS, ContentFate.UNKNOWN, "answered (end_turn)", "accepted"),
    (Result.FAIL, ContentFate.UNKNOWN, "answered (end_turn)", "accepted or dropped"),
    (Result.NOT_JUDGED, None, None, "not judged"),
]
CHANGING = [
    ("session 89f5cced-69e4-43ee-87d7-6902e628af41 is unknown", "session … is unknown"),
    ("cannot reach http://127.0.0.1:35803/v1", "cannot reach http://127.0.0.1/v1"),
    ("at 2026-11-18T04:34:58.063Z it failed", "at … it failed"),
    ("ses_e1318968cffeEz8bSYsPGeR7xL", "…"),
    ("Two sessions have the id 'acp-c03d5bd7'", "Two sessions have the id 'acp-…'"),
    ("Session 2611180441-l63ciA is active (pid 19809)", "Session … is active (pid …)"),
    ("It was late (and 1 more) (during text, cancel and 14 other checks)", "It was late"),
    ("It was late (during cancel)", "It was late (during cancel)"),
    ("the first: \x1b[?25h", "the first: [?25h"),
    ("sessionCapabilities.additionalDirectories", "sessionCapabilities.additionalDirectories"),
    ("a | b\nc", "a \\| b c"),
    ("a " * 200, "a " * 119 + "a…"),
]


def finding(check: str, result: Result, **members: object) -> InspectionFinding:
    """A finding of the level must."""
    return InspectionFinding.model_validate(
        {
            "check": check,
            "group": CheckGroup.CONTENT,
            "title": "t",
            "clause": "c",
            "level": Level.MUST,
            "result": result,
            "sentence": f"The sentence of {check}",
            **members,
        }
    )


def report(*findings: InspectionFinding, image: bool = True, protocol: int | None = 1) -> InspectionReport:
    """A report with these findings."""
    return InspectionReport.about(
        list(findings),
        program="agent",
        date=datetime(2026, 1, 1, tzinfo=UTC),
        accord_version="1",
        agent=InspectedAgent(protocol_version=protocol),
        capabilities=[DeclaredCapability(flag="promptCapabilities.image", received=image, supported=image)],
    )


@pytest.mark.parametrize(("result", "content", "observed", "word"), FATES)
def test_a_cell_says_what_became_of_the_content(
    result: Result, content: ContentFate | None, observed: str | None, word: str
):
    for image, check, beginning in [(True, "declared-image", "declared"), (False, "undeclared-image", "not declared")]:
        found = report(finding(check, result, content=content, observed=observed), image=image)
        assert f"| {beginning}, {word} |" in write_page([(AGENT, found)], "2026-01-01", "1")


def test_the_page_shows_failed_musts_and_why_others_were_not_judged():
    found = report(
        finding("stays", Result.FAIL),
        finding("ends", Result.FAIL, level=Level.SHOULD),
        finding("cancel", Result.NOT_JUDGED),
        finding("text", Result.PASS),
    )
    page = write_page([(AGENT, found), (AGENTS[1], "it does not install here")], "2026-01-01", "1")
    assert "Made on 2026-01-01" in page
    assert "| 1 | `stays` |" in page
    assert "- **must** `stays`: The sentence of stays" in page
    assert "- **should** `ends`: The sentence of ends" in page
    assert "- not judged: `cancel`: The sentence of cancel" in page
    assert f"| {AGENTS[1].name} | {AGENTS[1].package} | – | – | – | – | not judged: it does not install here |" in page


def test_an_agent_without_a_handshake_has_no_verdicts():
    found = report(finding("handshake", Result.FAIL, observed="no answer within 60 s"), protocol=None)
    row = f"| {AGENT.name} | {AGENT.package} | – | – | – | – | not judged: The sentence of handshake (no answer within 60 s) |"
    assert write_page([(AGENT, found)], "2026-01-01", "1").endswith(f"{row}\n")


@pytest.mark.parametrize(("text", "expected"), CHANGING)
def test_the_page_leaves_out_what_is_different_in_each_run(text: str, expected: str):
    assert stable(text) == expected


def test_the_page_has_a_row_for_every_agent():
    missing = [each.package for each in AGENTS if f"| {each.name} | {each.package} |" not in PAGE]
    assert missing == []


def test_an_agent_starts_with_the_address_of_the_model_in_its_settings(tmp_path: Path):
    settings = {
        "environ": {"MODEL_URL": "{url}/v1"},
        "files": {".agent/config.json": '{"key": "{key}", "m": "{model}"}'},
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    shell = ["/bin/sh", "-c", 'echo "$MODEL_URL $1"; cat "$HOME/.agent/config.json"', "agent", "--model={model}"]
    environ = {
        "HOME": str(tmp_path),
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
        "OPENAI_API_KEY": "k",
        "OPENAI_MODEL": "m1",
    }
    command = [sys.executable, "-IS", str(FOLDER / "start_agent.py"), str(tmp_path / "settings.json"), *shell]
    for _ in range(2):
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=30)
        assert done.stdout == 'http://127.0.0.1:1/v1 --model=m1\n{"key": "k", "m": "m1"}'
    assert [path.name for path in (tmp_path / ".agent").iterdir()] == ["config.json"]
