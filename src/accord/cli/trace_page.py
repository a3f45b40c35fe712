"""A recorded conversation as one page: two lifelines, an arrow for each message, findings beside, payloads to unfold.

The page stands alone: no script, nothing fetched, everything escaped. It is written as it is made, so that a long trace
needs no memory.
"""

import json
from collections.abc import Iterable
from html import escape
from typing import Final, TextIO

from accord.cli.trace_summary import Shown

MAX_PAYLOAD_CHARS: Final = 20_000

STYLE: Final = """
:root { color-scheme: light dark; --line: light-dark(#8a94a6, #6b7688); --ink: light-dark(#1b2430, #e4e9f0);
  --paper: light-dark(#ffffff, #12171e); --soft: light-dark(#f2f5f9, #1b222c);
  --error: light-dark(#b3261e, #ff8a80); --warning: light-dark(#8a5a00, #ffcf66);
  --info: light-dark(#00618a, #7fd0ff); }
body { margin: 0 auto; max-width: 68rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.25rem; } ol { list-style: none; margin: 0; padding: 0; }
.ends { position: sticky; top: 0; display: flex; justify-content: space-between; padding: .5rem 0; font-weight: 600;
  background: var(--paper); border-bottom: 1px solid var(--line); }
.ends span { width: 6rem; text-align: center; }
li { position: relative; padding: .35rem 3.2rem; border: solid var(--line); border-width: 0 2px; margin: 0 3rem; }
.label { display: flex; gap: .6rem; align-items: baseline; flex-wrap: wrap; }
.label small { opacity: .7; font-variant-numeric: tabular-nums; } .what { opacity: .75; overflow-wrap: anywhere; }
svg { position: absolute; left: 0; top: .2rem; width: 3rem; height: 1.4rem; }
li.left svg { left: auto; right: 0; } li.left .label { justify-content: flex-end; text-align: right; }
svg path { fill: none; stroke: var(--ink); stroke-width: 2; } li.own svg path { stroke-dasharray: 4 3; }
.refused, .error { color: var(--error); } .adapted, .warning { color: var(--warning); } .info { color: var(--info); }
.finding { margin: .25rem 0; padding: .3rem .6rem; background: var(--soft); border-left: 4px solid currentColor; }
.finding small { display: block; opacity: .8; } details { margin: .15rem 0; }
pre { overflow: auto; max-height: 26rem; padding: .6rem; background: var(--soft); white-space: pre-wrap;
  overflow-wrap: anywhere; }
"""
RIGHT: Final = '<svg viewBox="0 0 48 22" aria-hidden="true"><path d="M1 11H45M38 5l7 6-7 6"/></svg>'
LEFT: Final = '<svg viewBox="0 0 48 22" aria-hidden="true"><path d="M47 11H3M10 5l-7 6 7 6"/></svg>'


def write_page(page: TextIO, name: str, entries: Iterable[Shown]) -> None:
    """Write the whole page."""
    title = escape(f"Conversation {name}")
    page.write(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{STYLE}</style></head>\n<body><h1>{title}</h1>"
        '<div class="ends"><span>editor</span><span>agent</span></div><ol>\n'
    )
    count = found = 0
    for shown in entries:
        count += 1
        found += len(shown.findings)
        page.write(_row(shown))
    page.write(f"</ol>\n<p>{count} messages, {found} findings</p></body></html>\n")


def _row(shown: Shown) -> str:
    way = "right" if shown.goes_right else "left"
    own = " own" if shown.side == "accord" else ""
    fate = f'<b class="{shown.fate}">{shown.fate}</b>' if shown.fate in {"refused", "adapted"} else ""
    who = "<small>accord</small>" if own else ""
    findings = "".join(
        f'<div class="finding {finding.severity if finding.severity in {"error", "warning"} else "info"}">'
        f"{escape(finding.severity)}: {escape(finding.sentence)}<small>{escape(finding.clause)}</small></div>"
        for finding in shown.findings
    )
    return (
        f'<li class="{way}{own}">{RIGHT if shown.goes_right else LEFT}'
        f'<div class="label"><small>{shown.number} · {shown.at_ms:.1f} ms</small>{who}<b>{escape(shown.title)}</b>'
        f'<span class="what">{escape(shown.summary)}</span>{fate}</div>{findings}{_payload(shown)}</li>\n'
    )


def _payload(shown: Shown) -> str:
    text = shown.message if isinstance(shown.message, str) else json.dumps(shown.message, indent=2, ensure_ascii=False)
    cut = text if len(text) <= MAX_PAYLOAD_CHARS else text[:MAX_PAYLOAD_CHARS] + "…"
    # A lone surrogate can be in JSON, but not in a file.
    safe = cut.encode(errors="replace").decode()
    return f"<details><summary>message</summary><pre>{escape(safe)}</pre></details>"
