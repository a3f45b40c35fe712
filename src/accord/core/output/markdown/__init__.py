"""Streaming markdown to text: for a screen without markdown, or for a voice.

Follow one piece of text: `stripper` (fast lanes; `prose` reads what is plain) → `source` (normalised) →
`blocks` (the structure; `glance`, else `heads`, reads a line's beginning by the patterns in `starts`) →
`leaves`, `table`, `htmltext` (a block's text) → `scanner` and `inline` (inline markdown; `flanking`,
`lookahead`) → `hold` (the delimiter stack) → `outlet`.

Whatever is undecided waits for at most `HOLD_LIMIT` characters of input, a possible table header for its line
and the beginning of the next. Limits count characters, never pieces, so the cuts of the input never show.
"""

from accord.core.output.markdown.profiles import ENGLISH, Messages, Note, NoteKind, Profile
from accord.core.output.markdown.stripper import TextStripper, strip

__all__ = ["ENGLISH", "Messages", "Note", "NoteKind", "Profile", "TextStripper", "strip"]
