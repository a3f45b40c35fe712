"""The sentences of every store: what is told when a call contradicts what is stored, or comes too late."""

from typing import Final

CLOSED: Final = "The session store is not open"
NOT_YOURS: Final = "The session belongs to another owner"
NO_SESSION: Final = "The turn's session is gone"
NOT_ITS_SESSION: Final = "The turn is not of this session and its owner"
NOT_NEXT: Final = "The packets do not follow the last one of a running turn"
NOT_RUNNING: Final = "The turn is not running"
NOT_ITS_RECEIPT: Final = "The receipt is not of this turn and its session"
HAS_TOKENS: Final = "There are tokens; revoke them first"
NOT_NEW: Final = "There is already a token of this id or hash"
BEING_DELETED: Final = "This session is being deleted; use another session id, or ask again in a moment"
