"""What is run: the one async heart. Plan, emulate, dispatch, order, adapt, account; it knows only Protocols."""

from accord.engine.dispatch import Dispatcher
from accord.engine.engine import Engine, RunningTurn
from accord.engine.limits import TimeLimits
from accord.engine.live import LiveTurn
from accord.engine.sessions import SessionRules, Sessions
from accord.engine.stored import StoredTurn

__all__ = ["Dispatcher", "Engine", "LiveTurn", "RunningTurn", "SessionRules", "Sessions", "StoredTurn", "TimeLimits"]
