"""Log lines: one line each, no text of users or models, and no other logger is changed."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from accord.errors import ErrorCode, UsageError
from accord.servers.observability.logs import LIBRARIES, LOGGER, MAX_ANSWERED, REQUEST_ID, Log, set_up_logging
from accord.wire.receipt import Fallback, Work
from tests.receipts import a_body
from tests.servers.observability.turns import FAILED, PRIVATE_TEXT, an_eventful_turn

NASTY = 'a"\n\x1b[2J\x7f\x9b\u2028ü'


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    loggers = [logging.getLogger(name) for name in (LOGGER, *LIBRARIES)]
    before = [(each, each.handlers, each.level, each.propagate) for each in loggers]
    yield loggers[0]
    for each, handlers, level, propagates in before:
        each.handlers, each.propagate = handlers, propagates
        each.setLevel(level)


def written(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.split("\n")[:-1]


def line(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (only,) = written(capsys)
    return json.loads(only)


def test_a_turn_is_one_line_that_says_what_its_receipt_says(capsys: pytest.CaptureFixture[str]):
    set_up_logging()
    Log().turn_ended(an_eventful_turn())
    message_line = json.loads(written(capsys)[-1])
    assert message_line.pop("time").endswith("+00:00")
    assert message_line == {
        "level": "info",
        "logger": "accord.turn",
        "message": "turn done",
        "request_id": "r0",
        "fields": {
            "session": "s1",
            "outcome": "done",
            "backend": "local",
            "input_tokens": 7,
            "output_tokens": 9,
            "cost_usd": 0.25,
            "key": "k1",
            "ms": 40.5,
            "first_packet_ms": 3.0,
            "emulated": ["json_mode"],
            "adapted": {"described": 2, "dropped": 1},
        },
    }


@pytest.mark.parametrize("as_json", [True, False])
def test_no_message_of_a_failure_reaches_the_log(capsys: pytest.CaptureFixture[str], as_json: bool):
    set_up_logging(as_json=as_json)
    Log().turn_ended(an_eventful_turn(outcome=FAILED))
    only = written(capsys)[-1]
    assert "warning" in only
    assert "backend_failed" in only
    assert PRIVATE_TEXT not in only


def test_a_failed_backend_has_its_own_line_with_the_message_of_its_endpoint(capsys: pytest.CaptureFixture[str]):
    failed = Fallback(backend="far", code=ErrorCode.TOO_LARGE, message="far: too long (400)", endpoint_message=NASTY)
    set_up_logging("warning")
    Log().turn_ended(a_body(work=[Work(fallbacks=[failed])]).hashed())
    message_line = line(capsys)
    assert (message_line["level"], message_line["logger"], message_line["message"]) == (
        "warning",
        "accord.backends",
        "backend failed",
    )
    assert message_line["fields"] == failed.dump()


def test_a_skipped_backend_is_logged_only_for_debugging(capsys: pytest.CaptureFixture[str]):
    skipped = Fallback(backend="far", code=ErrorCode.UNAVAILABLE, message="far: skipped: down", skipped=True)
    set_up_logging("debug")
    Log().turn_ended(a_body(work=[Work(fallbacks=[skipped])]).hashed())
    first = json.loads(written(capsys)[0])
    assert (first["level"], first["message"], first["fields"]) == ("debug", "backend skipped", skipped.dump())


@pytest.mark.parametrize(("status", "level"), [(200, "info"), (404, "info"), (503, "warning")])
def test_a_request_is_one_line_with_its_pattern(capsys: pytest.CaptureFixture[str], status: int, level: str):
    set_up_logging()
    Log().request_done("GET", "/v1/requests/{request_id}", status, 0.0125)
    message_line = line(capsys)
    assert message_line["level"] == level
    assert message_line["fields"] == {
        "method": "GET",
        "route": "/v1/requests/{request_id}",
        "status": status,
        "ms": 12.5,
    }


def test_every_line_names_the_request_it_belongs_to(capsys: pytest.CaptureFixture[str]):
    set_up_logging()
    request_id = REQUEST_ID.set("r7")
    try:
        Log().request_done("GET", "/health", 200, 0.1)
    finally:
        REQUEST_ID.reset(request_id)
    assert line(capsys)["request_id"] == "r7"


TURN = {
    "session": "s1", "outcome": "done", "backend": "local", "input_tokens": 7, "ms": 40.5, "first_packet_ms": 3.0
}  # fmt: skip
REQUEST = {"method": "POST", "route": "/v1/assist", "request_ms": 12.5}


def test_a_request_and_the_turn_that_it_started_are_one_line(capsys: pytest.CaptureFixture[str]):
    set_up_logging()
    log = Log()
    log.turn_started("r0")
    log.turn_ended(a_body().hashed())
    assert written(capsys) == []
    log.request_done("POST", "/v1/assist", 200, 0.0125, started_turn="r0")
    message = line(capsys)
    assert (message["level"], message["message"], message["request_id"]) == ("info", "turn done", "r0")
    assert message["fields"] == TURN | REQUEST | {"status": 200}


def test_a_request_that_ended_before_its_turn_is_in_the_line_of_the_turn(capsys: pytest.CaptureFixture[str]):
    set_up_logging()
    log = Log()
    log.turn_started("r0")
    log.request_done("POST", "/v1/assist", 499, 0.0125, started_turn="r0")
    assert written(capsys) == []
    log.turn_ended(a_body().hashed())
    assert line(capsys)["fields"] == TURN | REQUEST | {"status": 499}


def test_a_request_that_fails_before_its_turn_ends_is_logged_at_once(capsys: pytest.CaptureFixture[str]):
    set_up_logging()
    log = Log()
    log.turn_started("r0")
    log.request_done("POST", "/v1/assist", 503, 0.0125, started_turn="r0")
    assert line(capsys)["message"] == "request"
    log.turn_ended(a_body().hashed())
    assert line(capsys)["fields"] == TURN


def test_requests_whose_turn_never_ends_here_are_bounded_and_logged_alone(capsys: pytest.CaptureFixture[str]):
    set_up_logging()
    log = Log()
    for number in range(MAX_ANSWERED + 2):
        log.turn_started(str(number))
        log.request_done("POST", "/v1/assist", 200, number, started_turn=str(number))
    lines = [json.loads(each) for each in written(capsys)]
    assert [(each["message"], each["fields"]["request_ms"]) for each in lines] == [("request", 0), ("request", 1_000)]


@pytest.mark.parametrize(("outcome", "status"), [({"outcome": FAILED}, 200), ({}, 500)])
def test_a_shared_line_is_a_warning_if_the_turn_or_the_request_failed(
    capsys: pytest.CaptureFixture[str], outcome: dict[str, Any], status: int
):
    set_up_logging("warning")
    log = Log()
    log.turn_started("r0")
    log.turn_ended(a_body(**outcome).hashed())
    log.request_done("POST", "/v1/assist", status, 0.1, started_turn="r0")
    assert line(capsys)["level"] == "warning"


def test_another_request_for_the_same_turn_has_its_own_line(capsys: pytest.CaptureFixture[str]):
    set_up_logging()
    log = Log()
    log.turn_started("r0")
    log.request_done("GET", "/v1/requests/{request_id}", 200, 0.1)
    assert line(capsys)["message"] == "request"


@pytest.mark.parametrize("as_json", [True, False])
def test_an_exception_is_logged_by_type_and_stack_without_its_message(
    capsys: pytest.CaptureFixture[str], as_json: bool
):
    set_up_logging(as_json=as_json)
    try:
        raise ValueError(PRIVATE_TEXT)
    except ValueError:
        logging.getLogger("accord.servers").exception("something failed")
    (only,) = written(capsys)
    assert "ValueError" in only
    assert "test_logs.py" in only
    assert PRIVATE_TEXT not in only


@pytest.mark.parametrize("as_json", [True, False])
def test_a_name_that_a_peer_chose_stays_within_its_line(capsys: pytest.CaptureFixture[str], as_json: bool):
    set_up_logging(as_json=as_json)
    Log().turn_ended(a_body(session_id=NASTY).hashed())
    (only,) = written(capsys)
    assert "\x1b" not in only
    assert as_json or (only.isascii() and only.isprintable())


def test_a_terminal_gets_text(capsys: pytest.CaptureFixture[str]):
    set_up_logging(as_json=False)
    Log().request_done("GET", "/health", 200, 0.001)
    (only,) = written(capsys)
    assert only.endswith('info    request method="GET" route="/health" status=200 ms=1.0')


@pytest.mark.parametrize("value", [NASTY, "", 0, -1, 1.5, 1e300, float("nan"), True, {"a": [1, None]}, ["ü"]])
def test_each_value_in_text_is_json_in_ascii(capsys: pytest.CaptureFixture[str], value: Any):
    set_up_logging(as_json=False)
    logging.getLogger(LOGGER).warning("w", extra={"fields": {"value": value}})
    (text,) = written(capsys)
    assert text.partition("value=")[2] == json.dumps(value).replace("\x7f", "\\u007f")


def test_a_handler_gets_what_every_record_has_and_what_the_record_factory_adds(logger: logging.Logger):
    records: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    logger.handlers = [Kept()]
    logger.setLevel(logging.INFO)
    log, factory = Log(), logging.getLogRecordFactory()

    def marked(*arguments: Any, **named: Any) -> logging.LogRecord:
        record = factory(*arguments, **named)
        record.mark = "m"
        return record

    try:
        log.request_done("GET", "/", 200, 0.1)
        logging.setLogRecordFactory(marked)
        log.request_done("GET", "/", 200, 0.1)
    finally:
        logging.setLogRecordFactory(factory)
    quick, made = (vars(record) for record in records)
    assert made.pop("mark") == "m"
    moments = {"created", "msecs", "relativeCreated"}
    assert quick.keys() == made.keys()
    assert {name for name in made if quick[name] != made[name]} <= moments
    assert all(abs(quick[name] - made[name]) < 10_000 for name in moments)


def test_a_value_that_is_not_json_is_logged_as_its_type(capsys: pytest.CaptureFixture[str]):
    set_up_logging()
    logging.getLogger("accord.servers").info("odd", extra={"fields": {"what": object()}})
    assert line(capsys)["fields"] == {"what": "object"}


@pytest.mark.parametrize(("level", "lines"), [("debug", 2), ("info", 2), ("warning", 1), ("ERROR", 0)])
def test_the_level_decides_what_is_written(capsys: pytest.CaptureFixture[str], level: str, lines: int):
    set_up_logging(level)
    Log().turn_ended(a_body().hashed())
    Log().turn_ended(a_body(outcome=FAILED).hashed())
    assert len(written(capsys)) == lines


def test_an_unknown_log_level_is_refused():
    with pytest.raises(UsageError, match="The log level should be one of debug, info, warning, error"):
        set_up_logging("loud")


def test_setting_up_again_replaces_and_touches_no_other_logger(
    capsys: pytest.CaptureFixture[str], logger: logging.Logger
):
    others = list(logging.getLogger().handlers)
    set_up_logging()
    set_up_logging()
    Log().request_done("GET", "/health", 200, 0.1)
    assert len(written(capsys)) == 1
    assert logging.getLogger().handlers == others
    assert len(logger.handlers) == 1


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_warning_of_a_library_is_one_line_without_the_message_of_its_exception(
    capsys: pytest.CaptureFixture[str], library: str, as_json: bool
):
    set_up_logging("debug", as_json=as_json)
    log = logging.getLogger(f"{library}.part")
    log.info("Started")
    try:
        raise ValueError(PRIVATE_TEXT)
    except ValueError as error:
        log.exception("Task exception was never retrieved\nfuture: <Task exception=%r>", error)
    (only,) = written(capsys)
    assert PRIVATE_TEXT not in only
    assert "Task exception was never retrieved" in only
    assert "ValueError" in only
    assert not as_json or json.loads(only)["logger"] == f"{library}.part"
