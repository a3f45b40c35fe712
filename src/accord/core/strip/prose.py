r"""What may stand in prose and be read at a glance: code spans, strong words, line ends; and what may wait.

Decides from one piece and the character before it. It knows only the plainest form of everything; whatever is
less plain is left to `blocks` and `inline`, which would read the plain forms the same way.
"""

import re
from typing import Final

from accord.core.strip.lookahead import HOLD_LIMIT
from accord.core.strip.source import ODD_CHARACTERS
from accord.core.strip.starts import MERE_TEXT

PROSE: Final = rf"[^\\*_~`\[<&$|\n{ODD_CHARACTERS}]"
BRACKETED: Final = PROSE.replace("^", r"^\]", 1)
CODE: Final = rf"[^`\n{ODD_CHARACTERS}]"
NOT_PROSE: Final = re.compile(PROSE.replace("^", "", 1)).search
WAITS_FOR: Final = {
    "`": re.compile(CODE.replace("^", "", 1)).search,
    "*": NOT_PROSE,
    "[": re.compile(BRACKETED.replace("^", "", 1)).search,
}

LONGEST_SPAN: Final = HOLD_LIMIT - 16
SPAN: Final = re.compile(
    rf"`([^\s`{ODD_CHARACTERS}]{CODE}{{0,{LONGEST_SPAN}}})`(?=[^`])"
    rf"|(?<!\S)\*\*((?=\w){PROSE}{{1,{LONGEST_SPAN}}})(?:(?<=\w)\*\*(?=[\s.,:;!?)])|(?<=[:.!?)])\*\*(?=\s))"
    r"|(?<=[^\W_])(_{1,8})(?=[^\W_])"
    r"|(?<=[0-9])(\*{1,8})(?=[^\W_])"
    r"|(?<=\s)(\*{1,8}|_{1,8}|<[-=]*|&)(?=\s)"
    r"|(\$[0-9][0-9,.]*)(?=[\s)])"
    r"|(\\)(?=[A-Za-z0-9 ])"
    r"|(~)(?=[^~])"
    rf"|(?<!!)(\[(?!\^){BRACKETED}{{0,{LONGEST_SPAN}}}\])(?=[^\[(])"
).match
OPEN_SPAN: Final = re.compile(
    rf"`{CODE}*`?\Z|(?<!\S)\*\*\w{PROSE}*\*{{0,2}}\Z|(?<!!)\[(?!\^){BRACKETED}*\]?\Z"
    r"|[*_]{1,8}\Z|\$[0-9,.]*\Z|[<&~\\]\Z"
).match
LINE_TURN: Final = re.compile(
    r"\n(?P<blank> {0,8}\n)?(?P<indent> {0,64})"
    rf"(?:(?P<marker>[-+*]|[0-9]{{1,9}}[.)])(?P<padding> {{1,4}}))?(?={MERE_TEXT}|\*\*\w|`[^\s`])"
).match
OPEN_LINE: Final = re.compile(
    r"\n[\n ]*(?:(?:[-+*]|[0-9]{1,9}[.)]?)? {0,4}(?:`|\*\*?)?|`{1,3}[\w+#.-]*|-+|=+|#{1,6} ?)\Z"
).match
LONGEST_PAUSE: Final = HOLD_LIMIT // 2

URL: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:https?://|www\.|(?P<open>h(?:t(?:t(?:ps?(?::/?)?)?)?)?|ww?w?)\Z)|(?P<mark>!)\Z"
).search


def read_spans(piece: str, start: int, before: str) -> tuple[str, int]:
    """The text of prose, code spans and strong words from `start` on, and where something else begins."""
    text = ""
    while special := NOT_PROSE(piece, start):
        at = special.start()
        text += piece[start:at]
        if piece[at] == "\n":
            return text, at
        span = SPAN(piece, at) if at else SPAN(before + piece, 1)
        if span is None:
            return text, at
        text += span[span.lastindex or 0]
        start = span.end() if at else span.end() - 1
    return text + piece[start:], len(piece)
