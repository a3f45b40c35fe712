"""Puts the gate before an application that does not ask who comes. Knows nothing of what is behind it."""

from accord.errors import AccordError
from accord.servers.address import let_in, read_headers
from accord.servers.failing import App, Receive, Scope, Send, send_problem
from accord.servers.service import Service


class Guarded:
    """The application, for those who are let in."""

    def __init__(self, service: Service, app: App) -> None:
        self._service = service
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or say why not."""
        try:
            await let_in(self._service, scope, read_headers(scope))
        except AccordError as error:
            await send_problem(send, error)
        else:
            await self._app(scope, receive, send)
