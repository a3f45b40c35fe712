"""Read prompts: on a terminal with line editing, completion and a history that is kept, otherwise line by line."""

import json
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from glob import escape, glob
from pathlib import Path
from typing import Final

from accord.config.trust import PRIVATE_FILE, make_state_folder
from accord.errors import UsageError

try:
    import readline
except ImportError:  # not on every system
    readline = None

FILE_NAME: Final = "chat-history.jsonl"
MAX_ENTRIES: Final = 1_000
PROMPT: Final = "> "
MORE: Final = ". "
CONTINUES: Final = "\\"
"""The last character of a line that goes on in the next one."""

ReadLine = Callable[[str], str | None]
"""Reads a line after a prompt; None at the end of the input."""


def read_prompt(read_line: ReadLine) -> str | None:
    """Read one prompt, of several lines if each but the last ends with a backslash; None at the end of the input."""
    lines: list[str] = []
    while (line := read_line(MORE if lines else PROMPT)) is not None:
        lines.append(line.removesuffix(CONTINUES))
        if not line.endswith(CONTINUES):
            break
    # Bytes that are not UTF-8 come from a terminal as lone surrogates, which cannot be sent.
    return "\n".join(lines).encode(errors="replace").decode() if lines else None


def read_input_line(prompt: str) -> str | None:
    """Read a line of standard input; the prompt goes to standard error, and only if a user types."""
    if sys.stdin.isatty():
        print(prompt, end="", file=sys.stderr, flush=True)
    try:
        line = sys.stdin.readline()
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input: byte {error.start}: expected UTF-8 text") from error
    return line.removesuffix("\n") if line else None


class LineEditor:
    """Reads lines on a terminal. The history is a file that only its owner can read, with a prompt on each line."""

    def __init__(self, commands: Iterable[str]) -> None:
        self._commands: Final = list(commands)
        self._file: Path | None = None
        with suppress(UsageError):  # without a folder of its own, the history is not kept
            self._file = make_state_folder(os.environ) / FILE_NAME
        self._matches: list[str] = []
        if readline is None:
            return
        readline.set_auto_history(False)
        readline.set_completer(self._complete)
        readline.set_completer_delims(" ")
        if "libedit" in (readline.__doc__ or ""):
            readline.parse_and_bind("bind ^I rl_complete")
        else:
            readline.parse_and_bind("tab: complete")
            # Pasted lines are one prompt. Python turns this off, since its own prompt cannot do that.
            readline.parse_and_bind("set enable-bracketed-paste on")
        for entry in _read_entries(self._file) if self._file else ():
            readline.add_history(entry)

    def read_line(self, prompt: str) -> str | None:
        """Read a line; raises `KeyboardInterrupt` for Ctrl-C."""
        try:
            return input(prompt)
        except EOFError:
            print()
            return None

    def remember(self, entry: str) -> None:
        """Add a prompt to the history, here and in the file."""
        if readline is not None:
            readline.add_history(entry)
        if self._file is None:
            return
        with suppress(OSError):  # a history that cannot be written must not end the chat
            descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
            try:
                os.write(descriptor, f"{json.dumps(entry)}\n".encode())
            finally:
                os.close(descriptor)

    def _complete(self, text: str, state: int) -> str | None:
        """Complete commands, and the names of files after a command."""
        if state == 0:
            is_first = readline is not None and readline.get_begidx() == 0
            if is_first:
                self._matches = [f"{each} " for each in self._commands if text and each.startswith(text)]
            else:
                found = glob(f"{escape(os.path.expanduser(text))}*")  # noqa: PTH111, PTH207 - text, as it is typed
                self._matches = [f"{each}/" if Path(each).is_dir() else each for each in sorted(found)]
        return self._matches[state] if state < len(self._matches) else None


def _read_entries(file: Path) -> list[str]:
    """Return the last entries of the history; if there are many more, the file is shortened to these."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    if len(lines) > 2 * MAX_ENTRIES:
        with suppress(OSError):
            file.write_text("".join(f"{line}\n" for line in lines[-MAX_ENTRIES:]), encoding="utf-8")
    entries: list[str] = []
    for line in lines[-MAX_ENTRIES:]:
        with suppress(ValueError):  # a line that was written in part
            entry = json.loads(line)
            entries += [entry] if isinstance(entry, str) else []
    return entries
