"""uvicorn's HTTP connection, with the limits that it lacks: how long headers may be, and how slowly they may come.

It also lets an application end the connection of a client that has stopped reading (`accord.abort`): closing it
properly would wait for that very client.
"""

import asyncio
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class LimitedConnection(HttpToolsProtocol):
    """One connection. The limits are the class's, set by `limited`."""

    max_header_bytes: ClassVar[int] = 64 * 1024
    header_timeout_s: ClassVar[float] = 10.0

    def connection_made(self, transport: Any) -> None:
        """A client is there; its headers are awaited from now on."""
        super().connection_made(transport)
        self._header_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Another request begins."""
        self._header_bytes = 0
        if self._deadline is None:
            self._await_headers()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the address."""
        if self._fits(len(url)):
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        if self._fits(len(name) + len(value)):
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The request is known; its body may follow."""
        self._stop_waiting()
        super().on_headers_complete()
        scope = cast("dict[str, Any]", self.scope)
        scope.setdefault("extensions", {})["accord.abort"] = self.transport.abort

    def data_received(self, data: bytes) -> None:
        """Bytes, unless the connection was given up."""
        if not self.transport.is_closing():
            super().data_received(data)

    def _await_headers(self) -> None:
        self._deadline = self.loop.call_later(self.header_timeout_s, self._give_up, TOO_SLOW)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _fits(self, more: int) -> bool:
        self._header_bytes += more
        if self._header_bytes > self.max_header_bytes:
            self._give_up(TOO_LONG)
            return False
        return True

    def _give_up(self, answer: bytes) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()


def limited(*, max_header_bytes: int, header_timeout_s: float) -> type[LimitedConnection]:
    """The connection with these limits."""
    limits = {"max_header_bytes": max_header_bytes, "header_timeout_s": header_timeout_s}
    return cast("type[LimitedConnection]", type("LimitedConnection", (LimitedConnection,), limits))
