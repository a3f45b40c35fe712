"""Summarize the entries of a trace in a few words. Pure. Nothing in a trace file is trusted: any value may be wrong."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from accord.terminal import escape_line, format_count

ARROWS: Final = {"editor": "editor ──▶ agent", "agent": "editor ◀── agent"}
ACCORD_ARROWS: Final = {"to editor": "editor ◀·· accord", "to agent": "accord ··▶ agent"}
MAX_SUMMARY: Final = 100
MAX_MS: Final = 1e15
MAX_PENDING: Final = 10_000


@dataclass(frozen=True, slots=True)
class TraceRowFinding:
    """A finding, with every value made text."""

    severity: str
    clause: str
    sentence: str


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One entry of a trace, ready to be printed."""

    number: int
    at_ms: float
    side: str
    fate: str
    kind: str
    title: str
    summary: str
    message: Any
    findings: tuple[TraceRowFinding, ...]
    begins: bool = False
    """Whether another conversation begins here; a file may contain several."""
    chunk: str = ""
    """The kind of chunk, such as `agent_message_chunk`, if it is one and has no findings."""
    text: str = ""
    """The text of the chunk."""

    @property
    def arrow(self) -> str:
        """The sender and the receiver, as an arrow."""
        return (ACCORD_ARROWS.get(self.fate) or ARROWS.get(self.side, "?")).ljust(17)

    @property
    def goes_right(self) -> bool:
        """Whether it goes to the agent."""
        return self.fate == "to agent" or self.side == "editor"


class TraceSummarizer:
    """Summarize the entries of one file in order: matches answers to their calls, and counts messages and findings."""

    def __init__(self) -> None:
        self._methods: Final[dict[tuple[str, str], str]] = {}
        self._messages = 0
        self._last_ms = 0.0
        self._findings: Final[dict[str, int]] = {}

    def summarize(self, entry: Mapping[str, Any]) -> TraceRow:
        """The row for this entry."""
        self._messages += 1
        side, kind = _word(entry.get("from")), _word(entry.get("kind"))
        findings = tuple(_read_finding(found) for found in _list(entry.get("findings")))
        for finding in findings:
            self._findings[finding.severity] = self._findings.get(finding.severity, 0) + 1
        message, at = entry.get("message"), entry.get("at_ms")
        at_ms = float(at) if isinstance(at, int | float) and abs(at) < MAX_MS else 0.0
        begins, self._last_ms = at_ms < self._last_ms, at_ms
        if begins:
            self._methods.clear()
        chunk, text = ("", "") if findings else _read_chunk(message)
        return TraceRow(
            number=_whole(entry.get("number")),
            at_ms=at_ms,
            side=side,
            fate=_word(entry.get("fate")),
            kind=kind,
            title=self._title(entry, side, kind),
            summary=_summarize(kind, message, _whole(entry.get("bytes"))),
            message=message,
            findings=findings,
            begins=begins,
            chunk=chunk if side == "agent" else "",
            text=text,
        )

    def totals(self) -> str:
        """The number of messages and findings; empty if there was no entry."""
        if not self._messages:
            return ""
        found = ", ".join(format_findings(count, severity) for severity, count in sorted(self._findings.items()))
        return f"{format_count(self._messages, 'message')}; findings: {found or 'none'}"

    def _title(self, entry: Mapping[str, Any], side: str, kind: str) -> str:
        method, call_id = _word(entry.get("method")), json.dumps(entry.get("id"))[:80]
        if kind == "call":
            if len(self._methods) < MAX_PENDING:
                self._methods[side, call_id] = method
            return f"{method} #{call_id}"
        if kind in {"answer", "failure"}:
            caller = "agent" if side == "editor" else "editor"
            called = self._methods.pop((caller, call_id), "?")
            return f"{kind} to {called} #{call_id}"
        return method or kind or "?"


def format_findings(count: int, severity: str) -> str:
    """The number of findings of this severity: "1 error", "2 errors"; "info" has no plural."""
    return f"{count} {severity}" if severity == "info" else format_count(count, severity)


def _summarize(kind: str, message: Any, size: int) -> str:
    text = format_count(size, "byte")
    if isinstance(message, Mapping):
        fields = cast("Mapping[str, Any]", message)
        text = _content(fields.get("params") or fields.get("result") or fields.get("error")) or text
    elif isinstance(message, str):
        text = message
    elif kind == "batch":
        text = f"{format_count(len(_list(message)), 'message')}, {text}"
    line = escape_line(text)
    return line if len(line) <= MAX_SUMMARY else line[:MAX_SUMMARY] + "…"


def _content(value: Any) -> str:
    """The interesting part of parameters, a result or an error; empty if none is known."""
    if not isinstance(value, Mapping):
        return ""
    fields = cast("Mapping[str, Any]", value)
    if isinstance(update := fields.get("update"), Mapping):
        inner = cast("Mapping[str, Any]", update)
        named = " ".join(_word(inner.get(key)) for key in ("sessionUpdate", "title", "status") if inner.get(key))
        return f"{named} {_blocks(inner.get('content'))}".strip()
    if "prompt" in fields:
        return _blocks(fields["prompt"])
    for key in ("toolCall", "outcome"):
        if isinstance(inner := fields.get(key), Mapping):
            return " ".join(_word(text) for text in cast("Mapping[str, Any]", inner).values() if isinstance(text, str))
    for key in ("stopReason", "message", "protocolVersion", "path", "command", "cwd", "modeId", "sessionId"):
        if key in fields:
            return f"{key} {fields[key]}" if key != "message" else f"{fields.get('code')} {fields[key]}"
    return ""


def _read_chunk(message: Any) -> tuple[str, str]:
    """The kind of chunk and its text; both empty if the message is not a chunk of text."""
    update = _at(_at(message, "params"), "update")
    kind, text = _word(_at(update, "sessionUpdate")), _at(_at(update, "content"), "text")
    return (kind, escape_line(text)) if kind.endswith("_chunk") and isinstance(text, str) else ("", "")


def _blocks(content: Any) -> str:
    blocks: list[Any] = [cast("Any", content)] if isinstance(content, Mapping) else _list(content)
    return " + ".join(_block(block) for block in blocks[:5]) + (" + …" if len(blocks) > 5 else "")


def _block(block: Any) -> str:
    if not isinstance(block, Mapping):
        return "?"
    fields = cast("Mapping[str, Any]", block)
    if isinstance(text := fields.get("text"), str):
        return json.dumps(text[:MAX_SUMMARY], ensure_ascii=False)
    name = fields.get("name") or fields.get("mimeType") or ""
    return f"{_word(fields.get('type'))} {name}".strip()


def _at(value: Any, key: str) -> Any:
    return cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else None


def _read_finding(finding: Any) -> TraceRowFinding:
    severity, clause, sentence = (_word(_at(finding, key), 500) for key in ("severity", "clause", "sentence"))
    return TraceRowFinding(severity or "info", clause, sentence)


def _word(value: Any, most: int = 200) -> str:
    return escape_line(value)[:most] if isinstance(value, str) else ""


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
