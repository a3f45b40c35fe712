"""Times have a zone on input and are written as UTC, in every message that has one."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from accord import ChatMessage, InvalidMessageError, PresentationEvent, ServiceResponse
from accord.wire.message import Message
from accord.wire.receipt import ReceiptBody
from tests.receipts import a_body

ID = "550e8400-e29b-41d4-a716-446655440000"
Timed = tuple[type[Message], dict[str, Any], str]

MESSAGES: dict[str, Timed] = {
    "ServiceResponse": (ServiceResponse, {"request_id": ID, "output": {}}, "created_at"),
    "ChatMessage": (ChatMessage, {"role": "user", "content": "hi"}, "timestamp"),
    "PresentationEvent": (PresentationEvent, {"type": "markdown_block", "data": {"content": "hi"}}, "timestamp"),
    "ReceiptBody": (ReceiptBody, a_body().dump(), "created_at"),
}
each_message = pytest.mark.parametrize("timed", MESSAGES.values(), ids=MESSAGES)

NOON = "2023-10-27T10:00:00Z"
SAME_MOMENT = [
    NOON,
    "2023-10-27T12:00:00+02:00",
    "2023-10-27T10:00:00+00:00",
    "2023-10-27t10:00:00z",
    "2023-10-26T23:30:00-10:30",
]


def written(message: Message, field: str) -> str:
    assert message.dump()[field] == json.loads(message.to_json())[field]
    return json.loads(message.to_json())[field]


@each_message
@pytest.mark.parametrize("text", SAME_MOMENT)
def test_every_zone_is_written_as_utc(timed: Timed, text: str):
    kind, members, field = timed
    for message in (kind.parse(json.dumps({**members, field: text})), kind.model_validate({**members, field: text})):
        assert written(message, field) == NOON
        assert getattr(message, field).utcoffset() == timedelta(0)


@each_message
@pytest.mark.parametrize(
    "moment",
    [
        datetime(2023, 10, 27, 10, tzinfo=UTC),
        datetime(2023, 10, 27, 12, tzinfo=timezone(timedelta(hours=2))),
        datetime(2023, 10, 27, 12, tzinfo=ZoneInfo("Europe/Berlin")),
    ],
)
def test_a_datetime_is_converted_too(timed: Timed, moment: datetime):
    kind, members, field = timed
    assert written(kind.model_validate({**members, field: moment}), field) == NOON


@each_message
@pytest.mark.parametrize(
    "wrong",
    [
        "2023-10-27T10:00:00",
        "2023-10-27",
        "1698400800",
        "1698400800.5",
        1698400800,
        1698400800.5,
        True,
        "noon",
        "",
        "0001-01-01T00:00:00+14:00",
    ],
)
def test_a_time_without_its_zone_is_refused(timed: Timed, wrong: Any):
    kind, members, field = timed
    with pytest.raises(InvalidMessageError, match="Expected a time with its zone, such as 2023-10-27T10:00:00Z"):
        kind.parse(json.dumps({**members, field: wrong}))
    with pytest.raises(ValidationError, match="Expected a time with its zone"):
        kind.model_validate({**members, field: wrong})


@each_message
def test_a_datetime_without_zone_is_refused(timed: Timed):
    kind, members, field = timed
    with pytest.raises(ValidationError, match="Expected a time with its zone"):
        kind.model_validate({**members, field: datetime(2023, 10, 27, 10)})  # noqa: DTZ001 - that is the point


def test_a_time_that_accord_sets_is_utc():
    for kind, members, field in (MESSAGES["ChatMessage"], MESSAGES["PresentationEvent"]):
        assert written(kind.model_validate(members), field).endswith("Z")
