"""The envelope that answers at once (CAP)."""

from datetime import datetime
from typing import Any
from uuid import UUID

from accord.wire.message import Message


class ServiceResponse(Message, frozen=True):
    """The whole result of one request."""

    request_id: UUID
    created_at: datetime
    output: dict[str, Any]
    metrics: dict[str, Any] | None = None
