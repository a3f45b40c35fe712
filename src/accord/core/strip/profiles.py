"""How text sounds or looks: the two profiles, the sentences the stripper adds, and how languages are called.

Decides words only. It must not know where in a document a sentence is used.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


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
