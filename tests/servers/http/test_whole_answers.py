"""Answers that are written at once: the same bytes as those that the server sends in parts."""

import pytest

from accord.agents.demo import demo
from accord.servers.http.app import Application
from accord.servers.http.exchange import AsgiMessage, Receive, Scope, Send
from tests.servers.raw import REQUEST, post, wired
from tests.servers.transports import make_service, within

IN_PARTS = "X-In-Parts: yes"


class PartsApplication(Application):
    """Sends the answer through middleware, and so in parts, if a header of the request says so."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_part(message: AsgiMessage) -> None:
            await send(message)

        in_parts = any(name == b"x-in-parts" for name, _ in scope.get("headers", ()))
        await super().__call__(scope, receive, send_part if in_parts else send)


@pytest.mark.parametrize("lines", [[], ["Connection: close"], ["Accept: application/json", "Expect: 100-continue"]])
def test_an_answer_is_the_same_however_it_is_written(lines: list[str]):
    async def run() -> None:
        async with wired(PartsApplication(make_service(demo))) as port:
            await port.exchange(post(REQUEST))  # the turn, whose stored answer the others get
            answers = [await port.exchange(post(REQUEST, *lines, *more)) for more in ([], [IN_PARTS], [])]
        whole, in_parts, again = (
            b"\r\n".join(line for line in answer.split(b"\r\n") if not line.startswith(b"date: ")) for answer in answers
        )
        assert b"HTTP/1.1 200 OK\r\n" in whole
        assert whole == in_parts == again

    within(run)


def test_answers_on_one_connection_follow_each_other():
    async def run() -> None:
        async with wired(PartsApplication(make_service(demo))) as port, port.wire() as wire:
            await wire.send(post(REQUEST) + post(REQUEST, IN_PARTS) + post(REQUEST))
            first, second, third = [await wire.answer() for _ in range(3)]
            assert first.status == 200
            assert first.json() == second.json() == third.json()

    within(run)


def test_middleware_adds_headers_to_every_answer():
    async def run() -> None:
        async with wired(Application(make_service(demo, allow_origins=["https://app.example"]))) as port:
            answered = await port.ask(post(REQUEST, "Origin: https://app.example"))
            assert answered.headers["access-control-allow-origin"] == "https://app.example"

    within(run)
