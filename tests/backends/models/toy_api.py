"""The smallest API that works with the model backend. Pure; no I/O."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from accord.apis.codec import ApiRequest, MalformedAnswerError
from accord.apis.failure import FailureReport, failure_by_status
from accord.core.sse import ServerEvent
from accord.core.work.evidence import Layer
from accord.wire.conversation import TextPart
from accord.wire.disposition import Api
from accord.wire.work import AnyPiece, EndPiece, TextPiece, WorkOrder


class _Said(msgspec.Struct):
    text: str = ""
    end: bool = False


_read: Final = msgspec.json.Decoder(_Said).decode


class ToyApi:
    """POST /talk answers with events `{"text": …}` and a last one `{"end": true}`; unstreamed, with one such object."""

    def __init__(self) -> None:
        self.api: Final = Api.OTHER
        self.name: Final = "toy API"
        self.base_url: Final = None
        self.supported: Final[Mapping[str, str]] = {"streaming": "native"}
        self.unsupported: Final[Mapping[str, str]] = {"image_input": "it is all words"}

    def headers(self, key: str | None) -> dict[str, str]:
        return {} if key is None else {"authorization": f"Bearer {key}"}

    def write_request(self, order: WorkOrder, model: str) -> ApiRequest:
        parts = [part for message in order.conversation.messages for part in message.content]
        words = [part.text for part in parts if isinstance(part, TextPart)]
        return ApiRequest("/talk", {"model": model, "words": words, "stream": order.stream})

    def answer_reader(self) -> "ToyReader":
        return ToyReader()

    def read_answer(self, body: bytes) -> Sequence[AnyPiece]:
        return [TextPiece(text=_said(body).text), EndPiece()]

    def read_error(self, status: int, body: bytes) -> FailureReport:
        return FailureReport(failure_by_status(status), message=body.decode(errors="replace"))

    def discovery_request(self, model: str) -> ApiRequest:
        return ApiRequest(f"/models/{model}", method="GET")

    def read_discovery(self, body: bytes, model: str) -> Layer:  # noqa: ARG002 - it tells nothing
        return {}


class ToyReader:
    """The state of one answer; the API does not name its model."""

    model: str | None = None

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        written = _said(event.data)
        return (EndPiece(),) if written.end else (TextPiece(text=written.text),)

    def finish(self) -> Sequence[AnyPiece]:
        raise MalformedAnswerError("the stream ended before the answer did")


def _said(data: bytes) -> _Said:
    try:
        return _read(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise MalformedAnswerError("it does not have the API's shape") from None


def event(**written: Any) -> bytes:
    return b"data: " + msgspec.json.encode(written) + b"\n\n"
