"""Constructs that must be seen whole to be recognised: code spans, tags, entities, maths, URLs, link tails.

Each `find_*` function gets a window of text (`start` to `end`) and returns the `Construct` that begins at `start`,
"no", or "wait" if more text is needed. It never looks at or past `end` and returns the same for the same window: this
makes the stripper independent of how its input was cut. What is open around the window, and what the construct becomes
in the output, is not known here.
"""

import re
from html import unescape
from html.entities import html5
from typing import Final, Literal, NamedTuple

# A name in angle brackets is HTML only if it is in these lists: `<your-key>` is text and must not be removed.

BLOCK_NAMES: Final = """
    address article aside base basefont blockquote body caption center col colgroup dd details dialog
    dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hr
    html iframe legend li link main menu menuitem nav noframes ol optgroup option p param search section
    summary table tbody td tfoot th thead title tr track ul
"""
INLINE_NAMES: Final = """
    a abbr acronym applet area audio b bdi bdo big blink br button canvas cite code data datalist del
    dfn em embed font i img input ins kbd label map mark marquee meta meter nobr noscript object output
    picture progress q rb rp rt rtc ruby s samp select slot small source span strike strong sub sup svg
    template time tt u var video wbr g path circle rect line polyline polygon ellipse text tspan defs
    use math mi mn mo mrow msup msub mfrac msqrt
"""
RAW_ELEMENTS: Final = frozenset({"pre", "script", "style", "textarea"})
BLOCK_ELEMENTS: Final = frozenset(BLOCK_NAMES.split())
ELEMENTS: Final = BLOCK_ELEMENTS | RAW_ELEMENTS | frozenset(INLINE_NAMES.split())
"""Elements of HTML and the common ones of SVG and MathML, in lower case."""

HOLD_LIMIT: Final = 256
"""The number of input characters for which anything may stay undecided.

After that, an opening delimiter is text, a destination without a blank is a link, an open comment is a comment and a
URL is a URL. Characters that are removed from the output do not count.
"""

NotFound = Literal["no", "wait", "long"]
"""No construct: it cannot be here, it needs more text, or it is longer than the window."""


class Construct(NamedTuple):
    """A complete construct: where it ends, its text, and its kind if the function finds several."""

    end: int
    text: str = ""
    kind: str = ""


Lookup = Construct | NotFound

# Pairs of patterns: NAME matches a complete construct, NAME_OPEN text at the end of the window that may become one.
# What an item of a loop begins with never begins what follows the loop, and within an item quantifiers are possessive
# (`*+`, `++`): a pattern that fails goes back once through what it read, and the time stays linear on hostile input. A
# possessive group would say the same, but CPython before 3.11.5 matches those wrongly.

TICKS: Final = re.compile(r"`+")
ENTITY: Final = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
ENTITY_OPEN: Final = re.compile(r"&(?:#[xX]?[0-9a-fA-F]{0,7}|[A-Za-z][A-Za-z0-9]{0,31})?\Z")

ATTRIBUTE: Final = r"\s++[A-Za-z_:][\w.:-]*+(?:\s*+=\s*+(?:[^\s\"'=<>`]++|'[^']*+'|\"[^\"]*+\"))?"
TAG: Final = re.compile(
    rf"<(?:(?P<open>[A-Za-z][A-Za-z0-9-]*+)(?P<attributes>(?:{ATTRIBUTE})*)\s*+/?>|/(?P<close>[A-Za-z][A-Za-z0-9-]*+)\s*+>)"
)
TAG_OPEN: Final = re.compile(
    rf"<(?:[A-Za-z][A-Za-z0-9-]*+(?:{ATTRIBUTE})*\s*+(?:/|=\s*+(?:'[^']*+|\"[^\"]*+)?)?"
    r"|/(?:[A-Za-z][A-Za-z0-9-]*+\s*+)?)?\Z"
)
DECLARATION: Final = re.compile(
    r"<(?:!--(?P<comment>(?:-?>)|[^\0]*?-->)|\?[^\0]*?\?>|!\[CDATA\[[^\0]*?\]\]>|![A-Za-z][^>]*+>)"
)
DECLARATION_OPEN: Final = re.compile(r"<(?:\?|![A-Za-z\[-]|!\Z)")
AUTOLINK: Final = re.compile(
    r"<(?P<url>[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>\x00-\x20]*+)>"
    r"|<(?P<mail>[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]++@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)>"
)
AUTOLINK_OPEN: Final = re.compile(r"<[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]++(?::[^\s<>\x00-\x20]*+|@[A-Za-z0-9.-]*+)?\Z")

MONEY: Final = re.compile(r"\$[0-9][0-9,.]*(?:[kKmMbB]|bn|[MB]illion)?(?=[\s,.;:!?)\]\"'*_/+-]|\Z)")
CLOSING_DOLLAR: Final = re.compile(r"(?<![\s\\])\$")
MONEY_OPEN: Final = re.compile(r"\$[0-9][0-9,.]*(?:[kKmMbB]n?)?\Z")

URL: Final = re.compile(r"(?:https?://|www\.)[^\s<>\[\]`|\\\"{}^。、，；：」』）】》！？]+")
URL_OPEN: Final = re.compile(r"(?:h(?:t(?:t(?:ps?(?::/{0,2})?)?)?)?|w{1,3}\.?)\Z")
URL_TRAIL: Final = "?!.,:;'"
HOST: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://)?(?:[^/?#@\s]*@)?(?:www\.)?(?P<host>[^/?#:\s]+)")

# What a stream that was cut off may end with: the start of an address, of a tag with attributes, of a comment.
UNFINISHED_SCHEME: Final = re.compile(r"(?:https?:/{0,2}|www\.)\Z")
UNFINISHED_ANGLE: Final = re.compile(
    r"<(?:(?:h(?:t(?:tp?)?)?)?\Z|(?P<url>https?(?::[^\s<>]*+)?)\Z|!--|[A-Za-z][A-Za-z0-9-]*+\s[^<>=]*+=[^<>]*+\Z)"
)
COMPLETE_HOST: Final = re.compile(r"(?:https?:/*+|(?!https?:))(?:[^/?#:\s]+[/?#:]|localhost\Z)")


def _address(brackets: int) -> str:
    """Match an address without angle brackets that has so many levels of round ones."""
    nested = rf"|\({_address(brackets - 1)}\)" if brackets else ""
    plain = r"[^\s()\\\x00-\x1f\x7f]*+"
    return rf"{plain}(?:(?:\\(?:[^\s\x00-\x1f\x7f]|(?=\s|\Z)){nested}){plain})*"


# An address without brackets holds no ASCII control character, and white space ends it, also after a backslash
# (CommonMark, 6.3). Whatever is matched here, LINK_TAIL_OPEN has to wait for.
BALANCED: Final = _address(3)
DOUBLE: Final = r"\"[^\"\\]*+(?:\\[^\0][^\"\\]*+)*"
SINGLE: Final = r"'[^'\\]*+(?:\\[^\0][^'\\]*+)*"
ROUND: Final = r"\([^()\\]*+(?:\\[^\0][^()\\]*+)*"
TITLE: Final = rf"(?:{DOUBLE}\"|{SINGLE}'|{ROUND}\))"
TITLE_OPEN: Final = rf"(?:{DOUBLE}|{SINGLE}|{ROUND})\\?"
ANGLED: Final = r"<[^<>\n\\]*+(?:\\[^\n][^<>\n\\]*+)*"
LINK_TAIL: Final = re.compile(rf"\(\s*+(?:(?P<angled>{ANGLED})>|(?P<bare>(?!<){BALANCED}))(?:\s++{TITLE})?\s*+\)")
LINK_TAIL_OPEN: Final = re.compile(
    rf"\(\s*+(?:{ANGLED}(?:>|\\?\Z)|(?!<)[^\s\x00-\x1f]*+)(?:\s++(?:{TITLE}\s*+|{TITLE_OPEN})?)?\Z"
)
DESTINATION_OPEN: Final = re.compile(r"\(\s*+(?:[A-Za-z][A-Za-z0-9+.-]*+:|[/.#?])[^\s\[\]\x00-\x1f]*+\Z")
LABELLED: Final = r"[^\[\]\\]*+(?:\\[^\0][^\[\]\\]*+)*"
LABEL: Final = re.compile(rf"\[(?P<label>{LABELLED})\]")
LABEL_OPEN: Final = re.compile(rf"\[{LABELLED}\\?\Z")
FOOTNOTE: Final = re.compile(r"\[\^(?P<label>(?!.-.\])\w[\w.-]*+)\](?![*+{(])")
FOOTNOTE_OPEN: Final = re.compile(r"\[(?:\^[\w.-]*\]?)?\Z")


def find_code_span(text: str, start: int, end: int, *, final: bool) -> Lookup:
    """Find code between two equal runs of backticks; line ends inside become blanks."""
    run = TICKS.match(text, start, end)
    if run is None or (run.end() == end and not final):
        return "wait"
    width = run.end() - start
    for closer in TICKS.finditer(text, run.end(), end):
        if closer.end() - closer.start() != width:
            continue
        if closer.end() == end and not final:
            return "wait"
        code = text[run.end() : closer.start()].replace("\n", " ")
        if code[0] == " " == code[-1] and code.strip(" "):
            code = code[1:-1]
        return Construct(closer.end(), code)
    return "no" if final else "wait"


def find_entity(text: str, start: int, end: int, *, final: bool) -> Lookup:
    """Find a character reference; its text is the character."""
    if whole := ENTITY.match(text, start, end):
        source = whole.group()
        if source[1] == "#" or source[1:] in html5:
            return Construct(whole.end(), unescape(source))
        return "no"
    return "wait" if not final and ENTITY_OPEN.match(text, start, end) else "no"


def find_angled(text: str, start: int, end: int, *, final: bool) -> Lookup:
    """Find what `<` begins; its kind is "link", "tag", "name", "comment" or "html"."""
    needs_more = False
    for find in (find_autolink, find_tag, find_declaration):
        found = find(text, start, end, final=final)
        if isinstance(found, Construct):
            return found
        needs_more = needs_more or found == "wait"
    return "wait" if needs_more else "no"


def find_tag(text: str, start: int, end: int, *, final: bool) -> Lookup:
    """Find an HTML tag, or a "name" that is no element of HTML; its text is the name, "/name" if it closes."""
    if whole := TAG.match(text, start, end):
        name = (whole["open"] or whole["close"]).lower()
        kind = "tag" if name in ELEMENTS or "=" in (whole["attributes"] or "") else "name"
        return Construct(whole.end(), name if whole["open"] else f"/{name}", kind)
    return "wait" if not final and TAG_OPEN.match(text, start, end) else "no"


def find_declaration(text: str, start: int, end: int, *, final: bool) -> Lookup:
    """Find a comment, processing instruction, declaration or CDATA section; its kind is "comment" or "html"."""
    if whole := DECLARATION.match(text, start, end):
        return Construct(whole.end(), "", "html" if whole["comment"] is None else "comment")
    return "wait" if not final and DECLARATION_OPEN.match(text, start, end) else "no"


def find_autolink(text: str, start: int, end: int, *, final: bool) -> Lookup:
    """Find a URL or a mail address in angle brackets; its text is what is between them."""
    if whole := AUTOLINK.match(text, start, end):
        return Construct(whole.end(), whole["url"] or whole["mail"], "link")
    return "wait" if not final and AUTOLINK_OPEN.match(text, start, end) else "no"


def find_bare_url(text: str, start: int, end: int, *, final: bool) -> Lookup:
    """Find a URL without brackets, with the punctuation after it, some of which may belong to the sentence."""
    whole = URL.match(text, start, end)
    if whole is None:
        return "wait" if not final and URL_OPEN.match(text, start, end) else "no"
    if whole.end() == end and not final:
        return "wait"
    return Construct(whole.end(), whole.group())


def trim_url(url: str, open_runs: list[str]) -> str:
    """Remove what belongs to the sentence: a full stop, a bracket that was opened before the URL, the end of emphasis.

    A run of delimiters that closes none of the `open_runs` is part of the address.
    """
    while True:
        trimmed = url.rstrip(URL_TRAIL)
        mark = trimmed[-1:]
        if mark == ")" and trimmed.count(")") > trimmed.count("("):
            trimmed = trimmed[:-1]
        elif closed := next((run for run in reversed(open_runs) if trimmed.endswith(run)), ""):
            open_runs.remove(closed)
            trimmed = trimmed.removesuffix(closed)
        if trimmed == url:
            return url
        url = trimmed


def get_host(url: str) -> str:
    """Return the host of a URL, which is spoken instead of it."""
    match = HOST.match(url)
    return match["host"] if match else url


def find_maths(text: str, start: int, end: int, *, final: bool) -> Lookup:
    """Find a formula between dollars: `$$` over several lines, `$` within one; an amount of money is not a formula."""
    if text.startswith("$$", start, end):
        close = text.find("$$", start + 2, end)
        if close > start + 2:
            return Construct(close + 2, text[start : close + 2])
        return "no" if final or close == start + 2 else "wait"
    if end - start < 2 or (MONEY_OPEN.match(text, start, end)):
        return "no" if final else "wait"
    if text[start + 1].isspace() or MONEY.match(text, start, end):
        return "no"
    line_end = text.find("\n", start, end)
    stop = end if line_end < 0 else line_end
    closer = CLOSING_DOLLAR.search(text, start + 2, stop)
    if closer is None:
        return "no" if final or line_end >= 0 else "wait"
    close = closer.end()
    if close == end and not final:
        return "wait"
    return "no" if text[close : close + 1].isdigit() else Construct(close, text[start:close])


def find_escaped_maths(text: str, start: int, end: int, *, final: bool) -> Lookup:
    r"""Find a formula between `\(` and `\)` or `\[` and `\]`; only its brackets lose their backslash."""
    closer = "\\)" if text[start + 1] == "(" else "\\]"
    close = text.find(closer, start + 2, end)
    if close < 0:
        return "no" if final else "wait"
    return Construct(close + 2, text[start + 1] + text[start + 2 : close] + closer[1])


def find_link_tail(text: str, start: int, end: int, *, final: bool) -> Lookup:
    """Find destination and title after a link's text; the construct's text is the destination."""
    if whole := LINK_TAIL.match(text, start, end):
        return Construct(whole.end(), (whole["angled"] or whole["bare"] or "").removeprefix("<"))
    return "wait" if not final and LINK_TAIL_OPEN.match(text, start, end) else "no"


def find_label(text: str, start: int, end: int, *, final: bool) -> Lookup:
    """Find the label of a reference in its brackets."""
    if whole := LABEL.match(text, start, end):
        return Construct(whole.end(), whole["label"])
    return "wait" if not final and LABEL_OPEN.match(text, start, end) else "no"


def find_footnote(text: str, start: int, end: int, *, final: bool) -> Lookup:
    """Find a footnote mark; a negated character class such as `[^a-z]*` is not one."""
    whole = FOOTNOTE.match(text, start, end)
    if whole and (final or whole.end() < end):
        return Construct(whole.end(), whole["label"])
    return "wait" if not final and FOOTNOTE_OPEN.match(text, start, end) else "no"


def is_long_destination(text: str, start: int, end: int) -> bool:
    """Whether a link destination fills the whole window without a blank; it is then taken for a link."""
    return DESTINATION_OPEN.match(text, start, end) is not None
