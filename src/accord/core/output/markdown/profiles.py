"""The two text profiles, the sentences that the stripper adds, and the log of what it removed or rewrote."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

MAX_NOTES: Final = 4096
MARKER_LENGTH: Final = 24  # a marker names a thing, it must not quote content
FOLDS_KEPT: Final = 8192


class NoteKind(StrEnum):
    """What the stripper may do to a text besides removing emphasis, links and other plain markup."""

    CODE_BLOCK = "code_block"
    TABLE = "table"
    URL = "url"
    IMAGE = "image"
    HTML = "html"
    COMMENT = "comment"
    UNMATCHED_DELIMITER = "unmatched_delimiter"
    STRIKETHROUGH = "strikethrough"
    MATH = "math"
    FOOTNOTE = "footnote"
    REFERENCE_DEFINITION = "reference_definition"


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that was removed or rewritten: its kind, its offset in the input, a short marker."""

    kind: NoteKind
    position: int
    marker: str = ""


class NoteLog:
    """The first `MAX_NOTES` notes on one text, with offsets in the original input.

    The stripper works on normalised text, in which some pairs of characters are one (CR LF). The log keeps where,
    so that each note gets the offset in the input.
    """

    __slots__ = ("_folded_before", "_folds", "_notes")

    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._folds: list[int] = []
        self._folded_before = 0

    def fold(self, position: int) -> None:
        """Record that one input character was removed after this position of the normalised text."""
        self._folds.append(position)
        if len(self._folds) > 2 * FOLDS_KEPT:
            del self._folds[:FOLDS_KEPT]
            self._folded_before += FOLDS_KEPT

    def offset(self, position: int) -> int:
        """Return the offset in the input of a position in the normalised text."""
        return position + self._folded_before + bisect_left(self._folds, position)

    def add(self, kind: NoteKind, position: int, marker: str = "") -> None:
        """Add a note at a position of the normalised text."""
        if len(self._notes) < MAX_NOTES:
            self._notes.append(Note(kind, self.offset(position), marker[:MARKER_LENGTH]))

    @property
    def notes(self) -> tuple[Note, ...]:
        """All notes, in the order in which they were made."""
        return tuple(self._notes)


class Profile(StrEnum):
    """What the text is for.

    `plain`: a screen without markdown; no word is lost. `speech`: a voice; code, tables and links are described.
    """

    PLAIN = "plain"
    SPEECH = "speech"


Messages = Mapping[str, str]

ENGLISH: Final[Messages] = MappingProxyType(
    {
        "code_block": "({language} code, {lines} lines)",
        "code_block_one": "({language} code, {lines} line)",
        "code_block_unnamed": "(Code, {lines} lines)",
        "code_block_unnamed_one": "(Code, {lines} line)",
        "link": "the link to {host}",
        "footnote": "Note {label}:",
        "task_done": ", checked",
        "task_open": ", not checked",
        "cell": "{column}: ",
        "cell_next": ", ",
        "row_end": ".",
    }
)

LANGUAGE_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bash": "Bash", "c": "C", "c#": "C#", "c++": "C++", "clojure": "Clojure", "cpp": "C++", "cs": "C#",
        "csharp": "C#", "css": "CSS", "csv": "CSV", "dart": "Dart", "diff": "Diff", "docker": "Dockerfile",
        "dockerfile": "Dockerfile", "elixir": "Elixir", "erlang": "Erlang", "f#": "F#", "fsharp": "F#",
        "go": "Go", "golang": "Go", "graphql": "GraphQL", "haskell": "Haskell", "hs": "Haskell",
        "html": "HTML", "ini": "INI", "java": "Java", "javascript": "JavaScript", "js": "JavaScript",
        "json": "JSON", "jsonc": "JSON", "jsonl": "JSON", "jsx": "JSX", "julia": "Julia", "kotlin": "Kotlin",
        "kt": "Kotlin", "latex": "LaTeX", "lua": "Lua", "makefile": "Makefile", "markdown": "Markdown",
        "matlab": "MATLAB", "md": "Markdown", "mermaid": "Mermaid", "nginx": "Nginx",
        "objective-c": "Objective-C", "objectivec": "Objective-C", "ocaml": "OCaml", "perl": "Perl",
        "php": "PHP", "powershell": "PowerShell", "ps1": "PowerShell", "proto": "Protobuf", "py": "Python",
        "python": "Python", "python3": "Python", "r": "R", "rb": "Ruby", "rs": "Rust", "ruby": "Ruby",
        "rust": "Rust", "sass": "Sass", "scala": "Scala", "scss": "SCSS", "sh": "Shell", "shell": "Shell",
        "sql": "SQL", "svelte": "Svelte", "swift": "Swift", "tex": "LaTeX", "toml": "TOML",
        "ts": "TypeScript", "tsx": "TSX", "typescript": "TypeScript",
        "vb": "Visual Basic", "vim": "Vim", "vue": "Vue",
        "xml": "XML", "yaml": "YAML", "yml": "YAML", "zig": "Zig", "zsh": "Zsh",
    }
)  # fmt: skip

UNNAMED_INFO: Final = frozenset({"", "text", "txt", "plain", "plaintext", "output", "none"})
LONGEST_NAME: Final = 24


def describe_code(info: str, lines: int, messages: Messages) -> str:
    """Return the sentence that is spoken instead of a code block."""
    words = info.split()
    tag = words[0].strip("{}.").lower()[:LONGEST_NAME] if words else ""
    key = "code_block_unnamed" if tag in UNNAMED_INFO else "code_block"
    if lines == 1:
        key += "_one"
    language = LANGUAGE_NAMES.get(tag) or tag.capitalize()
    return messages[key].format(language=language, lines=lines)
