"""Streams of the Messages API, for tests."""

import json
from collections.abc import Iterable
from typing import Any

from accord.apis.messages.codec import MessagesCodec
from accord.core.sse import EventDecoder
from accord.wire.work import AnyPiece


def written(events: Iterable[dict[str, Any]]) -> bytes:
    """The events as they are sent."""
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events
    ).encode()


def read(chunks: Iterable[bytes]) -> list[AnyPiece]:
    """The pieces of a stream that comes in these chunks and then ends."""
    decoder, reader = EventDecoder(), MessagesCodec().answer_reader()
    pieces = [piece for chunk in chunks for event in decoder.feed(chunk) for piece in reader.feed(event)]
    return [*pieces, *reader.finish()]
