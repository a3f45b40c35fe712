"""Says whether a value fits a JSON Schema, and where it does not: a path, and what was expected there.

Draft 2020-12 unless the schema names another. Nothing is ever fetched: a reference leads inside the schema or the
schema is broken. The findings never repeat the value. The validator (jsonschema-rs) is loaded when the first schema
is.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, Protocol

from accord.errors import InvalidMessageError, Problem

WHOLE: Final = "(the whole value)"
MAX_PROBLEMS: Final = 8
MAX_PROBLEM_CHARS: Final = 240

_MASK: Final = "this value"


class _Finding(Protocol):
    @property
    def message(self) -> str: ...
    @property
    def instance_path(self) -> Sequence[str | int]: ...
    @property
    def kind(self) -> object: ...


class SchemaFit:
    """A schema, ready to be held against values; raises `InvalidMessageError` if it is broken itself."""

    def __init__(self, schema: Mapping[str, Any], *, name: str) -> None:
        import jsonschema_rs  # noqa: PLC0415 - importing Accord stays light

        try:
            self._validator = jsonschema_rs.validator_for(dict(schema), mask=_MASK, retriever=_never_fetched)
        except jsonschema_rs.ValidationError as error:
            raise InvalidMessageError(name, [Problem(_pointer(error.instance_path), _short(error.message))]) from None
        except ValueError:
            raise InvalidMessageError(name, [Problem(WHOLE, "should be text that UTF-8 can carry")]) from None

    def problems(self, value: Any) -> list[str]:
        """What is wrong with the value, in short; empty if it fits."""
        found: list[str] = []
        for error in self._validator.iter_errors(value):
            found.append(_told(error))
            if len(found) == MAX_PROBLEMS:
                break
        return found


def _never_fetched(uri: str) -> NoReturn:  # noqa: ARG001 - the validator names what it would have fetched
    raise ValueError("schemas are not fetched")


def _told(error: _Finding) -> str:
    # Of "none of these", a model learns something only from what each of them would have wanted.
    branches: Sequence[Sequence[_Finding]] = getattr(error.kind, "context", ())
    wanted = "; or ".join(_told(branch[0]) for branch in branches if branch)
    return _short(f"{_pointer(error.instance_path)}: {error.message}" + (f" ({wanted})" if wanted else ""))


def _pointer(path: Sequence[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path) or WHOLE


def _short(text: str) -> str:
    return text if len(text) <= MAX_PROBLEM_CHARS else text[: MAX_PROBLEM_CHARS - 1] + "…"
