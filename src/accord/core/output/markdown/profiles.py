"""The two text profiles, the sentences that the stripper adds, and its notes on what was dropped or rewritten."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

# What was not read out, dropped or rewritten, written down; and where in the input it stood.
#
# Decides how offsets survive folded line endings. It must not know why anything was dropped, and keeps no
# content beyond a short marker.

MAX_NOTES: Final = 4096
MARKER_LENGTH: Final = 24
FOLDS_KEPT: Final = 8192


class NoteKind(StrEnum):
    """Everything the stripper may do to a text besides taking its markup off."""

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
    TASK = "task"


@dataclass(frozen=True, slots=True)
class Note:
    """One thing a reader of the output cannot see: its kind, its offset in the input, a short marker."""

    kind: NoteKind
    position: int
    marker: str = ""


class Notebook:
    """The account of one text, bounded: after `MAX_NOTES` it only counts."""

    __slots__ = ("_folded_before", "_folds", "_notes", "unrecorded")

    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._folds: list[int] = []
        self._folded_before = 0
        self.unrecorded = 0

    def fold(self, position: int) -> None:
        """Remember that one input character vanished right after this position of the normalised text."""
        self._folds.append(position)
        if len(self._folds) > 2 * FOLDS_KEPT:
            del self._folds[:FOLDS_KEPT]
            self._folded_before += FOLDS_KEPT

    def offset(self, position: int) -> int:
        """The offset in the input of a position in the normalised text."""
        return position + self._folded_before + bisect_left(self._folds, position)

    def add(self, kind: NoteKind, position: int, marker: str = "") -> None:
        """Write one note down; the position is one of the normalised text."""
        if len(self._notes) < MAX_NOTES:
            self._notes.append(Note(kind, self.offset(position), marker[:MARKER_LENGTH]))
        else:
            self.unrecorded += 1

    @property
    def notes(self) -> tuple[Note, ...]:
        """All notes, in the order in which they were decided."""
        return tuple(self._notes)


# How text sounds or looks: the two profiles, the sentences the stripper adds, and how languages are called.
#
# Decides words only. It must not know where in a document a sentence is used.


class Profile(StrEnum):
    """`plain` is a screen without markdown: no word is lost. `speech` is an ear: the rest is told."""

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

NAMELESS: Final = frozenset({"", "text", "txt", "plain", "plaintext", "output", "none"})
LONGEST_NAME: Final = 24


def describe_code(info: str, lines: int, messages: Messages) -> str:
    """The sentence that stands for a code block nobody wants to hear."""
    words = info.split()
    tag = words[0].strip("{}.").lower()[:LONGEST_NAME] if words else ""
    key = "code_block_unnamed" if tag in NAMELESS else "code_block"
    if lines == 1:
        key += "_one"
    language = LANGUAGE_NAMES.get(tag) or tag.capitalize()
    return messages[key].format(language=language, lines=lines)
