"""Read a file that a user named: its text, its JSON, or a message; each failure is one sentence of `UsageError`."""

import sys
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from accord.errors import UsageError
from accord.wire.message import invalid_message

ModelT = TypeVar("ModelT", bound=BaseModel)

STDIN: Final = "-"


def path_exists(name: str) -> bool:
    """Whether there is a file or directory of this name."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # longer than a name may be, or with a NUL character
        return False


def read_text(name: str) -> str:
    """Return the text of a file, or of standard input for `-`."""
    try:
        return sys.stdin.read() if name == STDIN else Path(name).read_text(encoding="utf-8")
    except IsADirectoryError:
        raise UsageError(f"{name}: is a directory; give a file") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: byte {error.start}: expected UTF-8 text") from error
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
    except ValueError as error:  # a name with a NUL character
        raise UsageError(f"{name}: {error}") from error


def read_json(name: str) -> Any:
    """Return the JSON value in a file."""
    text = read_text(name)
    if not text.strip():
        raise UsageError(f"{name}: is empty; expected JSON")
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise UsageError(f"{name}: expected JSON: {error}") from error


def read_message(name: str, model: type[ModelT]) -> ModelT:
    """Return the message in a JSON file."""
    return parse_message(read_json(name), model, name)


def parse_message(value: Any, model: type[ModelT], place: str) -> ModelT:
    """Return the value as a message; `place` (a file or an option) begins the error."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = invalid_message(model.__name__, error).problems
        listed = "; ".join(f"{problem.field}: {problem.expected}" for problem in problems)
        raise UsageError(f"{place}: expected {model.__name__}: {listed}") from None
