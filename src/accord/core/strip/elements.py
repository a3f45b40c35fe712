"""Which names in angle brackets are HTML.

Decides by name. `<your-key>` is a word of the author, not a tag; it must not vanish.
"""

from typing import Final

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
