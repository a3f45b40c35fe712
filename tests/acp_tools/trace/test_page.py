"""A trace file belongs to one conversation at a time and to its owner; its page escapes everything."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from accord.acp_tools.proxy import TraceFile
from accord.acp_tools.trace.entries import Side
from accord.acp_tools.trace.page import write_page
from accord.acp_tools.trace.summary import TraceSummarizer
from accord.cli.trace import show_command
from accord.errors import UsageError


def test_a_second_writer_gets_the_next_file(tmp_path: Path):
    path = tmp_path / "trace.jsonl"
    first, second = TraceFile(path), TraceFile(path)
    assert (first.path, second.path) == (path, tmp_path / "trace-2.jsonl")
    first.add(1, Side.EDITOR, b"[1]")
    first.flush()
    assert json.loads(path.read_bytes())["number"] == 1
    assert second.path.read_bytes() == b""
    assert path.stat().st_mode & 0o077 == 0


def test_the_page_joins_chunks_escapes_everything_and_lists_findings():
    entries = [
        _entry(1, "editor", {"method": "session/prompt", "params": {"prompt": [{"type": "text", "text": "<script>"}]}}),
        *(_entry(number, "agent", _chunk("<b>")) for number in (2, 3)),
        _entry(4, "agent", "\ud800", findings=[{"severity": "error", "clause": "c", "sentence": "<i>no</i>"}]),
    ]
    summarizer, page = TraceSummarizer(), io.StringIO()
    write_page(page, "a<b", (summarizer.summarize(entry) for entry in entries))
    text = page.getvalue()
    assert not any(tag in text for tag in ("<script", "<b>&lt;b", "<i>no", "http:", "https:"))
    assert "× 2" in text
    assert '<a href="#m3">4</a> &lt;i&gt;no' in text
    text.encode()


@pytest.mark.parametrize(("count", "messages"), [(0, "0 messages"), (1, "1 message"), (2, "2 messages")])
def test_the_page_counts_its_messages(count: int, messages: str):
    summarizer, page = TraceSummarizer(), io.StringIO()
    write_page(page, "a", (summarizer.summarize(_entry(number, "agent", _chunk("x"))) for number in range(count)))
    assert f"<p>{messages} · no findings</p>" in page.getvalue()


@pytest.mark.parametrize(
    ("severities", "counts"),
    [
        (["error"], "1 error"),
        (["error", "error", "info"], "2 errors, 1 info"),
        (["info", "info", "warning"], "2 info, 1 warning"),
    ],
)
def test_the_totals_count_findings_by_severity(severities: list[str], counts: str):
    summarizer = TraceSummarizer()
    summarizer.summarize(_entry(1, "agent", {}, findings=[{"severity": severity} for severity in severities]))
    assert summarizer.totals() == f"1 message; findings: {counts}"


@pytest.mark.parametrize("text", ["import os\n", '{"hash":"x"}\n', "[]\n{}\n"], ids=["a program", "a receipt", "JSON"])
def test_a_file_that_is_not_a_trace_is_an_error_and_leaves_the_old_page(tmp_path: Path, text: str):
    file, page = tmp_path / "a.jsonl", tmp_path / "a.html"
    file.write_text(text)
    page.write_text("the old page")
    for html in (None, page):
        with pytest.raises(
            UsageError, match="line 1 is not an entry of a trace; expected a file that accord proxy --trace wrote"
        ):
            show_command(file, html=html)
    assert page.read_text() == "the old page"


def test_a_line_that_is_not_an_entry_is_reported_and_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "a.jsonl").write_text(json.dumps(_entry(1, "agent", _chunk("hi"))) + '\nno\n{"number"')
    show_command(tmp_path / "a.jsonl")
    output = capsys.readouterr()
    assert "1 message;" in output.out
    assert [line.rpartition(": ")[2] for line in output.err.splitlines()] == [
        "line 2 is not an entry of a trace",
        "line 3 was cut off",
    ]


def _entry(number: int, side: str, message: Any, **more: Any) -> dict[str, Any]:
    return {"number": number, "at_ms": number, "from": side, "kind": "notice", "message": message, **more}


def _chunk(text: str) -> Any:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return {"method": "session/update", "params": {"update": update}}
