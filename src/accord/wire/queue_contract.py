"""What travels over NATS as AsyncAPI 3.0, generated from the models and the names of subjects and headers."""

from typing import Any, Final, cast

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from accord.wire.packet import StreamPacket
from accord.wire.queue_messages import (
    CANCEL_TOPIC,
    EPOCH_HEADER,
    FENCE_HEADER,
    LAST_HEADER,
    MESSAGE_ID_HEADER,
    OVER_HEADER,
    REASON_HEADER,
    SEQ_HEADER,
    Names,
)
from accord.wire.request import ServiceRequest
from accord.wire.routes import ASSIST_PATH

Json = dict[str, Any]

_SCHEMA_REF: Final = "#/components/schemas/{model}"
_MODELS: Final[tuple[type[BaseModel], ...]] = (ServiceRequest, StreamPacket)
_EXAMPLE_ID: Final = "0b6ee0a2-7f0e-4f4e-8f6a-1f5c6a1f0d6e"
_REQUEST: Final[Json] = {
    "request_id": _EXAMPLE_ID,
    "context": {"session_id": "first", "user": {"id": "me", "name": "Me"}},
    "payload": {"query": "Hello"},
}
_DELTAS: Final = '{"op":"delta","p":"Hello"}\n{"op":"delta","p":" there"}'
_CLOSE: Final = '{"op":"close"}'

_NUMBER: Final = r"^[0-9]{1,19}$"
_UNKNOWN: Final = "A message with other headers may be added: ignore a message that you do not know."

INTERNAL: Final = "x-internal"
"""Marks what only the processes of Accord send and read."""


def queue_document(*, title: str = "Accord", version: str = "1.0.0") -> Json:
    """Return the AsyncAPI 3.0 document of the queue, with its schemas under `components`."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": f"{title}: the queue",
            "version": version,
            "description": "Subjects and messages of `accord serve` and `accord worker` over NATS. Every subject "
            "begins with the setting `queue.prefix`, which is `accord` here. Publish a request on the work subject of "
            "an agent; read its packets on the subject of its request id. docs/queue.md says what is guaranteed.",
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"nats": {"host": "localhost:4222", "protocol": "nats"}},
        "channels": _channels(Names()),
        "operations": _operations(),
        "components": {"messages": _messages(), "schemas": _schemas()},
    }


def _channels(names: Names) -> Json:
    request_id = {"request_id": {"description": "The request id of the turn, a UUID in lower case."}}
    return {
        "work": _channel(
            names.all_work.replace("*", "{agent}"),
            f"Requests to an agent. Stored in {names.stream('WORK')} until a worker has acknowledged them.",
            ("request", "waiting"),
            parameters={"agent": {"description": "The agent's name; all but letters, digits, - and _ becomes _."}},
        ),
        "packets": _channel(
            names.packets_out("{request_id}"),
            "What readers of a turn follow. Subscribe before you publish the request. Not stored: a message can be "
            f"lost. A gap in `{SEQ_HEADER}` shows that; read the turn over HTTP then.",
            ("packets", "stored"),
            parameters=request_id,
        ),
        "packetLog": _channel(
            names.packets_in("{request_id}"),
            f"What workers write: stored in {names.stream('PACKETS')}, and then published again on the other subject "
            "of the turn. It also carries messages that were rejected, so do not follow it.",
            ("packets", "fence"),
            is_internal=True,
            parameters=request_id,
        ),
        "dead": _channel(
            names.all_dead.replace("*", "{id}"),
            f"What cannot be processed, with the reason. Stored in {names.stream('DEAD')} for a week.",
            ("rejected",),
            parameters={"id": {"description": f"The message's `{MESSAGE_ID_HEADER}`, or `message`; or a request id."}},
        ),
        "bus": _channel(
            names.topic("{topic}"),
            "Messages between the processes of Accord. Not stored: what must not be lost is in the database.",
            ("cancellation", "other"),
            is_internal=True,
            parameters={"topic": {"description": f"What it is about, such as `{CANCEL_TOPIC}`."}},
        ),
    }


def _channel(
    address: str,
    description: str,
    messages: tuple[str, ...],
    *,
    is_internal: bool = False,
    parameters: Json | None = None,
) -> Json:
    channel: Json = {
        "address": address,
        "description": description,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
    }
    if parameters:
        channel["parameters"] = parameters
    return {**channel, INTERNAL: True} if is_internal else channel


def _operations() -> Json:
    """What Accord does with each channel."""
    return {
        "takeRequest": _operation("receive", "work", ("request",), "A worker takes the request of another program."),
        "sendPackets": _operation("send", "packets", ("packets", "stored"), "Packets of a turn, in their order."),
        "reject": _operation("send", "dead", ("rejected",), "A request or a turn is given up."),
        "announceTurn": _operation(
            "send", "work", ("waiting",), "A server has put a turn into the database.", is_internal=True
        ),
        "takeTurn": _operation("receive", "work", ("waiting",), "A worker takes the next turn.", is_internal=True),
        "writePackets": _operation(
            "send", "packetLog", ("packets", "fence"), "A worker appends to the turn that it has.", is_internal=True
        ),
        "cancelTurn": _operation("send", "bus", ("cancellation",), "A client has cancelled a turn.", is_internal=True),
    }


def _operation(
    action: str, channel: str, messages: tuple[str, ...], summary: str, *, is_internal: bool = False
) -> Json:
    operation: Json = {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "summary": summary,
        "messages": [{"$ref": f"#/channels/{channel}/messages/{name}"} for name in messages],
    }
    return {**operation, INTERNAL: True} if is_internal else operation


def _messages() -> Json:
    numbered = {SEQ_HEADER: _number("The number of the first packet; the first packet of a turn is 1.")}
    epoch = {EPOCH_HEADER: _number("Counts the processes that were given the turn.")}
    over = {OVER_HEADER: _flag("Present if the turn has ended with these packets; no other message follows.")}
    lines = {
        "type": "string",
        "description": "One StreamPacket as JSON on each line, without a line break at the end.",
        "x-line": {"$ref": _SCHEMA_REF.format(model=StreamPacket.__name__)},
    }
    return {
        "request": {
            "title": "A request",
            "summary": f"As the body of POST {ASSIST_PATH}. Use the request id as `{MESSAGE_ID_HEADER}`: a message "
            "that is published twice within two minutes is then stored once. No tokens are checked: the publisher acts "
            "for the user that the request names.",
            "headers": _headers({}, {MESSAGE_ID_HEADER: {"type": "string"}}),
            "payload": {"$ref": _SCHEMA_REF.format(model=ServiceRequest.__name__)},
            "examples": [{"headers": {MESSAGE_ID_HEADER: _EXAMPLE_ID}, "payload": _REQUEST}],
        },
        "waiting": {
            "title": "A turn waits",
            "summary": "The database has the turn. The worker that gets this message takes the next turn that waits, "
            "which may be another one.",
            "payload": _object(request_id={"type": "string", "format": "uuid"}),
            "examples": [{"payload": {"request_id": _EXAMPLE_ID}}],
            INTERNAL: True,
        },
        "packets": {
            "title": "Packets",
            "summary": f"Packets as the agent made them, not adapted to any client. {_UNKNOWN}",
            "contentType": "application/x-ndjson",
            "headers": _headers(numbered | epoch, over),
            "payload": lines,
            "examples": [
                {"headers": {SEQ_HEADER: "1", EPOCH_HEADER: "1"}, "payload": _DELTAS},
                {"headers": {SEQ_HEADER: "3", EPOCH_HEADER: "1", OVER_HEADER: "1"}, "payload": _CLOSE},
            ],
        },
        "stored": {
            "title": "Packets that have to be read",
            "summary": "The database has these packets; they were too large for a message, or JetStream did not "
            "answer. Read the turn over HTTP.",
            "headers": _headers(numbered | {LAST_HEADER: _number("The number of the last packet.")} | epoch, over),
            "payload": {"type": "string", "maxLength": 0},
            "examples": [{"headers": {SEQ_HEADER: "3", LAST_HEADER: "9", EPOCH_HEADER: "1"}, "payload": ""}],
        },
        "fence": {
            "title": "A fence",
            "summary": "Another worker has the turn now. It is ignored by readers.",
            "headers": _headers(epoch | {SEQ_HEADER: {"const": "0"}, FENCE_HEADER: _flag("Always present.")}),
            "payload": {"type": "string", "maxLength": 0},
            "examples": [{"headers": {SEQ_HEADER: "0", EPOCH_HEADER: "2", FENCE_HEADER: "1"}, "payload": ""}],
            INTERNAL: True,
        },
        "rejected": {
            "title": "A dead letter",
            "summary": "The message as it was published, or the request id of a turn that was given up. A request "
            "that was refused also ends on the subject of its packets, with an error; one that is not a request, or "
            "whose id was used before, ends only here.",
            "headers": _headers({REASON_HEADER: {"type": "string"}}),
            "payload": {},
            "examples": [
                {
                    "headers": {REASON_HEADER: "the worker that ran this turn died"},
                    "payload": {"request_id": _EXAMPLE_ID},
                }
            ],
        },
        "cancellation": {
            "title": "A cancellation",
            "summary": "The request id of the turn.",
            "contentType": "text/plain",
            "payload": {"type": "string", "format": "uuid"},
            "examples": [{"payload": _EXAMPLE_ID}],
            INTERNAL: True,
        },
        "other": {
            "title": "Another message of the bus",
            "summary": "Its form may change with every version.",
            "contentType": "application/octet-stream",
            "payload": {"type": "string"},
            "examples": [{"payload": "…"}],
            INTERNAL: True,
        },
    }


def _headers(required: Json, optional: Json | None = None) -> Json:
    # The client and the server of NATS add headers of their own.
    return {"type": "object", "properties": required | (optional or {}), "required": list(required)}


def _object(**members: Json) -> Json:
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def _number(description: str) -> Json:
    return {"type": "string", "pattern": _NUMBER, "description": description}


def _flag(description: str) -> Json:
    return {"type": "string", "const": "1", "description": description}


def _schemas() -> Json:
    found, definitions = models_json_schema([(model, "validation") for model in _MODELS], ref_template=_SCHEMA_REF)
    schemas: Json = dict(definitions["$defs"])
    for (model, _), schema in found.items():
        schemas.setdefault(model.__name__, schema)
    return {name: _without_discriminators(schema) for name, schema in sorted(schemas.items())}


def _without_discriminators(node: Any) -> Any:
    """Remove discriminators, which are another type in AsyncAPI; the constants of each kind are enough."""
    if isinstance(node, list):
        return [_without_discriminators(item) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("Json", node)
    is_discriminator = isinstance(schema.get("discriminator"), dict) and "propertyName" in schema["discriminator"]
    return {
        key: _without_discriminators(value)
        for key, value in schema.items()
        if not (key == "discriminator" and is_discriminator)
    }
