"""Write a recorded conversation as one HTML page: a sequence diagram with findings and folded payloads. Pure.

The page is self-contained: no scripts, nothing fetched, everything escaped. It is written row by row, so that a long
trace needs little memory: the totals and the list of findings are written last, and the style puts them on top.
Consecutive chunks of one text are one row, which unfolds into them.
"""

import json
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final, TextIO

from accord.acp_tools.trace.summary import TraceRow, TraceRowFinding, format_findings
from accord.terminal import format_count

STYLE: Final = """
:root { color-scheme: light dark; --line: light-dark(#c3cad5, #3c4655); --ink: light-dark(#1b2430, #e4e9f0);
  --dim: light-dark(#5a6676, #9aa6b6); --paper: light-dark(#ffffff, #12171e); --soft: light-dark(#f3f6fa, #1b222c);
  --error: light-dark(#b3261e, #ff8a80); --warning: light-dark(#855300, #ffcf66); --info: light-dark(#00618a, #7fd0ff);
  --editor: light-dark(#1f5fbf, #7fb2ff); --agent: light-dark(#6b3fa0, #c9a6ff);
  --accord: light-dark(#9a4b00, #ffb36b); }
* { box-sizing: border-box; }
body { display: flex; flex-direction: column; margin: 0 auto; max-width: 70rem; padding: 1.25rem; min-height: 100vh;
  background: var(--paper); color: var(--ink); font: 15px/1.4 system-ui, sans-serif; }
h1 { order: -2; margin: 0; font-size: 1.25rem; overflow-wrap: anywhere; }
#totals { order: -1; margin-bottom: .75rem; color: var(--dim); } #totals p { margin: .25rem 0; }
#totals ul { margin: .25rem 0; padding: .4rem .8rem; list-style: none; background: var(--soft); border-radius: .4rem;
  max-height: 12rem; overflow: auto; }
#totals li { padding-left: 3rem; overflow-wrap: anywhere; }
#totals a { float: left; margin-left: -3rem; color: inherit; font-variant-numeric: tabular-nums; }
ol { list-style: none; margin: 0; padding: 0 0 3rem; }
.ends, ol > li { --time: 7.5rem; padding-left: var(--time); }
.ends { position: sticky; top: 0; z-index: 1; display: flex; justify-content: space-between; padding-block: .4rem;
  font-weight: 600; background: var(--paper); border-bottom: 1px solid var(--line); }
.ends span:nth-child(1) { color: var(--editor); } .ends span:nth-child(2) { color: var(--accord); }
.ends span:nth-child(3) { color: var(--agent); }
ol > li { position: relative; scroll-margin-top: 3rem; } ol > li:target .lane { background: var(--soft); }
ol > li > small { position: absolute; left: 0; top: .5rem; color: var(--dim); font-variant-numeric: tabular-nums; }
.lane { padding: .4rem 0 .3rem; border: solid var(--line); border-width: 0 2px;
  background: linear-gradient(var(--line), var(--line)) center / 1px 100% no-repeat; }
li.editor { --who: var(--editor); } li.agent { --who: var(--agent); } li.accord { --who: var(--accord); }
summary { list-style: none; cursor: pointer; } summary::-webkit-details-marker { display: none; }
summary:hover .label, summary:focus-visible .label { background: var(--soft); }
.label { display: flex; flex-wrap: wrap; gap: 0 .6rem; align-items: baseline; width: fit-content; max-width: 100%;
  padding: 0 .75rem; background: var(--paper); }
.label b { color: var(--who, inherit); overflow-wrap: anywhere; } .what { color: var(--dim); overflow-wrap: anywhere; }
.label { position: relative; padding-left: 1.5rem; }
.label::before { content: "▸"; position: absolute; left: .6rem; color: var(--dim); }
details[open] .label::before { content: "▾"; }
.reply .label b { font-weight: 500; } .count { font-variant-numeric: tabular-nums; }
.label .fate { padding: 0 .4rem; border: 1px solid; border-radius: .3rem; font-size: .85em; }
.arrow { position: relative; display: block; height: 10px; --c: var(--who, var(--dim)); }
.arrow::before { content: ""; position: absolute; inset: 4px 2px auto; border-top: 2px solid var(--c); }
.reply .arrow::before, .accord .arrow::before { border-top-style: dashed; }
.arrow::after { content: ""; position: absolute; top: 0; border: solid transparent; border-width: 5px 9px; }
.right .arrow::after { right: 0; border-right-width: 0; border-left-color: var(--c); }
.left .arrow::after { left: 0; border-left-width: 0; border-right-color: var(--c); }
.half.editor .arrow, .half.left .arrow { width: 50%; } .half.accord.right .arrow { margin-left: 50%; }
.half.accord.right .label { margin-left: 50%; max-width: 50%; }
.stopped .arrow::after { content: "✕"; top: -5px; right: -5px; border: 0; color: var(--error);
  font: 700 15px/20px sans-serif; }
.refused, .error { color: var(--error) !important; } .adapted, .warning { color: var(--warning) !important; }
.info { color: var(--info) !important; }
.finding { margin: .3rem .75rem; padding: .3rem .6rem; background: var(--soft); border-left: 4px solid currentColor;
  border-radius: 0 .3rem .3rem 0; overflow-wrap: anywhere; } .finding small { display: block; color: var(--dim); }
pre { overflow: auto; max-height: 26rem; margin: .3rem .75rem; padding: .6rem; background: var(--soft);
  border: 1px solid var(--line); border-radius: .3rem; white-space: pre-wrap; overflow-wrap: anywhere;
  font-size: 13px; }
ol > li.begins { margin: 1.5rem 0 .5rem; padding: .2rem; text-align: center; color: var(--dim);
  background: var(--soft); }
@media (max-width: 45rem) {
  body { padding: .75rem; font-size: 14px; } .ends, ol > li { --time: 0; }
  ol > li > small { position: static; display: block; padding: .35rem .75rem 0; border: solid var(--line);
    border-width: 0 2px; }
  .lane { padding-top: 0; } .half.accord.right .label { margin-left: 0; max-width: 100%; }
}
@media print { .ends { position: static; } pre { max-height: none; } }
"""


MAX_PAYLOAD_CHARS: Final = 20_000
MAX_GROUP: Final = 200
MAX_GROUP_CHARS: Final = 300
MAX_LISTED: Final = 100
SEVERITIES: Final[tuple[str, ...]] = ("error", "warning", "info")


def write_page(page: TextIO, name: str, entries: Iterable[TraceRow]) -> None:
    """Write the whole page."""
    title = escape(_encodable(f"Conversation {name}"))
    page.write(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{STYLE}</style></head>\n<body><h1>{title}</h1>"
        '<div class="ends"><span>editor</span><span>accord</span><span>agent</span></div><ol>\n'
    )
    totals = _Totals()
    for row, group in enumerate(_group_chunks(entries), start=1):
        totals.add(row, group)
        page.write(_row(row, group))
    page.write(f"</ol>\n{totals.page()}</body></html>\n")


class _Totals:
    """The number of messages and findings, and links to the first findings."""

    def __init__(self) -> None:
        self._messages = 0
        self._counts: Final[dict[str, int]] = dict.fromkeys(SEVERITIES, 0)
        self._listed: Final[list[str]] = []

    def add(self, row: int, group: list[TraceRow]) -> None:
        self._messages += len(group)
        for entry in group:
            for finding in entry.findings:
                severity = _severity(finding)
                self._counts[severity] += 1
                if len(self._listed) < MAX_LISTED:
                    link = f'<a href="#m{row}">{entry.number}</a> {escape(_encodable(finding.sentence))}'
                    self._listed.append(f'<li class="{severity}">{link}</li>')

    def page(self) -> str:
        counts = "".join(
            f' · <b class="{severity}">{format_findings(count, severity)}</b>'
            for severity, count in self._counts.items()
            if count
        )
        more = sum(self._counts.values()) - len(self._listed)
        rest = f"<li>and {more} more</li>" if more else ""
        listed = f"<ul>{''.join(self._listed)}{rest}</ul>" if self._listed else ""
        messages = format_count(self._messages, "message")
        return f'<header id="totals"><p>{messages}{counts or " · no findings"}</p>{listed}</header>'


def _group_chunks(entries: Iterable[TraceRow]) -> Iterator[list[TraceRow]]:
    """Consecutive chunks of one text as one group; every other message alone."""
    group: list[TraceRow] = []
    for entry in entries:
        if group and not (group[0].chunk and group[0].chunk == entry.chunk and len(group) < MAX_GROUP):
            yield group
            group = []
        group.append(entry)
    if group:
        yield group


def _row(row: int, group: list[TraceRow]) -> str:
    entry = group[0]
    begins = '<li class="begins">another conversation</li>\n' if entry.begins else ""
    summary, count = entry.summary, ""
    if len(group) > 1:
        text = "".join(each.text for each in group)
        summary = f"{entry.chunk} {text[:MAX_GROUP_CHARS]}{'…' if len(text) > MAX_GROUP_CHARS else ''}"
        count = f'<span class="count">× {len(group)}</span>'
    fate = f'<b class="fate {entry.fate}">{entry.fate}</b>' if entry.fate in {"refused", "adapted"} else ""
    return (
        f'{begins}<li id="m{row}" class="{" ".join(_classes(entry))}">'
        f"<small>{entry.number} · {entry.at_ms:,.1f} ms</small>"
        f'<div class="lane"><details><summary><span class="label"><b>{escape(_encodable(entry.title))}</b>{count}'
        f'<span class="what">{escape(_encodable(summary))}</span>{fate}</span><i class="arrow"></i></summary>'
        f"{''.join(map(_payload, group))}</details>{''.join(map(_finding, entry.findings))}</div></li>\n"
    )


def _classes(entry: TraceRow) -> Iterator[str]:
    yield entry.side if entry.side in {"editor", "agent", "accord"} else "unknown"
    yield "right" if entry.goes_right else "left"
    if entry.side == "accord" or entry.fate in {"refused", "adapted"}:
        yield "half"
    if entry.fate == "refused":
        yield "stopped"
    if entry.kind in {"answer", "failure"}:
        yield "reply"


def _finding(finding: TraceRowFinding) -> str:
    severity = _severity(finding)
    return (
        f'<div class="finding {severity}"><b>{severity}</b> {escape(_encodable(finding.sentence))}'
        f"<small>{escape(_encodable(finding.clause))}</small></div>"
    )


def _severity(finding: TraceRowFinding) -> str:
    return finding.severity if finding.severity in SEVERITIES else "info"


def _payload(entry: TraceRow) -> str:
    text = entry.message
    if not isinstance(text, str):
        try:
            text = json.dumps(text, indent=2, ensure_ascii=False)
        except RecursionError:
            text = "… (too deeply nested to be entry)"
    more = len(text) - MAX_PAYLOAD_CHARS
    if more > 0:
        text = f"{text[:MAX_PAYLOAD_CHARS]}\n… and {more} more characters"
    return f"<pre>{escape(_encodable(text))}</pre>"


def _encodable(text: str) -> str:
    """The text without lone surrogates, which JSON may contain but UTF-8 cannot encode."""
    return text.encode(errors="replace").decode()
