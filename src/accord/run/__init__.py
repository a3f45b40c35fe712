"""Turns: run an agent, send its questions to backends, adapt and store its packets, write the receipt."""

from accord.run.admit import Rejection, SentContent
from accord.run.dispatch import Dispatcher
from accord.run.engine import Engine
from accord.run.limits import TimeLimits
from accord.run.rules import Links, SessionRules
from accord.run.run import Run
from accord.run.sessions import Sessions
from accord.run.stored import StoredRun
from accord.run.views import Reader, ViewBatch

__all__ = [
    "Dispatcher",
    "Engine",
    "Links",
    "Reader",
    "Rejection",
    "Run",
    "SentContent",
    "SessionRules",
    "Sessions",
    "StoredRun",
    "TimeLimits",
    "ViewBatch",
]
