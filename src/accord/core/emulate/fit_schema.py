"""Tells whether a value fits a JSON Schema, and where it does not: the only place that uses the validator.

Draft 2020-12 unless the schema names another. Nothing is ever fetched: a reference leads inside the schema or the
schema is refused. The cheap question (does it fit?) is asked first; details are collected only where `schema_cost.py`
finds that affordable. The validator (jsonschema-rs) is imported with the first schema.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

from accord.core.emulate.schema_cost import SchemaCost
from accord.errors import InvalidMessageError, Problem

WHOLE: Final = "(the whole value)"
MAX_FINDINGS: Final = 8
MAX_FINDING_CHARS: Final = 240
BACKTRACK_LIMIT: Final = 10_000
"""How many steps a `pattern` with look-around may take on one text."""

_MASK: Final = "this value"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a value: `message` for whoever wrote it, `record` for receipts.

    The message may repeat member names that the value has. The record is made of the schema and of our own words.
    """

    message: str
    record: str


TOO_LARGE: Final = Finding(
    f"{WHOLE}: is too large to be checked against the schema; make it shorter",
    "the value is too large to be checked against the schema",
)
NO_DETAILS: Final = Finding(
    f"{WHOLE}: is not valid against the schema, which has too many alternatives to name them all",
    "the value is not valid against the schema; it has too many alternatives to list the errors",
)


class _Error(Protocol):
    @property
    def message(self) -> str: ...
    @property
    def instance_path(self) -> Sequence[str | int]: ...
    @property
    def schema_path(self) -> Sequence[str | int]: ...
    @property
    def kind(self) -> object: ...


class SchemaFit:
    """A schema, ready to be held against values; raises `InvalidMessageError` if it is broken or too complex."""

    def __init__(self, schema: Mapping[str, Any], *, name: str) -> None:
        import jsonschema_rs  # noqa: PLC0415 - importing Accord stays light

        try:
            self._cost = SchemaCost(schema)
        except ValueError as error:
            raise InvalidMessageError(name, [Problem(WHOLE, str(error))]) from None
        patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT)
        try:
            self._validator = jsonschema_rs.validator_for(
                dict(schema), mask=_MASK, retriever=_never_fetched, pattern_options=patterns
            )
        except jsonschema_rs.ValidationError as error:
            raise InvalidMessageError(name, [Problem(_pointer(error.instance_path), _short(error.message))]) from None
        except ValueError:
            raise InvalidMessageError(name, [Problem(WHOLE, "should be text that UTF-8 can carry")]) from None

    def fits(self, value: Any) -> bool:
        """Whether the value is valid; one that is too large to be checked is not."""
        return self._cost.can_judge(value) and self._validator.is_valid(value)

    def findings(self, value: Any) -> list[Finding]:
        """What is wrong with the value; empty if it fits."""
        if not self._cost.can_judge(value):
            return [TOO_LARGE]
        if self._validator.is_valid(value):
            return []
        if not self._cost.can_explain(value):
            return [NO_DETAILS]
        errors: Sequence[_Error] = [*self._validator.iter_errors(value)]
        return [_finding(error) for error in errors[:MAX_FINDINGS]] or [NO_DETAILS]


def _never_fetched(uri: str) -> NoReturn:  # noqa: ARG001 - the validator names what it would have fetched
    raise ValueError("schemas are not fetched")


def _finding(error: _Error) -> Finding:
    keyword = error.schema_path[-1] if error.schema_path else "schema"
    return Finding(_message(error), _short(f"does not meet {_pointer(error.schema_path)} of the schema ({keyword})"))


def _message(error: _Error) -> str:
    # Of "none of these", a model learns something only from what each of them would have wanted.
    branches: Sequence[Sequence[_Error]] = getattr(error.kind, "context", ())
    wanted = "; or ".join(_message(branch[0]) for branch in branches if branch)
    return _short(f"{_pointer(error.instance_path)}: {error.message}" + (f" ({wanted})" if wanted else ""))


def _pointer(path: Sequence[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path) or WHOLE


def _short(text: str) -> str:
    return text if len(text) <= MAX_FINDING_CHARS else text[: MAX_FINDING_CHARS - 1] + "…"
