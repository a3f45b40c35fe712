"""A recorded conversation as one page: three lifelines, an arrow for each message, findings beside, payloads to unfold.

The page stands alone: no script, nothing fetched, everything escaped. It is written as it is made, so that a long trace
needs no memory: what stands on top, the totals and where the findings are, is written last and put there by the style.
Pieces of one text that follow each other are one row, which unfolds into them.
"""

import json
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final, TextIO

from accord.cli.trace_style import STYLE
from accord.cli.trace_summary import Shown, ShownFinding

MAX_PAYLOAD_CHARS: Final = 20_000
MAX_TOGETHER: Final = 200
MAX_LISTED: Final = 100
SEVERITIES: Final[tuple[str, ...]] = ("error", "warning", "info")


def write_page(page: TextIO, name: str, entries: Iterable[Shown]) -> None:
    """Write the whole page."""
    title = escape(_safe(f"Conversation {name}"))
    page.write(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{STYLE}</style></head>\n<body><h1>{title}</h1>"
        '<div class="ends"><span>editor</span><span>accord</span><span>agent</span></div><ol>\n'
    )
    totals = _Totals()
    for row, group in enumerate(_together(entries), start=1):
        totals.add(row, group)
        page.write(_row(row, group))
    page.write(f"</ol>\n{totals.page()}</body></html>\n")


class _Totals:
    """How much there was, and where the first findings are."""

    def __init__(self) -> None:
        self._messages = 0
        self._found: Final[dict[str, int]] = dict.fromkeys(SEVERITIES, 0)
        self._listed: Final[list[str]] = []

    def add(self, row: int, group: list[Shown]) -> None:
        self._messages += len(group)
        for shown in group:
            for finding in shown.findings:
                severity = _severity(finding)
                self._found[severity] += 1
                if len(self._listed) < MAX_LISTED:
                    told = f'<a href="#m{row}">{shown.number}</a> {escape(_safe(finding.sentence))}'
                    self._listed.append(f'<li class="{severity}">{told}</li>')

    def page(self) -> str:
        counts = "".join(f' · <b class="{name}">{count} {name}</b>' for name, count in self._found.items() if count)
        more = sum(self._found.values()) - len(self._listed)
        rest = f"<li>and {more} more</li>" if more else ""
        listed = f"<ul>{''.join(self._listed)}{rest}</ul>" if self._listed else ""
        return f'<header id="totals"><p>{self._messages} messages{counts or " · no findings"}</p>{listed}</header>'


def _together(entries: Iterable[Shown]) -> Iterator[list[Shown]]:
    """Each message by itself; pieces of one text that follow each other, and about which nothing was found, at once."""
    group: list[Shown] = []
    for shown in entries:
        if group and not (group[0].piece and group[0].piece == shown.piece and len(group) < MAX_TOGETHER):
            yield group
            group = []
        group.append(shown)
    if group:
        yield group


def _row(row: int, group: list[Shown]) -> str:
    shown = group[0]
    begins = '<li class="begins">another conversation</li>\n' if shown.begins else ""
    text = _joined(group) if len(group) > 1 else shown.summary
    count = f'<span class="count">× {len(group)}</span>' if len(group) > 1 else ""
    fate = f'<b class="fate {shown.fate}">{shown.fate}</b>' if shown.fate in {"refused", "adapted"} else ""
    return (
        f'{begins}<li id="m{row}" class="{" ".join(_classes(shown))}">'
        f"<small>{shown.number} · {shown.at_ms:,.1f} ms</small>"
        f'<div class="lane"><details><summary><span class="label"><b>{escape(_safe(shown.title))}</b>{count}'
        f'<span class="what">{escape(_safe(text))}</span>{fate}</span><i class="arrow"></i></summary>'
        f"{''.join(map(_payload, group))}</details>{''.join(map(_finding, shown.findings))}</div></li>\n"
    )


def _classes(shown: Shown) -> Iterator[str]:
    yield shown.side if shown.side in {"editor", "agent", "accord"} else "unknown"
    yield "right" if shown.goes_right else "left"
    if shown.side == "accord" or shown.fate in {"refused", "adapted"}:
        yield "half"
    if shown.fate == "refused":
        yield "stopped"
    if shown.kind in {"answer", "failure"}:
        yield "reply"


def _joined(group: list[Shown]) -> str:
    kind = group[0].piece
    text = "".join(shown.text for shown in group)
    return f"{kind} {text[:300]}{'…' if len(text) > 300 else ''}"


def _finding(finding: ShownFinding) -> str:
    severity = _severity(finding)
    return (
        f'<div class="finding {severity}"><b>{severity}</b> {escape(_safe(finding.sentence))}'
        f"<small>{escape(_safe(finding.clause))}</small></div>"
    )


def _severity(finding: ShownFinding) -> str:
    return finding.severity if finding.severity in SEVERITIES else "info"


def _payload(shown: Shown) -> str:
    text = shown.message if isinstance(shown.message, str) else _written(shown.message)
    more = len(text) - MAX_PAYLOAD_CHARS
    cut = f"{text[:MAX_PAYLOAD_CHARS]}\n… and {more} more characters" if more > 0 else text
    return f"<pre>{escape(_safe(cut))}</pre>"


def _written(message: object) -> str:
    try:
        return json.dumps(message, indent=2, ensure_ascii=False)
    except RecursionError:
        return "… (too deep to be shown)"


def _safe(text: str) -> str:
    """A lone surrogate can be in JSON, but not in a file."""
    return text.encode(errors="replace").decode()
