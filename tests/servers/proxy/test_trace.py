"""A trace's file belongs to one conversation at a time, and to its owner."""

import json
from pathlib import Path

from accord.core.guard import Side
from accord.servers.proxy import TraceFile


def test_a_file_that_is_being_written_is_left_to_who_writes_it(tmp_path: Path):
    path = tmp_path / "trace.jsonl"
    first, second = TraceFile(path), TraceFile(path)
    assert (first.path, second.path) == (path, tmp_path / "trace-2.jsonl")
    first.add(1, Side.EDITOR, b"[1]")
    first.flush()
    assert json.loads(path.read_bytes())["number"] == 1
    assert second.path.read_bytes() == b""
    assert path.stat().st_mode & 0o077 == 0
