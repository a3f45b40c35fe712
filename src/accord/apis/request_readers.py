"""What reads a request of each served API, and reads it again without the fields that a backend does not get. Pure."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from accord.apis.chat.read_request import parse_chat
from accord.apis.messages.read_request import count_request
from accord.apis.responses.read_request import parse as parse_responses
from accord.core.work.dispositions import without_fields
from accord.core.work.fields import ModelRequest, row_of
from accord.wire.disposition import Api, Disposition, FieldRecord
from accord.wire.work import WorkOrder

READERS: Final[Mapping[Api, Callable[[dict[str, Any]], ModelRequest]]] = MappingProxyType(
    {
        Api.CHAT: parse_chat,
        Api.RESPONSES: parse_responses,
        Api.MESSAGES: count_request,  # it may have no limit, which could be what is dropped
    }
)


def order_without(request: ModelRequest, labels: Sequence[FieldRecord]) -> WorkOrder:
    """The order of the request without what is dropped: what is sent is what would be sent without these fields."""
    dropped = [each.field for each in labels if each.disposition is Disposition.DROPPED]
    if not any(row_of(request.api, name).is_read for name in dropped):
        return request.order
    return READERS[request.api](without_fields(request.body, dropped)).order
