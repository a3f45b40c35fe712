"""The envelope that answers at once (CAP)."""

from datetime import datetime
from uuid import UUID

from accord.wire.message import FreeObject, Message


class ServiceResponse(Message, frozen=True):
    """The whole result of one request."""

    request_id: UUID
    created_at: datetime
    output: FreeObject
    metrics: FreeObject | None = None
