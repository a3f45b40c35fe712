"""Inline markdown: what each special character stands for.

Decides emphasis, code spans, links, images, autolinks, raw HTML, escapes, entities, maths, footnote marks and
bare URLs. It must not know blocks: it is fed the text of one block, line prefixes already taken off.
"""

import re
from collections.abc import Mapping
from typing import Final

from accord.core.output.markdown import lookahead
from accord.core.output.markdown.delimiters import INERT, Opener, Run, flank
from accord.core.output.markdown.lookahead import HOLD_LIMIT, Found
from accord.core.output.markdown.outlet import Outlet
from accord.core.output.markdown.profiles import Messages, Notebook, NoteKind, Profile
from accord.core.output.markdown.scanner import Handler, Rest, Scanner

ESCAPABLE: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
RUNS: Final[Mapping[str, re.Pattern[str]]] = {mark: re.compile(re.escape(mark) + "+") for mark in "*_~`"}
LONGEST_RUN: Final = 64
AFTER_COMMENT: Final = Rest(re.compile("-->"), eats_end=True, shown=False, partial=2)
AFTER_DESTINATION: Final = Rest(re.compile(r"[\s)]"), eats_end=True, shown=False)
AFTER_URL: Final = re.compile(r"[\s<>\[\]`|\\\"]")
AFTER_RUN: Final[Mapping[str, Rest]] = {
    mark: Rest(re.compile(f"[^{mark}]"), eats_end=False, shown=True) for mark in "*_~`"
}


def fold_label(label: str) -> str:
    """A reference label as it is compared: case and inner white space do not matter."""
    return " ".join(label.split()).casefold()


class Inline(Scanner):
    """One block's inline text; `labels` are the reference definitions seen so far."""

    def __init__(
        self, profile: Profile, messages: Messages, outlet: Outlet, notebook: Notebook, labels: set[str]
    ) -> None:
        super().__init__(profile, messages, outlet, notebook)
        self._labels = labels

    def _make_handlers(self) -> Mapping[str, Handler]:
        return {
            "\\": self._escape, "`": self._code, "*": self._run, "_": self._run, "~": self._run,
            "[": self._bracket, "]": self._close_bracket, "!": self._image, "<": self._angle,
            "&": self._entity, "$": self._maths, "|": self._pipe, "h": self._url, "w": self._url,
        }  # fmt: skip

    def _escape(self, at: int, final: bool) -> int:
        if at + 1 == len(self._text):
            if final:
                self._say("\\")
            return at + 1 if final else -1
        char = self._text[at + 1]
        if char in "([":
            outcome = self._look(lookahead.escaped_maths, at, final=final)
            if outcome == "wait":
                return -1
            if isinstance(outcome, Found):
                return self._opaque(outcome, at)
        if char == "\n":
            if at + 2 == len(self._text):  # a hard break only if another line follows
                if final:
                    self._say("\\")
                return at + 1 if final else -1
            return at + 1
        if char not in ESCAPABLE:
            self._say("\\")
            return at + 1
        self._say(char)
        return at + 2

    def _code(self, at: int, final: bool) -> int:
        outcome = self._look(lookahead.code_span, at, final=final)
        if outcome == "wait":
            return -1
        if isinstance(outcome, Found):
            self._say(self._spoken_code(outcome.text, at))
            return outcome.end
        return self._literal_run("`", at)

    def _spoken_code(self, code: str, at: int) -> str:
        """Code as it stands; but an address is not read aloud, whatever it is written in."""
        url = lookahead.bare_url(code, 0, len(code), final=True) if self._aloud else "no"
        return self._spoken_url(code, at) if isinstance(url, Found) and url.end == len(code) else code

    def _literal_run(self, mark: str, at: int) -> int:
        run = RUNS[mark].match(self._text, at)
        end = run.end() if run else at + 1
        self._say(self._text[at:end])
        if end == len(self._text):
            self._rest = AFTER_RUN[mark]
        return end

    def _run(self, at: int, final: bool) -> int:
        text, size = self._text, len(self._text)
        mark = text[at]
        match = RUNS[mark].match(text, at)
        end = match.end() if match else at + 1
        width = end - at
        if width > LONGEST_RUN:
            return self._literal_run(mark, at)
        if end == size and not final:
            return -1
        self._hold.expire(self._origin + at)
        before = self._char_before(at)
        after = text[end] if end < size else "\n"
        run = INERT if mark == "~" and width != 2 else flank(mark, width, before, after)
        self._pair(mark, width, at, run)
        return end

    def _pair(self, mark: str, width: int, at: int, run: Run) -> None:
        position = self._origin + at
        both = run.opens and run.closes
        left = width
        if run.closes:
            left = self._hold.close(mark, width, position, both=both)
        elif run.bent_closes and self._hold.opens_alike(mark, width):
            left = self._hold.close(mark, width, position, both=False)
        if left < width and mark == "~":
            self._note(NoteKind.STRIKETHROUGH, position)
        if left and (run.opens or run.bent_opens):
            self._hold.open(mark, width, left, position, both=both)
        elif left and run.closes:
            self._hold.stray(mark, left, position)
        elif left:
            self._say(mark * left)

    def _bracket(self, at: int, final: bool) -> int:
        outcome = self._look(lookahead.footnote, at, final=final)
        if outcome == "wait":
            return -1
        if isinstance(outcome, Found):
            self._note(NoteKind.FOOTNOTE, self._origin + at, outcome.text)
            return self._vanish(at, outcome.end)
        self._hold.open("[", 1, 1, self._origin + at)
        return at + 1

    def _image(self, at: int, final: bool) -> int:
        if at + 1 == len(self._text):
            if final:
                self._say("!")
            return at + 1 if final else -1
        if self._text[at + 1] != "[":
            self._say("!")
            return at + 1
        self._hold.expire(self._origin + at)
        self._hold.open("![", 2, 2, self._origin + at)
        return at + 2

    def _close_bracket(self, at: int, final: bool) -> int:
        self._hold.expire(self._origin + at)
        opener = self._hold.bracket()
        if opener is None:
            self._say("]")
            return at + 1
        if opener.is_spent:
            self._hold.refuse(opener)
            self._say("]")
            return at + 1
        follows = self._text[at + 1 : at + 2]
        if not follows and not final:
            return -1
        if follows == "(":
            end = self._inline_link(opener, at + 1, final=final)
        elif follows == "[":
            end = self._reference(opener, at, final=final)
        else:
            end = 0
        if end:
            return end
        if self._hold.bracket() is not opener:  # its time ran out while its tail was looked at
            return self._close_bracket(at, final)
        if fold_label(self._label(opener, at)) in self._labels:
            self._resolve(opener, 0)
        else:
            self._hold.refuse(opener)
            self._say("]")
        return at + 1

    def _label(self, opener: Opener, at: int) -> str:
        return self._text[opener.at - self._origin + opener.width : at]

    def _inline_link(self, opener: Opener, at: int, *, final: bool) -> int:
        """The end of a link's tail, 0 if there is none, -1 to wait."""
        text, size = self._text, len(self._text)
        stop = min(at + HOLD_LIMIT, self._hold.openers[0].deadline - self._origin)
        stop = max(stop, at + 1)
        bounded = stop <= size
        outcome = lookahead.link_tail(text, at, stop if bounded else size, final=final and not bounded)
        if isinstance(outcome, Found):
            self._resolve(opener, outcome.end - at, outcome.text)
            return outcome.end
        if outcome == "wait" and not bounded:
            return -1
        if outcome == "wait" and lookahead.is_long_destination(text, at, stop):
            self._resolve(opener, stop - at, text[at + 1 : stop])
            self._rest = AFTER_DESTINATION
            return stop
        return 0

    def _reference(self, opener: Opener, at: int, *, final: bool) -> int:
        outcome = self._look(lookahead.label, at + 1, final=final)
        if outcome == "wait":
            return -1
        if not isinstance(outcome, Found) or self._hold.bracket() is not opener:
            return 0
        text = self._label(opener, at)
        known = fold_label(outcome.text or text) in self._labels
        if not known and not self._looks_like_reference(opener, text, outcome.text):
            return 0
        self._resolve(opener, outcome.end - at - 1)
        return outcome.end

    def _looks_like_reference(self, opener: Opener, text: str, label: str) -> bool:
        # Definitions come last as a rule, so `[text][label]` must be judged by its looks: `grid[i][j]` and
        # the citations `[1][2]` are none.
        before = self._char_before(opener.at - self._origin)
        return not (before.isalnum() or before in "])_") and any(map(str.isalpha, text)) and not label.startswith("^")

    def _resolve(self, opener: Opener, tail_length: int, url: str = "") -> None:
        kind = NoteKind.IMAGE if opener.mark == "![" else NoteKind.URL
        self._note(kind, opener.at, lookahead.host_of(url) if url else "")
        self._hold.link(opener, tail_length)

    def _angle(self, at: int, final: bool) -> int:
        outcome = self._look(lookahead.angled, at, final=final)
        if outcome == "wait":
            return -1
        if outcome == "long" and self._text.startswith("<!--", at):
            self._note(NoteKind.COMMENT, self._origin + at)
            self._rest = AFTER_COMMENT
            return at + 4
        if not isinstance(outcome, Found) or (outcome.kind == "name" and not self._char_before(at).isalnum()):
            self._say("<")
            return at + 1
        if outcome.kind == "link":
            self._say(self._spoken_url(outcome.text, at))
            return outcome.end
        self._note(NoteKind.COMMENT if outcome.kind == "comment" else NoteKind.HTML, self._origin + at, outcome.text)
        if outcome.text == "br":
            self._say(self._line_break)
            self._skips_blank = self._skips_line_end = True
            return outcome.end
        return self._vanish(at, outcome.end)

    def _spoken_url(self, url: str, at: int) -> str:
        if not self._aloud or "@" in url.partition("/")[0]:
            return url.removeprefix("mailto:") if self._aloud else url
        host = lookahead.host_of(url)
        self._note(NoteKind.URL, self._origin + at, host)
        return self._messages["link"].format(host=host)

    def _url(self, at: int, final: bool) -> int:
        outcome = "no" if self._char_before(at).isalnum() else self._look(lookahead.bare_url, at, final=final)
        if outcome == "wait":
            return -1
        if isinstance(outcome, Found):
            self._say(self._spoken_url(outcome.text, at))
            return outcome.end
        if outcome == "long":
            end = at + HOLD_LIMIT
            self._say(self._spoken_url(self._text[at:end], at))
            self._rest = Rest(AFTER_URL, eats_end=False, shown=not self._aloud)
            return end
        self._say(self._text[at])
        return at + 1

    def _entity(self, at: int, final: bool) -> int:
        outcome = self._look(lookahead.entity, at, final=final)
        if outcome == "wait":
            return -1
        if isinstance(outcome, Found):
            self._say(outcome.text)
            return outcome.end
        self._say("&")
        return at + 1

    def _maths(self, at: int, final: bool) -> int:
        outcome = self._look(lookahead.maths, at, final=final)
        if outcome == "wait":
            return -1
        if isinstance(outcome, Found):
            return self._opaque(outcome, at)
        end = at + 2 if self._text.startswith("$$", at) else at + 1
        self._say(self._text[at:end])
        return end

    def _opaque(self, formula: Found, at: int) -> int:
        self._note(NoteKind.MATH, self._origin + at)
        self._say(formula.text)
        return formula.end
