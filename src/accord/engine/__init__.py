"""Turns: run an agent, send its questions to backends, adapt and store its packets, write the receipt."""

from accord.engine.admit import Rejection, SentContent
from accord.engine.dispatch import Dispatcher
from accord.engine.engine import Engine, RunningTurn
from accord.engine.limits import TimeLimits
from accord.engine.live import LiveTurn
from accord.engine.rules import Links, SessionRules
from accord.engine.sessions import Sessions
from accord.engine.stored import StoredTurn
from accord.engine.views import Reader, ViewBatch

__all__ = [
    "Dispatcher",
    "Engine",
    "Links",
    "LiveTurn",
    "Reader",
    "Rejection",
    "RunningTurn",
    "SentContent",
    "SessionRules",
    "Sessions",
    "StoredTurn",
    "TimeLimits",
    "ViewBatch",
]
