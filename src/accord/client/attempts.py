"""Counts the attempts of one request: after a setback it waits for the next one, or raises what it came to."""

from typing import Final

from accord.client.failure import Setback
from accord.client.settings import Settings
from accord.core.backoff import delay_s
from accord.errors import AccordError, ConnectionFailedError


class Attempts:
    """The attempts of one request; a sign of life starts the count again."""

    def __init__(self, settings: Settings) -> None:
        self._settings: Final = settings
        self._failed = 0
        self._has_reached_service = False

    def start_again(self) -> None:
        """Something came: what failed before does not count any more."""
        self._failed = 0
        self._has_reached_service = True

    async def wait_after(self, setback: Setback) -> None:
        """Wait until it is time to try again; raises the setback's error if it is not worth it."""
        self._failed += 1
        if not self._is_worth_repeating(setback) or self._is_enough(setback):
            raise self._told(setback.error)
        settings = self._settings
        await settings.wait(delay_s(self._failed, told_s=setback.told_s, dice=settings.dice))

    def _is_worth_repeating(self, setback: Setback) -> bool:
        if setback.is_unreachable:
            # A service that answered before is restarting; one that never did probably does not run.
            return self._has_reached_service or self._settings.retry_connect
        self._has_reached_service = True
        return setback.is_passing

    def _is_enough(self, setback: Setback) -> bool:
        limit = self._settings.max_attempts
        return (limit is not None and self._failed >= limit) or (setback.told_s or 0.0) > self._settings.patience_s

    def _told(self, error: AccordError) -> AccordError:
        if isinstance(error, ConnectionFailedError):
            return ConnectionFailedError(error.message, details={"attempts": self._failed})
        return error
