"""Constructs that must be seen whole to be recognised: code spans, tags, entities, maths, URLs, link tails."""

import re
from html import unescape
from html.entities import html5
from typing import Final, Literal, NamedTuple

# Which names in angle brackets are HTML.
#
# Decides by name. `<your-key>` is a word of the author, not a tag; it must not vanish.

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


def is_element(name: str) -> bool:
    """True for the elements of HTML and the common ones of SVG and MathML; the name is in lower case."""
    return name in ELEMENTS


# Constructs that must be seen whole to be named: code spans, tags, entities, maths, URLs, link tails.
#
# Decides from a window of text: yes (`Found`), no, or "more text is needed". A function here never looks at or
# past `end`, and answers the same for the same window, which is what makes the stripper independent of how its
# input was cut. It must not know what is open around the window, nor what becomes of what it found.

HOLD_LIMIT: Final = 256
"""How many characters of input anything may stay undecided. Past it, an opener is text, a destination without
a blank is a link, a comment is a comment and a URL is a URL; what is swallowed does not count as held."""


Unfound = Literal["no", "wait", "long"]
"""Why there is nothing: it cannot be there, it may still come, or the window was too small for it."""


class Found(NamedTuple):
    """A whole construct: where it ends, the text it stands for, its kind where a function knows several."""

    end: int
    text: str = ""
    kind: str = ""


Outcome = Found | Unfound

TICKS: Final = re.compile(r"`+")
ENTITY: Final = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
ENTITY_OPEN: Final = re.compile(r"&(?:#[xX]?[0-9a-fA-F]{0,7}|[A-Za-z][A-Za-z0-9]{0,31})?\Z")

ATTRIBUTE: Final = r"\s++[A-Za-z_:][\w.:-]*+(?:\s*+=\s*+(?:[^\s\"'=<>`]++|'[^']*+'|\"[^\"]*+\"))?+"
TAG: Final = re.compile(
    rf"<(?:(?P<open>[A-Za-z][A-Za-z0-9-]*+)(?P<attributes>(?:{ATTRIBUTE})*+)\s*+/?>|/(?P<close>[A-Za-z][A-Za-z0-9-]*+)\s*+>)"
)
TAG_OPEN: Final = re.compile(
    rf"<(?:[A-Za-z][A-Za-z0-9-]*+(?:{ATTRIBUTE})*+\s*+(?:/|=\s*+(?:'[^']*+|\"[^\"]*+)?)?"
    r"|/(?:[A-Za-z][A-Za-z0-9-]*+\s*+)?)?\Z"
)
SWALLOWED: Final = re.compile(
    r"<(?:!--(?P<comment>(?:-?>)|[^\0]*?-->)|\?[^\0]*?\?>|!\[CDATA\[[^\0]*?\]\]>|![A-Za-z][^>]*+>)"
)
SWALLOWED_OPEN: Final = re.compile(r"<(?:\?|![A-Za-z\[-]|!\Z)")
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
URL_TRAIL: Final = "?!.,:;*_~'"
HOST: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://)?(?:[^/?#@\s]*@)?(?:www\.)?(?P<host>[^/?#:\s]+)")

# An address without brackets holds no ASCII control character, and white space ends it, also after a backslash
# (CommonMark, 6.3). Whatever is matched here, LINK_TAIL_OPEN has to wait for.
PARENS: Final = r"(?:[^\s()\\\x00-\x1f\x7f]|\\[^\s\x00-\x1f\x7f]|\\(?=\s|\Z))"
BALANCED: Final = rf"(?:{PARENS}|\((?:{PARENS}|\((?:{PARENS}|\({PARENS}*+\))*+\))*+\))*+"
TITLE: Final = r"(?:\"(?:[^\"\\]|\\[^\0])*+\"|'(?:[^'\\]|\\[^\0])*+'|\((?:[^()\\]|\\[^\0])*+\))"
TITLE_OPEN: Final = r"(?:\"(?:[^\"\\]|\\[^\0])*+|'(?:[^'\\]|\\[^\0])*+|\((?:[^()\\]|\\[^\0])*+)\\?"
ANGLED: Final = r"<(?:[^<>\n\\]|\\[^\n])*+"
LINK_TAIL: Final = re.compile(rf"\(\s*+(?:(?P<angled>{ANGLED})>|(?P<bare>(?!<){BALANCED}))(?:\s++{TITLE})?+\s*+\)")
LINK_TAIL_OPEN: Final = re.compile(
    rf"\(\s*+(?:{ANGLED}(?:>|\\?\Z)|(?!<)[^\s\x00-\x1f]*+)(?:\s++(?:{TITLE}\s*+|{TITLE_OPEN})?)?\Z"
)
DESTINATION_OPEN: Final = re.compile(r"\(\s*+(?:[A-Za-z][A-Za-z0-9+.-]*+:|[/.#?])[^\s\[\]\x00-\x1f]*+\Z")
LABEL: Final = re.compile(r"\[(?P<label>(?:[^\[\]\\]|\\[^\0])*+)\]")
LABEL_OPEN: Final = re.compile(r"\[(?:[^\[\]\\]|\\[^\0])*+\\?\Z")
FOOTNOTE: Final = re.compile(r"\[\^(?P<label>(?!.-.\])\w[\w.-]*+)\](?![*+{(])")
FOOTNOTE_OPEN: Final = re.compile(r"\[(?:\^[\w.-]*\]?)?\Z")


def code_span(text: str, start: int, end: int, *, final: bool) -> Outcome:
    """Code between two equal runs of backticks; line ends inside are blanks."""
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
        return Found(closer.end(), code)
    return "no" if final else "wait"


def entity(text: str, start: int, end: int, *, final: bool) -> Outcome:
    """A character reference and the character it names."""
    if whole := ENTITY.match(text, start, end):
        source = whole.group()
        if source[1] == "#" or source[1:] in html5:
            return Found(whole.end(), unescape(source))
        return "no"
    return "wait" if not final and ENTITY_OPEN.match(text, start, end) else "no"


def angled(text: str, start: int, end: int, *, final: bool) -> Outcome:
    """Whatever `<` may begin, by kind: "link", "tag", "name", "comment" or "html"."""
    waits = False
    for find in (autolink, tag, swallowed):
        outcome = find(text, start, end, final=final)
        if isinstance(outcome, Found):
            return outcome
        waits = waits or outcome == "wait"
    return "wait" if waits else "no"


def tag(text: str, start: int, end: int, *, final: bool) -> Outcome:
    """An HTML tag, or a "name" that is no element of HTML; its text is the name, "/name" if it closes."""
    if whole := TAG.match(text, start, end):
        name = (whole["open"] or whole["close"]).lower()
        kind = "tag" if is_element(name) or "=" in (whole["attributes"] or "") else "name"
        return Found(whole.end(), name if whole["open"] else f"/{name}", kind)
    return "wait" if not final and TAG_OPEN.match(text, start, end) else "no"


def swallowed(text: str, start: int, end: int, *, final: bool) -> Outcome:
    """A comment, processing instruction, declaration or CDATA section; its kind is "comment" or "html"."""
    if whole := SWALLOWED.match(text, start, end):
        return Found(whole.end(), "", "html" if whole["comment"] is None else "comment")
    return "wait" if not final and SWALLOWED_OPEN.match(text, start, end) else "no"


def autolink(text: str, start: int, end: int, *, final: bool) -> Outcome:
    """A URL or a mail address in angle brackets; its text is what stands between them."""
    if whole := AUTOLINK.match(text, start, end):
        return Found(whole.end(), whole["url"] or whole["mail"], "link")
    return "wait" if not final and AUTOLINK_OPEN.match(text, start, end) else "no"


def bare_url(text: str, start: int, end: int, *, final: bool) -> Outcome:
    """A URL without brackets, less the punctuation of the sentence around it."""
    whole = URL.match(text, start, end)
    if whole is None:
        return "wait" if not final and URL_OPEN.match(text, start, end) else "no"
    if whole.end() == end and not final:
        return "wait"
    return Found(start + len(url := trim_url(whole.group())), url)


def trim_url(url: str) -> str:
    """A URL without the punctuation that belongs to the sentence: a full stop, a bracket opened before it."""
    while True:
        trimmed = url.rstrip(URL_TRAIL)
        if trimmed.endswith(")") and trimmed.count(")") > trimmed.count("("):
            trimmed = trimmed[:-1]
        if trimmed == url:
            return url
        url = trimmed


def host_of(url: str) -> str:
    """The part of a URL worth saying aloud."""
    match = HOST.match(url)
    return match["host"] if match else url


def maths(text: str, start: int, end: int, *, final: bool) -> Outcome:
    """A formula between dollars: `$$` over several lines, `$` within one; money is not maths."""
    if text.startswith("$$", start, end):
        close = text.find("$$", start + 2, end)
        if close > start + 2:
            return Found(close + 2, text[start : close + 2])
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
    return "no" if text[close : close + 1].isdigit() else Found(close, text[start:close])


def escaped_maths(text: str, start: int, end: int, *, final: bool) -> Outcome:
    r"""A formula between `\(` and `\)` or `\[` and `\]`; only its brackets lose their backslash."""
    closer = "\\)" if text[start + 1] == "(" else "\\]"
    close = text.find(closer, start + 2, end)
    if close < 0:
        return "no" if final else "wait"
    return Found(close + 2, text[start + 1] + text[start + 2 : close] + closer[1])


def link_tail(text: str, start: int, end: int, *, final: bool) -> Outcome:
    """Destination and title after a link's text; its text is the destination."""
    if whole := LINK_TAIL.match(text, start, end):
        return Found(whole.end(), (whole["angled"] or whole["bare"] or "").removeprefix("<"))
    return "wait" if not final and LINK_TAIL_OPEN.match(text, start, end) else "no"


def label(text: str, start: int, end: int, *, final: bool) -> Outcome:
    """The label of a reference in its brackets."""
    if whole := LABEL.match(text, start, end):
        return Found(whole.end(), whole["label"])
    return "wait" if not final and LABEL_OPEN.match(text, start, end) else "no"


def footnote(text: str, start: int, end: int, *, final: bool) -> Outcome:
    """A footnote's mark; a negated character class such as `[^a-z]*` is not one."""
    whole = FOOTNOTE.match(text, start, end)
    if whole and (final or whole.end() < end):
        return Found(whole.end(), whole["label"])
    return "wait" if not final and FOOTNOTE_OPEN.match(text, start, end) else "no"


def is_long_destination(text: str, start: int, end: int) -> bool:
    """A link's destination that fills its window without a blank: nothing but a link looks like that."""
    return DESTINATION_OPEN.match(text, start, end) is not None
