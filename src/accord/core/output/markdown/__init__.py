"""Streaming markdown to text: for a screen without markdown, or for a voice.

The path of one piece of text: `stripper` (fast paths for plain text) → `scanner.InputNormalizer` → `blocks` (the block
structure; `line_starts` reads the start of a line with the patterns in `lines`) → `leaves`, `html` (the text of a
block) → `scanner`, `inline` (inline markdown; `lookahead`) → `delimiters` (the delimiter stack) → `output_buffer` →
`shortcuts` (references whose definition comes later).

Undecided text is kept back for at most `HOLD_LIMIT` characters of input; a possible table header until the start of the
next line. Limits count characters, never pieces, so the output does not depend on where the input was cut.
"""

from accord.core.output.markdown.profiles import ENGLISH, Messages, Note, NoteKind, Profile
from accord.core.output.markdown.stripper import TextStripper, strip

__all__ = ["ENGLISH", "Messages", "Note", "NoteKind", "Profile", "TextStripper", "strip"]
