"""Inline markdown: emphasis, code spans, links, images, autolinks, HTML, escapes, entities, maths, footnotes, URLs.

The parser gets the text of one block without line prefixes; it does not know blocks.
"""

import re
from collections.abc import Mapping
from typing import Final

from accord.core.output.markdown import lookahead
from accord.core.output.markdown.delimiters import INERT, REMOVED, Opener, classify_run
from accord.core.output.markdown.lookahead import HOLD_LIMIT, Construct
from accord.core.output.markdown.output_buffer import OutputBuffer
from accord.core.output.markdown.profiles import Messages, NoteKind, NoteLog, Profile
from accord.core.output.markdown.scanner import Handler, OverlongTail, Scanner
from accord.core.output.markdown.shortcuts import CLOSING, LABEL, OPENING, ShortcutReferences

ESCAPABLE: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
RUNS: Final[Mapping[str, re.Pattern[str]]] = {mark: re.compile(re.escape(mark) + "+") for mark in "*_~`"}
MAX_RUN_CHARS: Final = 64
AFTER_COMMENT: Final = OverlongTail(re.compile("-->"), eats_end=True, is_written=False, partial=2)
AFTER_DESTINATION: Final = OverlongTail(re.compile(r"[\s)]"), eats_end=True, is_written=False)
AFTER_URL: Final = re.compile(r"[\s<>\[\]`|\\\"]")
AFTER_RUN: Final[Mapping[str, OverlongTail]] = {
    mark: OverlongTail(re.compile(f"[^{mark}]"), eats_end=False, is_written=True) for mark in "*_~`"
}


def fold_label(label: str) -> str:
    """Return a reference label for comparison: case and inner white space do not matter."""
    return " ".join(label.split()).casefold()


class InlineParser(Scanner):
    """Parses the inline text of blocks; `labels` are the reference definitions seen so far."""

    def __init__(
        self,
        profile: Profile,
        messages: Messages,
        buffer: OutputBuffer,
        note_log: NoteLog,
        labels: set[str],
        *,
        shortcuts: ShortcutReferences | None = None,
    ) -> None:
        super().__init__(profile, messages, buffer, note_log)
        self._labels = labels
        self._shortcuts = shortcuts

    def _make_handlers(self) -> Mapping[str, Handler]:
        return {
            "\\": self._read_escape, "`": self._read_code, "&": self._read_entity, "$": self._read_maths,
            "*": self._read_run, "_": self._read_run, "~": self._read_run, "|": self._read_pipe,
            "[": self._read_open_bracket, "]": self._read_close_bracket, "!": self._read_image,
            "<": self._read_angle, "h": self._read_url, "w": self._read_url,
        }  # fmt: skip

    def _read_escape(self, at: int, final: bool) -> int:
        if at + 1 == len(self._text):
            if final:
                self._write("\\")
            return at + 1 if final else -1
        char = self._text[at + 1]
        if char in "([":
            found = self._look_ahead(lookahead.find_escaped_maths, at, final=final)
            if found == "wait":
                return -1
            if isinstance(found, Construct):
                return self._write_formula(found, at)
        if char == "\n":
            if at + 2 == len(self._text):  # a hard break only if another line follows
                if final:
                    self._write("\\")
                return at + 1 if final else -1
            return at + 1
        if char not in ESCAPABLE:
            self._write("\\")
            return at + 1
        self._write(char)
        return at + 2

    def _read_code(self, at: int, final: bool) -> int:
        found = self._look_ahead(lookahead.find_code_span, at, final=final)
        if found == "wait":
            return -1
        if isinstance(found, Construct):
            code = found.text
            if self._speech:  # a URL is not spoken, also if it is written as code
                url = lookahead.find_bare_url(code, 0, len(code), final=True)
                if isinstance(url, Construct) and url.end == len(code):
                    code = self._spoken_url(code, at)
            self._write(code)
            return found.end
        if self._is_unfinished(lookahead.find_code_span, at, final=final):
            code = self._text[at:].strip("`").replace("\n", " ")
            if not code.startswith(" "):  # a backtick before a blank is text: "the ` key"
                is_url = lookahead.URL.fullmatch(code)
                self._write(self._spoken_unfinished_url(code, at) if is_url else code)
                return len(self._text)
        return self._write_run("`", at)

    def _write_run(self, mark: str, at: int) -> int:
        run = RUNS[mark].match(self._text, at)
        end = run.end() if run else at + 1
        self._write(self._text[at:end])
        if end == len(self._text):
            self._tail = AFTER_RUN[mark]
        return end

    def _read_run(self, at: int, final: bool) -> int:
        text, size = self._text, len(self._text)
        mark = text[at]
        match = RUNS[mark].match(text, at)
        end = match.end() if match else at + 1
        width = end - at
        if width > MAX_RUN_CHARS:
            return self._write_run(mark, at)
        if end == size and not final:
            return -1
        position = self._origin + at
        self._stack.expire(position)
        before = self._char_before(at)
        after = text[end] if end < size else "\n"
        run = INERT if mark == "~" and width != 2 else classify_run(mark, width, before, after)
        both = run.opens and run.closes
        left = width
        if run.closes:
            left = self._stack.close(mark, width, position, both=both)
        elif run.lenient_closes and self._stack.has_equal_opener(mark, width):
            left = self._stack.close(mark, width, position, both=False)
        if left < width and mark == "~":
            self._note(NoteKind.STRIKETHROUGH, position)
        if left and (run.opens or run.lenient_opens):
            self._stack.open(mark, width, left, position, both=both, in_word=before.isalnum())
        elif left and end == size and self.is_cut_off and self._is_half_run(mark, before):
            self._note_unmatched(mark * left, position)
        elif left and run.closes:
            self._stack.write_unmatched(mark, left, position)
        elif left:
            self._write(mark * left)
        return end

    def _is_half_run(self, mark: str, before: str) -> bool:
        """Whether the stream was cut off in or after a run that opens or closes something."""
        return not before.isalnum() or mark * 2 in self._stack.open_runs

    def _read_open_bracket(self, at: int, final: bool) -> int:
        found = self._look_ahead(lookahead.find_footnote, at, final=final)
        if found == "wait":
            return -1
        if isinstance(found, Construct):
            self._note(NoteKind.FOOTNOTE, self._origin + at, found.text)
            self._write(REMOVED)
            return found.end
        if self._text.startswith("[^", at) and self._is_unfinished(lookahead.find_footnote, at, final=final):
            return len(self._text)
        self._stack.open("[", 1, 1, self._origin + at, in_word=self._char_before(at).isalnum())
        return at + 1

    def _read_image(self, at: int, final: bool) -> int:
        if at + 1 == len(self._text):
            if final:
                self._write("!")
            return at + 1 if final else -1
        if self._text[at + 1] != "[":
            self._write("!")
            return at + 1
        self._stack.expire(self._origin + at)
        self._stack.open("![", 2, 2, self._origin + at)
        return at + 2

    def _read_close_bracket(self, at: int, final: bool) -> int:
        self._stack.expire(self._origin + at)
        opener = self._stack.innermost_bracket()
        if opener is None:
            self._write("]")
            return at + 1
        if opener.is_spent:
            self._stack.reject_bracket(opener)
            self._write("]")
            return at + 1
        follows = self._text[at + 1 : at + 2]
        if not follows and not final:
            return -1
        if follows == "(":
            end = self._read_destination(opener, at + 1, final=final)
        elif follows == "[":
            end = self._read_reference(opener, at, final=final)
        else:
            end = 0
        if end:
            return end
        if self._stack.innermost_bracket() is not opener:  # its deadline passed during the lookahead
            return self._read_close_bracket(at, final)
        is_cut_image = self.is_cut_off and not follows and opener.mark == "!["
        label = self._label(opener, at)
        if is_cut_image or fold_label(label) in self._labels:
            self._accept_link(opener, 0)
        elif self._shortcuts and self._looks_like_reference(opener, label) and LABEL.fullmatch(label):
            self._shortcuts.add(fold_label(label), opener.mark, self._position(opener.at))
            self._stack.reject_bracket(opener, OPENING)
            self._write(CLOSING)
        else:
            self._stack.reject_bracket(opener)
            self._write("]")
        return at + 1

    def _label(self, opener: Opener, at: int) -> str:
        return self._text[opener.at - self._origin + opener.width : at]

    def _read_destination(self, opener: Opener, at: int, *, final: bool) -> int:
        """Read the destination after a link's text; return its end, 0 if there is none, -1 to wait."""
        text, size = self._text, len(self._text)
        stop = min(at + HOLD_LIMIT, self._stack.openers[0].deadline - self._origin)
        stop = max(stop, at + 1)
        bounded = stop <= size
        found = lookahead.find_link_tail(text, at, stop if bounded else size, final=final and not bounded)
        if isinstance(found, Construct):
            self._accept_link(opener, found.end - at, found.text)
            return found.end
        if found == "wait" and not bounded:
            return -1
        if found == "wait" and lookahead.is_long_destination(text, at, stop):
            self._accept_link(opener, stop - at, text[at + 1 : stop])
            self._tail = AFTER_DESTINATION
            return stop
        if not bounded and self._is_unfinished(lookahead.find_link_tail, at, final=final):
            self._accept_link(opener, size - at)
            return size
        return 0

    def _read_reference(self, opener: Opener, at: int, *, final: bool) -> int:
        found = self._look_ahead(lookahead.find_label, at + 1, final=final)
        if found == "wait":
            return -1
        if self._is_unfinished(lookahead.find_label, at + 1, final=final):
            found = Construct(len(self._text), self._text[at + 2 :])
        if not isinstance(found, Construct) or self._stack.innermost_bracket() is not opener:
            return 0
        text = self._label(opener, at)
        if fold_label(found.text or text) not in self._labels:
            # The definition usually comes last, so `[text][label]` is taken for a reference if it looks like one.
            looks = text + found.text if opener.mark == "![" else text
            if found.text.startswith("^") or not self._looks_like_reference(opener, looks):
                return 0
        self._accept_link(opener, found.end - at - 1)
        return found.end

    def _looks_like_reference(self, opener: Opener, text: str) -> bool:
        """Whether text in brackets may be a reference: `grid[i]` and the citation `[1]` are not."""
        before = self._char_before(opener.at - self._origin)
        return not (before.isalnum() or before in "])_") and any(map(str.isalpha, text))

    def _accept_link(self, opener: Opener, tail_length: int, url: str = "") -> None:
        kind = NoteKind.IMAGE if opener.mark == "![" else NoteKind.URL
        self._note(kind, opener.at, lookahead.get_host(url) if url else "")
        self._stack.accept_link(opener, tail_length)

    def _read_angle(self, at: int, final: bool) -> int:
        found = self._look_ahead(lookahead.find_angled, at, final=final)
        if found == "wait":
            return -1
        if found == "long" and self._text.startswith("<!--", at):
            self._note(NoteKind.COMMENT, self._origin + at)
            self._tail = AFTER_COMMENT
            return at + 4
        if found == "no" and self.is_cut_off and (unfinished := lookahead.UNFINISHED_ANGLE.match(self._text, at)):
            self._write(self._spoken_unfinished_url(unfinished["url"] or "", at))
            return len(self._text)
        if not isinstance(found, Construct) or (found.kind == "name" and not self._char_before(at).isalnum()):
            self._write("<")
            return at + 1
        if found.kind == "link":
            self._write(self._spoken_url(found.text, at))
            return found.end
        self._note(NoteKind.COMMENT if found.kind == "comment" else NoteKind.HTML, self._origin + at, found.text)
        if found.text == "br":
            self._write(self._line_break)
            self._gap = "break"
        else:
            self._write(REMOVED)
        return found.end

    def _spoken_url(self, url: str, at: int) -> str:
        if not self._speech or "@" in url.partition("/")[0]:
            return url.removeprefix("mailto:") if self._speech else url
        host = lookahead.get_host(url)
        self._note(NoteKind.URL, self._origin + at, host)
        return self._messages["link"].format(host=host)

    def _spoken_unfinished_url(self, url: str, at: int) -> str:
        """Return what is spoken for an address that was cut off: nothing if its host may be incomplete."""
        return self._spoken_url(url, at) if lookahead.COMPLETE_HOST.match(url) else ""

    def _read_url(self, at: int, final: bool) -> int:
        found = "no" if self._char_before(at).isalnum() else self._look_ahead(lookahead.find_bare_url, at, final=final)
        if found == "wait":
            return -1
        if isinstance(found, Construct):
            url = lookahead.trim_url(found.text, self._stack.open_runs)
            is_cut_off = self.is_cut_off and found.end == len(self._text) and "." not in url
            self._write(self._spoken_unfinished_url(url, at) if is_cut_off else self._spoken_url(url, at))
            return at + len(url)
        if final and self.is_cut_off and lookahead.UNFINISHED_SCHEME.match(self._text, at):
            return len(self._text)
        if found == "long":
            end = at + HOLD_LIMIT
            self._write(self._spoken_url(self._text[at:end], at))
            self._tail = OverlongTail(AFTER_URL, eats_end=False, is_written=not self._speech)
            return end
        self._write(self._text[at])
        return at + 1

    def _read_entity(self, at: int, final: bool) -> int:
        found = self._look_ahead(lookahead.find_entity, at, final=final)
        if found == "wait":
            return -1
        if isinstance(found, Construct):
            self._write(found.text)
            return found.end
        self._write("&")
        return at + 1

    def _read_maths(self, at: int, final: bool) -> int:
        found = self._look_ahead(lookahead.find_maths, at, final=final)
        if found == "wait":
            return -1
        if isinstance(found, Construct):
            return self._write_formula(found, at)
        end = at + 2 if self._text.startswith("$$", at) else at + 1
        self._write(self._text[at:end])
        return end

    def _write_formula(self, formula: Construct, at: int) -> int:
        self._note(NoteKind.MATH, self._origin + at)
        self._write(formula.text)
        return formula.end
