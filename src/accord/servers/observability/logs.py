"""Log lines as JSON for programs or as text for terminals: one for each turn, one for each other HTTP request.

They contain names, counts and times, but no text of users or models, no tokens and no header values. Therefore an
exception is logged as its type and stack, without its message, which may quote anything. There are two exceptions to
this, without which an operator could not find a defect: exceptions of agent code are logged with their message, and so
is the error message of a backend's endpoint, with keys masked. Warnings of the libraries that serve and trace have the
same format, with the first line of their message. No other logger is changed.
"""

import asyncio
import json
import logging
import traceback
from collections.abc import Mapping
from contextlib import nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache, partial
from json.encoder import encode_basestring_ascii
from math import isfinite
from types import TracebackType
from typing import Any, Final, TextIO, cast

from pydantic_core import to_json

from accord.errors import UsageError
from accord.servers.observability.calls import (
    TOKEN_COUNTS,
    costs_of,
    count_tokens,
    cut_name,
    list_answer_parts,
    list_dispositions,
    list_emulated,
    list_failed,
)
from accord.servers.service import NullObserver
from accord.terminal import escape_controls, escape_line
from accord.wire.adaptation import Rung
from accord.wire.receipt import OutcomeStatus

LOGGER: Final = "accord"
AGENT_LOGGER: Final = "accord.agent"
"""The logger of exceptions of agent code, whose messages are logged."""
LIBRARIES: Final = ("aiohttp", "asyncio", "opentelemetry", "sqlalchemy", "uvicorn", "websockets")
LEVELS: Final = ("debug", "info", "warning", "error")
MAX_FRAMES: Final = 40
MAX_CAUSES: Final = 5
MAX_MESSAGE_CHARS: Final = 4_000
MAX_TRACEBACK_LINES: Final = 400
"""Limits of what is logged of one exception. An endless recursion has a thousand frames."""

REQUEST_ID: Final[ContextVar[str | None]] = ContextVar("accord_request_id", default=None)
"""The id of the request that is being handled; every line that is logged meanwhile contains it."""


def set_up_logging(level: str = "info", *, as_json: bool = True) -> None:
    """Write Accord's log lines from this level on, and warnings of libraries, to standard error.

    A second call replaces the settings of the first.
    """
    if level.lower() not in LEVELS:
        raise UsageError(f"The log level should be one of {', '.join(LEVELS)}")
    handler = _LineHandler()
    handler.setFormatter(JsonLines() if as_json else TextLines())
    lowest = logging.getLevelNamesMapping()[level.upper()]
    for name in (LOGGER, *LIBRARIES):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(lowest if name == LOGGER else max(lowest, logging.WARNING))
        logger.propagate = False


class _LineHandler(logging.StreamHandler[TextIO]):
    """Writes lines: of an event loop all that one of its rounds logs, at the end of that round; anything else at once.

    A system call for each line would cost as much as making it. A warning is written at once, and what waits before it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: Final[list[str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._waiting.append(self.format(record))
            loop = asyncio._get_running_loop() if record.levelno < logging.WARNING else None  # noqa: SLF001 - None without one
            if loop is None:
                self.flush()
            elif len(self._waiting) == 1:
                loop.call_soon(self.flush)
        except RecursionError:  # as in Python's own handlers: handling it here could recurse without end
            raise
        except Exception:  # noqa: BLE001 - as in Python's own handlers
            self.handleError(record)

    def flush(self) -> None:
        """Write what waits; Python calls this at the end of the process, too."""
        with self.lock or nullcontext():
            if self._waiting:
                lines = self.terminator.join([*self._waiting, ""])
                self._waiting.clear()
                self.stream.write(lines)
            super().flush()


def line_members(record: logging.LogRecord) -> dict[str, Any]:
    """The members of a log line, in their order."""
    return {
        "time": _time_of(record),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": _text_of(record),
        **_details_of(record),
    }


def _time_of(record: logging.LogRecord) -> str:
    return f"{_second(int(record.created))}.{int(record.msecs):03d}+00:00"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _text_of(record: logging.LogRecord) -> str:
    message = record.getMessage()
    if record.name == LOGGER or record.name.startswith(f"{LOGGER}."):
        return message
    return message.partition("\n")[0]  # asyncio puts the messages of exceptions into further lines


def _details_of(record: logging.LogRecord) -> dict[str, Any]:
    members: dict[str, Any] = {}
    # Set by `extra=`, which sets attributes of the record.
    attributes = record.__dict__
    if request_id := attributes.get("request_id") or REQUEST_ID.get():
        members["request_id"] = request_id
    if fields := attributes.get("fields"):
        members["fields"] = fields
    if record.exc_info and record.exc_info[1] is not None:
        _, error, trace = record.exc_info
        members["exception"] = _describe(error, trace, with_message=record.name == AGENT_LOGGER)
    return members


def _describe(
    error: BaseException, trace: TracebackType | None, *, with_message: bool, depth: int = 0
) -> dict[str, Any]:
    """The exception as JSON values, with its causes."""
    kind = type(error)
    frames = traceback.extract_tb(trace, limit=-MAX_FRAMES)
    described: dict[str, Any] = {
        "type": kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}",
        "message": _message_of(error) if with_message else None,
        "stack": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
    inner = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    is_group = isinstance(error, BaseExceptionGroup)
    group = cast("BaseExceptionGroup[BaseException]", error).exceptions if is_group else ()
    if depth < MAX_CAUSES:
        describe = partial(_describe, with_message=with_message, depth=depth + 1)
        described["cause"] = None if inner is None else describe(inner, inner.__traceback__)
        described["exceptions"] = [describe(each, each.__traceback__) for each in group[:MAX_CAUSES]] or None
    return {name: value for name, value in described.items() if value is not None}


def _message_of(error: BaseException) -> str:
    try:
        return str(error)[:MAX_MESSAGE_CHARS]
    except Exception:  # noqa: BLE001 - `__str__` is agent code, too
        return "(its message cannot be read)"


def _type_name(value: Any) -> str:
    """Stands for a value that is not JSON: a log line must not fail, and the value's text may come from a user."""
    return type(value).__name__


_ENCODER: Final = json.JSONEncoder(default=_type_name)


def _to_ascii(value: Any) -> str:
    """The value as JSON in ASCII. Text and numbers, which most values are, take a quarter of the encoder's time."""
    kind = cast("type[Any]", type(value))
    if kind is str:
        return encode_basestring_ascii(value)
    if kind is int or (kind is float and isfinite(value)):
        return repr(value)
    return _ENCODER.encode(value)


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of this record."""
        return escape_controls(to_json(line_members(record), fallback=_type_name, inf_nan_mode="null").decode())


class TextLines(logging.Formatter):
    """Time, level and message, then the fields as `name=value`.

    Values are JSON in ASCII and the message has no control characters: a text that a peer chose can neither begin a new
    line nor move the cursor. An exception of agent code adds its traceback, each line of it escaped and indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line of this record."""
        details = _details_of(record)
        head = f"{_time_of(record)} {record.levelname.lower():<7} {escape_line(_text_of(record))}"
        exception = details.pop("exception", None) if record.name == AGENT_LOGGER else None
        if exception is not None:
            head += escape_line(f": {exception['type']}: {exception['message']}")
        values = details | details.pop("fields", {})
        # JSON leaves one control character as it is.
        line = " ".join([head, *[f"{name}={_to_ascii(value)}" for name, value in values.items()]])
        line = line.replace("\x7f", "\\u007f")
        return line if exception is None else "\n".join([line, *_traceback_lines(record)])


def _traceback_lines(record: logging.LogRecord) -> list[str]:
    """The traceback as Python prints it, escaped and indented, so that none of its lines looks like a log line."""
    kind, error, trace = cast("tuple[type[BaseException], BaseException, TracebackType | None]", record.exc_info)
    try:
        formatted = traceback.TracebackException(kind, error, trace, limit=-MAX_FRAMES, compact=True).format()
        lines = "".join(formatted).splitlines()
    except Exception:  # noqa: BLE001 - a log line must not fail, whatever the exception contains
        return []
    return [f"    {escape_line(line[:MAX_MESSAGE_CHARS])}" for line in lines[:MAX_TRACEBACK_LINES]]


MAX_ANSWERED: Final = 10_000
"""Answered requests whose turn has not ended. A turn that another process ends is never reported here, so its request
is logged alone when the limit is reached."""
TURN_MESSAGES: Final[Mapping[str, str]] = {status: f"turn {status}" for status in OutcomeStatus}
CALL_MESSAGES: Final[Mapping[str, str]] = {status: f"model call {status}" for status in OutcomeStatus}


class Log(NullObserver):
    """Logs every turn, every model API call and every other HTTP request. A request and its turn share one line.

    The line is written when both have ended, whichever is first: a client may disconnect before its turn ends.
    """

    def __init__(self) -> None:
        self._backends: Final = logging.getLogger(f"{LOGGER}.backends")
        self._turns: Final = logging.getLogger(f"{LOGGER}.turn")
        self._calls: Final = logging.getLogger(f"{LOGGER}.call")
        self._requests: Final = logging.getLogger(f"{LOGGER}.http")
        self._open: Final[dict[str, Mapping[str, Any] | None]] = {}
        """By request id, for open requests that started a turn: the turn's receipt, once it has ended."""
        self._answered: Final[dict[str, dict[str, Any]]] = {}
        """By request id, the fields of requests that were answered before the turn that they started has ended."""

    def turn_started(self, request_id: str) -> None:
        """Wait with the line of this turn for the end of its request."""
        self._open[request_id] = None

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        """Log the backends that failed, then the turn, unless its request is still open."""
        request_id = receipt["request_id"]
        for work in receipt["work"]:
            for failed in work["fallbacks"]:
                # The circuit was logged when it opened: a request that went past it is no news.
                if failed.get("skipped"):
                    _write(self._backends, logging.DEBUG, "backend skipped", dict(failed), request_id)
                else:
                    _write(self._backends, logging.WARNING, "backend failed", dict(failed), request_id)
        if request_id in self._open:
            self._open[request_id] = receipt
        else:
            self._write_turn(receipt, self._answered.pop(request_id, {}))

    def request_done(
        self, method: str, route: str, status: int, seconds: float, *, started_turn: str | None = None
    ) -> None:
        """Log the request, with the turn that it started; if that turn is still running, `turn_ended` will."""
        level = logging.WARNING if status >= 500 else logging.INFO
        fields: dict[str, Any] = {"method": method, "route": route, "status": status}
        milliseconds = round(seconds * 1_000, 3)
        if started_turn is not None:
            receipt = self._open.pop(started_turn, None)
            if receipt is not None:
                self._write_turn(receipt, fields | {"request_ms": milliseconds}, level)
                return
            # A failure is logged at once: while the store fails, the end of the turn cannot be stored.
            if level == logging.INFO:
                if len(self._answered) >= MAX_ANSWERED:
                    oldest = self._answered.pop(next(iter(self._answered)))
                    _write(self._requests, level, "request", oldest)
                self._answered[started_turn] = fields | {"request_ms": milliseconds}
                return
        _write(self._requests, level, "request", fields | {"ms": milliseconds})

    def _write_turn(self, receipt: Mapping[str, Any], request: dict[str, Any], level: int = logging.INFO) -> None:
        status = receipt["outcome"]["status"]
        if status == OutcomeStatus.FAILED:
            level = logging.WARNING
        is_call = "call" in receipt
        logger, messages = (self._calls, CALL_MESSAGES) if is_call else (self._turns, TURN_MESSAGES)
        if logger.isEnabledFor(level):
            fields = call_fields(receipt) if is_call else turn_fields(receipt)
            _write(logger, level, messages[status], fields | request, receipt["request_id"])


def _write(
    logger: logging.Logger, level: int, message: str, fields: dict[str, Any], request_id: str | None = None
) -> None:
    """Log this without the place of the call: these lines are many, and finding it takes as long as writing them."""
    if logger.isEnabledFor(level):
        extra = {"request_id": request_id, "fields": fields}
        logger.handle(logger.makeRecord(logger.name, level, "", 0, message, (), None, extra=extra))


def turn_fields(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a turn's line; what did not happen is left out."""
    work, outcome, timings = receipt["work"], receipt["outcome"], receipt["timings"]
    fields: dict[str, Any] = {"session": receipt["session_id"], "outcome": outcome["status"]}
    if "code" in outcome:
        fields["code"] = outcome["code"]
    if backends := [each["backend"]["name"] for each in work if "backend" in each]:
        fields["backend"] = ",".join(dict.fromkeys(backends))
    fields |= cost_fields(receipt)
    fields["ms"] = timings["total_ms"]
    if "first_packet_ms" in timings:
        fields["first_packet_ms"] = timings["first_packet_ms"]
    if emulated := list_emulated(work):
        fields["emulated"] = emulated
    totals: Mapping[str, int] = receipt["adaptation"]["totals"] if "adaptation" in receipt else {}
    if adapted := {rung: count for rung, count in totals.items() if count and rung != Rung.NATIVE}:
        fields["adapted"] = adapted
    return fields


def cost_fields(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """The tokens and the cost of a turn or a call, as far as they are known, and its key."""
    costs = costs_of(receipt)
    tokens = {TOKEN_COUNTS[kind]: count for kind, count in count_tokens(receipt["work"]).items()}
    return tokens | {name: costs[name] for name in ("cost_usd", "key") if name in costs}


def call_fields(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a model API call's line; what did not happen or is not known is left out."""
    call, work, outcome, timings = receipt["call"], receipt["work"], receipt["outcome"], receipt["timings"]
    fields: dict[str, Any] = {
        "outcome": outcome["status"],
        "code": outcome.get("code"),
        "api": call["api"],
        "requested": cut_name(call["requested"]),
        "served_by": call.get("served_by"),
        "model": cut_name(call["model"]) if "model" in call else None,
        **cost_fields(receipt),
        "dispositions": ", ".join(list_dispositions(receipt)) or None,
        "answer": ", ".join(list_answer_parts(receipt)) or None,
        "emulated": list_emulated(work) or None,
        "fallbacks": ",".join(list_failed(work)) or None,
        "ms": timings["total_ms"],
        "first_byte_ms": timings.get("first_packet_ms"),
    }
    return {name: value for name, value in fields.items() if value is not None}
