"""Log lines: one a turn, one an HTTP request, as JSON for machines or as text for terminals.

They hold names, counts and times, never what a user or a model said, never a token or the value of a header. For that
reason an exception is written as its type and its stack: its message may quote anybody. There are two exceptions to
this, without which an operator could not find a defect: what agent code raises is written with its message, and so is
the error message of a backend's endpoint, from which keys are masked. Warnings of the libraries that serve and trace go
through the same format, with the first line of their message; no other logger is touched.
"""

import json
import logging
import traceback
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Final, cast

from pydantic_core import to_json

from accord.errors import UsageError
from accord.terminal import escape_controls, escape_line
from accord.wire.adaptation import Rung
from accord.wire.receipt import OutcomeStatus

LOGGER: Final = "accord"
AGENT_LOGGER: Final = "accord.agent"
"""The logger of exceptions of agent code, written with their message by `engine/agent_errors.py`."""
LIBRARIES: Final = ("aiohttp", "asyncio", "opentelemetry", "sqlalchemy", "uvicorn", "websockets")
LEVELS: Final = ("debug", "info", "warning", "error")
MAX_FRAMES: Final = 40
MAX_CAUSES: Final = 5
MAX_MESSAGE_CHARS: Final = 4_000
MAX_TRACEBACK_LINES: Final = 400
"""How much is written of one exception. An endless recursion has a thousand frames."""

REQUEST_ID: Final[ContextVar[str | None]] = ContextVar("accord_request_id", default=None)
"""The request that is being served, for every line that is written meanwhile."""
USER: Final[ContextVar[str | None]] = ContextVar("accord_user", default=None)
"""Who asks, if anybody was asked who they are."""


def set_up_logging(level: str = "info", *, as_json: bool = True) -> None:
    """Write the lines of `accord` to standard error from this level on, and what libraries warn of.

    Doing so again replaces how it was.
    """
    if level.lower() not in LEVELS:
        raise UsageError(f"The log level should be one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if as_json else TextLines())
    least = logging.getLevelNamesMapping()[level.upper()]
    for name in (LOGGER, *LIBRARIES):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(least if name == LOGGER else max(least, logging.WARNING))
        logger.propagate = False


def told(record: logging.LogRecord) -> dict[str, Any]:
    """Everything a line says, in the order in which it is said."""
    line: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": _message(record),
        "request_id": getattr(record, "request_id", None) or REQUEST_ID.get(),
        "user": USER.get(),
        "fields": cast("dict[str, Any] | None", getattr(record, "fields", None)),
        "exception": _exception(record),
    }
    return {name: value for name, value in line.items() if value is not None}


def _message(record: logging.LogRecord) -> str:
    """Our own message; of a library's its first line, since asyncio puts the words of exceptions into the others."""
    message = record.getMessage()
    return message if record.name.partition(".")[0] == LOGGER else message.partition("\n")[0]


def _exception(record: logging.LogRecord) -> dict[str, Any] | None:
    if not record.exc_info or record.exc_info[1] is None:
        return None
    _, error, trace = record.exc_info
    return _described(error, trace, with_message=record.name == AGENT_LOGGER)


def _described(
    error: BaseException, trace: TracebackType | None, *, with_message: bool, depth: int = 0
) -> dict[str, Any]:
    """The exception as JSON values, with what caused it."""
    frames = traceback.extract_tb(trace, limit=-MAX_FRAMES)
    described: dict[str, Any] = {
        "type": _type_name(error),
        "message": _message_of(error) if with_message else None,
        "stack": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
    inner = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    is_group = isinstance(error, BaseExceptionGroup)
    group = cast("BaseExceptionGroup[BaseException]", error).exceptions if is_group else ()
    if depth < MAX_CAUSES:
        more = partial(_described, with_message=with_message, depth=depth + 1)
        described["cause"] = None if inner is None else more(inner, inner.__traceback__)
        described["exceptions"] = [more(each, each.__traceback__) for each in group[:MAX_CAUSES]] or None
    return {name: value for name, value in described.items() if value is not None}


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message_of(error: BaseException) -> str:
    try:
        return str(error)[:MAX_MESSAGE_CHARS]
    except Exception:  # noqa: BLE001 - `__str__` is agent code, too
        return "(its message cannot be read)"


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        # Whatever cannot be JSON is told by its kind: a log line must not fail, and text may be anybody's.
        return escape_controls(to_json(told(record), fallback=_kind, inf_nan_mode="null").decode())


class TextLines(logging.Formatter):
    """One line for a reader: time, level, message, then the fields as `name=value`.

    Values are written as JSON in ASCII and the message as one line without control characters: what a peer chose can
    neither begin a line of its own nor move a cursor. An exception of agent code adds its traceback, each line of it
    escaped and indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = told(record)
        head = f"{line.pop('time')} {line.pop('level'):<7} {escape_line(line.pop('message'))}"
        is_agent = line.pop("logger") == AGENT_LOGGER
        exception = line.pop("exception", None) if is_agent else None
        if exception is not None:
            head += escape_line(f": {exception['type']}: {exception['message']}")
        fields = line.pop("fields", {})
        text = " ".join([head, *(f"{name}={_shown(value)}" for name, value in (line | fields).items())])
        return text if exception is None else "\n".join([text, *_traceback_lines(record)])


def _traceback_lines(record: logging.LogRecord) -> Iterator[str]:
    """The traceback as Python prints it, escaped and indented, so that no line of it looks like the log's own."""
    kind, error, trace = cast("tuple[type[BaseException], BaseException, TracebackType | None]", record.exc_info)
    try:
        formatted = traceback.TracebackException(kind, error, trace, limit=-MAX_FRAMES, compact=True).format()
        lines = "".join(formatted).splitlines()
    except Exception:  # noqa: BLE001 - a log line must not fail, whatever the exception is made of
        return
    for line in lines[:MAX_TRACEBACK_LINES]:
        yield f"    {escape_line(line[:MAX_MESSAGE_CHARS])}"


def _kind(value: Any) -> str:
    return type(value).__name__


def _shown(value: Any) -> str:
    return json.dumps(value, default=_kind).replace("\x7f", "\\u007f")


class Log:
    """Writes a line for every turn and every request."""

    def __init__(self) -> None:
        self._backends: Final = logging.getLogger(f"{LOGGER}.backends")
        self._turns: Final = logging.getLogger(f"{LOGGER}.turn")
        self._requests: Final = logging.getLogger(f"{LOGGER}.http")

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        """One line of what the receipt says, after one for each backend that failed, with what it said."""
        request_id, status = receipt["request_id"], receipt["outcome"]["status"]
        for failed in (failed for work in receipt["work"] for failed in work["fallbacks"]):
            extra = {"request_id": request_id, "fields": dict(failed)}
            _write(self._backends, logging.WARNING, "backend failed", extra)
        level = logging.WARNING if status == OutcomeStatus.FAILED else logging.INFO
        if self._turns.isEnabledFor(level):
            extra = {"request_id": request_id, "fields": turn_fields(receipt)}
            _write(self._turns, level, TURN_LINES[status], extra)

    def request_done(self, method: str, route: str, status: int, seconds: float) -> None:
        """One line of what was asked for, by its pattern, and how it was answered."""
        level = logging.WARNING if status >= 500 else logging.INFO
        if self._requests.isEnabledFor(level):
            fields = {"method": method, "route": route, "status": status, "ms": round(seconds * 1_000, 3)}
            _write(self._requests, level, "request", {"fields": fields})

    def stream_opened(self, transport: str) -> None:
        """Say nothing: its request has a line."""

    def stream_closed(self, transport: str) -> None:
        """Say nothing."""


def _write(logger: logging.Logger, level: int, message: str, extra: dict[str, Any]) -> None:
    """Log this as from nowhere: these lines are many, and looking for their caller takes as long as writing them."""
    logger.handle(logger.makeRecord(logger.name, level, "", 0, message, (), None, extra=extra))


TURN_LINES: Final[Mapping[str, str]] = {status: f"turn {status}" for status in OutcomeStatus}


def turn_fields(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """What a line says of a turn; what did not happen is left out."""
    work, outcome, timings = receipt["work"], receipt["outcome"], receipt["timings"]
    backends = [each["backend"]["name"] for each in work if "backend" in each]
    emulations = [each["emulations"] for each in work if "emulations" in each]
    emulated = {entry["capability"] for each in emulations for entry in each["emulated"]}
    totals: Mapping[str, int] = receipt["adaptation"]["totals"] if "adaptation" in receipt else {}
    fields: dict[str, Any] = {
        "session": receipt["session_id"],
        "outcome": outcome["status"],
        "code": outcome.get("code"),
        "backend": ",".join(dict.fromkeys(backends)),
        "ms": timings["total_ms"],
        "first_packet_ms": timings.get("first_packet_ms"),
        "emulated": sorted(emulated),
        "adapted": {rung: count for rung, count in totals.items() if count and rung != Rung.NATIVE},
    }
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}
