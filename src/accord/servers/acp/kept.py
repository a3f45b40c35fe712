"""What could not be shown and was kept, for a client that asks for it: `_accord/item`, a method of our own.

ACP leaves methods that begin with an underscore to whoever speaks it. An item is named as the notice in the text names
it. A client of ACP knows sessions, not requests, so the latest turn of the session that kept such an item is meant.
"""

from typing import Any, Final

from pydantic_core import from_json

from accord.errors import ErrorCode, RefusedError
from accord.ports import SessionStore
from accord.servers.acp.opened import OpenSession
from accord.wire.acp.session import SessionRequest

ITEM_METHOD: Final = "_accord/item"
NO_ITEM: Final = "No turn of this session keeps such an item"


class ItemRequest(SessionRequest, frozen=True):
    """Asks for one item."""

    item_id: str


async def kept_item(store: SessionStore, session: OpenSession, item_id: str) -> dict[str, Any]:
    """The event that was kept under this id; raises our error if there is none."""
    running = [] if session.prompting is None else session.prompting.request_ids
    ended = [record.request_id for record in await store.receipts(session.id)]
    for request_id in (*running, *reversed(ended)):
        if (kept := await store.item(request_id, item_id)) is not None:
            return {"item": from_json(kept)}
    raise RefusedError(NO_ITEM, ErrorCode.NOT_FOUND, {})
