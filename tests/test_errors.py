"""The tree of exceptions and the table of error codes."""

import copy
import pickle
import re
from collections.abc import Callable

import pytest

from accord import errors
from accord.errors import (
    ERROR_FACTS,
    AccordError,
    AgentError,
    BackendBusyError,
    BackendError,
    BackendRetriedError,
    BackendSkippedError,
    ConfigError,
    ConfigProblem,
    ConnectionFailedError,
    EmulationError,
    ErrorCode,
    InvalidMessageError,
    MissingExtraError,
    NotSerialisableError,
    Problem,
    RefusedError,
    StoreConflictError,
    StoreError,
    TimedOutError,
    TurnCancelledError,
    UsageError,
)

TREE: list[type[AccordError]] = [
    AccordError,
    AgentError,
    BackendBusyError,
    BackendError,
    BackendRetriedError,
    BackendSkippedError,
    ConfigError,
    ConnectionFailedError,
    EmulationError,
    InvalidMessageError,
    MissingExtraError,
    NotSerialisableError,
    RefusedError,
    StoreConflictError,
    StoreError,
    TimedOutError,
    TurnCancelledError,
    UsageError,
]

SENTENCES = [
    (InvalidMessageError("Ping", [Problem("id", "Field required")]), "Not a valid Ping: id: Field required"),
    (InvalidMessageError("Ping", [Problem("a", "x"), Problem("b", "y")]), "Not a valid Ping: a: x; b: y"),
    (NotSerialisableError("A Ping holds NaN"), "A Ping holds NaN"),
    (UsageError("No such file: a.json"), "No such file: a.json"),
    (MissingExtraError("accord.client needs aiohttp"), "accord.client needs aiohttp"),
    (ConfigError([ConfigProblem("a.toml:3:1", "policy", "expected x")]), "a.toml:3:1: policy: expected x"),
    (
        ConfigError([ConfigProblem("a.toml:3:1", "", "x"), ConfigProblem("env B", "c", "y")]),
        "a.toml:3:1: x\nenv B: c: y",
    ),
    (RefusedError("No backend can", ErrorCode.CAPABILITY_UNSUPPORTED, {"nearest": "a"}), "No backend can"),
    (BackendError("gone", retryable=False, refused="streaming"), "gone"),
    (BackendSkippedError("a: skipped: down"), "a: skipped: down"),
    (BackendBusyError("a: skipped: at its limit"), "a: skipped: at its limit"),
    (BackendRetriedError(BackendError("a: no seed")), "a: no seed"),
    (AgentError("The agent failed"), "The agent failed"),
    (EmulationError("No JSON came"), "No JSON came"),
    (TimedOutError("Nothing came"), "Nothing came"),
    (StoreError("The file is gone"), "The file is gone"),
    (ConnectionFailedError("The service cannot be reached: refused"), "The service cannot be reached: refused"),
    (StoreConflictError("Packet 3 is there already"), "Packet 3 is there already"),
    (TurnCancelledError("The turn was cancelled"), "The turn was cancelled"),
]


def test_every_code_is_in_the_table():
    assert set(ERROR_FACTS) == set(ErrorCode)


@pytest.mark.parametrize("code", ErrorCode)
def test_the_row_of_a_code_is_plausible(code: ErrorCode):
    facts = ERROR_FACTS[code]
    assert 400 <= facts.http <= 599
    assert -32800 <= facts.jsonrpc <= -32000
    assert facts.title
    assert not facts.title.endswith(".")


def test_the_tree_in_the_docstring_is_complete():
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    raised = [
        name for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, AccordError)
    ]
    assert sorted(["AccordError", *drawn]) == sorted(raised) == sorted(error.__name__ for error in TREE)


@pytest.mark.parametrize(("error", "sentence"), SENTENCES, ids=lambda value: str(value)[:30])
def test_every_error_has_its_message(error: AccordError, sentence: str):
    assert str(error) == error.message == sentence


@pytest.mark.parametrize("error", TREE, ids=lambda error: error.__name__)
def test_every_error_has_a_row_in_the_table(error: type[AccordError]):
    assert error.code in ERROR_FACTS


EVERY_ERROR = [*(error for error, _ in SENTENCES), AccordError("Something failed", details={"at": ["a", 1]})]
COPIES: list[Callable[[AccordError], AccordError]] = [
    lambda error: pickle.loads(pickle.dumps(error)),  # noqa: S301 - our own
    copy.copy,
    copy.deepcopy,
]


def test_every_kind_of_error_is_in_the_table_of_copies():
    assert {type(error) for error in EVERY_ERROR} == set(TREE)


@pytest.mark.parametrize("again", COPIES, ids=["pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: f"{type(error).__name__}: {error}"[:40])
def test_every_error_can_be_pickled_and_copied(error: AccordError, again: Callable[[AccordError], AccordError]):
    error.add_note("seen in a worker")
    copied = again(error)
    assert type(copied) is type(error)
    assert (str(copied), copied.args, copied.code) == (str(error), error.args, error.code)
    assert copied.severity is error.severity
    assert vars(copied) == vars(error)
    with pytest.raises(TypeError):
        copied.details["more"] = 1  # pyright: ignore[reportIndexIssue] - details stay read-only


def test_message_errors_are_also_value_errors():
    assert issubclass(InvalidMessageError, ValueError)
    assert issubclass(NotSerialisableError, ValueError)
