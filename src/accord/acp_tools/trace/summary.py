"""What a trace's entries say in a few words. Anybody may have written the file: nothing in it is trusted."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from accord.terminal import escape_line, format_count

ARROWS: Final = {"editor": "editor ──▶ agent", "agent": "editor ◀── agent"}
OWN_ARROWS: Final = {"to editor": "editor ◀·· accord", "to agent": "accord ··▶ agent"}
MAX_SUMMARY: Final = 100
MAX_WAITING: Final = 10_000


@dataclass(frozen=True, slots=True)
class TraceRowFinding:
    """A finding in words."""

    severity: str
    clause: str
    sentence: str


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One entry in words."""

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
    """Whether another conversation begins here: a file may hold several."""
    piece: str = ""
    """Of what it is one piece among many, such as `agent_message_chunk`, if nothing was found about it."""
    text: str = ""
    """The text of the piece."""

    @property
    def arrow(self) -> str:
        """From whom to whom."""
        return (OWN_ARROWS.get(self.fate) or ARROWS.get(self.side, "?")).ljust(17)

    @property
    def goes_right(self) -> bool:
        """Whether it is on its way to the agent."""
        return self.fate == "to agent" or (self.side == "editor")


class TraceSummarizer:
    """Remembers which call an answer belongs to, and counts."""

    def __init__(self) -> None:
        self._methods: Final[dict[tuple[str, str], str]] = {}
        self._messages = 0
        self._last_ms = 0.0
        self._findings: Final[dict[str, int]] = {}

    def summarize(self, entry: Mapping[str, Any]) -> TraceRow:
        """This entry in words."""
        self._messages += 1
        side, kind = _word(entry.get("from")), _word(entry.get("kind"))
        findings = tuple(_finding(found) for found in _list(entry.get("findings")))
        for finding in findings:
            self._findings[finding.severity] = self._findings.get(finding.severity, 0) + 1
        message, at_ms = entry.get("message"), _figure(entry.get("at_ms"))
        begins, self._last_ms = at_ms < self._last_ms, at_ms
        if begins:
            self._methods.clear()
        piece, text = ("", "") if findings else _piece(message)
        return TraceRow(
            number=_whole(entry.get("number")),
            at_ms=at_ms,
            side=side,
            fate=_word(entry.get("fate")),
            kind=kind,
            title=self._title(entry, side, kind),
            summary=_summary(kind, message, _whole(entry.get("bytes"))),
            message=message,
            findings=findings,
            begins=begins,
            piece=piece if side == "agent" else "",
            text=text,
        )

    def totals(self) -> str:
        """How much there was; empty if nothing was."""
        if not self._messages:
            return ""
        found = ", ".join(f"{count} {severity}" for severity, count in sorted(self._findings.items()))
        return f"{format_count(self._messages, 'message')}; findings: {found or 'none'}"

    def _title(self, entry: Mapping[str, Any], side: str, kind: str) -> str:
        method, own = _word(entry.get("method")), json.dumps(entry.get("id"))[:80]
        if kind == "call":
            if len(self._methods) < MAX_WAITING:
                self._methods[side, own] = method
            return f"{method} #{own}"
        if kind in {"answer", "failure"}:
            asker = "agent" if side == "editor" else "editor"
            asked = self._methods.pop((asker, own), "?")
            return f"{kind} to {asked} #{own}"
        return method or kind or "?"


def _summary(kind: str, message: Any, size: int) -> str:
    told = format_count(size, "byte")
    if isinstance(message, Mapping):
        fields = cast("Mapping[str, Any]", message)
        told = _content(fields.get("params") or fields.get("result") or fields.get("error")) or told
    elif isinstance(message, str):
        told = message
    elif kind == "batch":
        told = f"{format_count(len(_list(message)), 'message')}, {told}"
    clean = escape_line(told)
    return clean if len(clean) <= MAX_SUMMARY else clean[:MAX_SUMMARY] + "…"


def _content(value: Any) -> str:
    """What parameters, a result or an error are about, as far as it is one of the things that people look for."""
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
            return " ".join(_word(said) for said in cast("Mapping[str, Any]", inner).values() if isinstance(said, str))
    for key in ("stopReason", "message", "protocolVersion", "path", "command", "cwd", "modeId", "sessionId"):
        if key in fields:
            return f"{key} {fields[key]}" if key != "message" else f"{fields.get('code')} {fields[key]}"
    return ""


def _piece(message: Any) -> tuple[str, str]:
    """Which text this is a piece of, and the piece."""
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


def _finding(found: Any) -> TraceRowFinding:
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
    severity, clause, sentence = (_word(fields.get(key), 500) for key in ("severity", "clause", "sentence"))
    return TraceRowFinding(severity or "info", clause, sentence)


def _word(value: Any, most: int = 200) -> str:
    return escape_line(value)[:most] if isinstance(value, str) else ""


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _figure(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e15 else 0.0


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
