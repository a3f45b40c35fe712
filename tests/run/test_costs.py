"""What travels with a queued request, and what an agent asks when its turn is over."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from accord.agent import Agent, Turn
from accord.backends.scripted import EchoBackend
from accord.errors import AgentError
from accord.run import Dispatcher, Engine
from accord.run.costs import HAS_ENDED, queued_body, queued_payer
from accord.wire.keys import BudgetPeriod, Payer
from accord.wire.request import ServiceRequest
from tests.servers.clock import run
from tests.servers.transports import body

REQUEST = ServiceRequest.model_validate(body(user="ada"))


def test_a_queued_request_names_its_payer_and_is_the_request_for_processes_that_do_not_know_it():
    payer = Payer("k1", "ada", 5_000_000, BudgetPeriod.DAY, ("fine", "far"), 1_024)
    queued = queued_body(REQUEST, payer)
    assert queued_payer(queued, REQUEST) == payer
    assert ServiceRequest.parse(queued) == REQUEST
    assert ServiceRequest.parse(queued).to_json() == REQUEST.to_json()


def test_a_request_that_an_earlier_server_has_queued_is_counted_for_its_user_without_a_key():
    assert queued_payer(REQUEST.to_json(), REQUEST) == Payer(user="ada")


def test_a_task_that_an_agent_left_running_asks_nothing_after_the_end_of_its_turn():
    tasks: list[asyncio.Task[Any]] = []

    async def leaves_a_task(turn: Turn) -> AsyncIterator[str]:
        async def ask_later() -> str:
            await asyncio.sleep(0)
            return await turn.ask("more").text()

        tasks.append(asyncio.create_task(ask_later()))
        yield "done"

    async def check() -> None:
        await Engine(Agent(leaves_a_task), Dispatcher([EchoBackend()])).respond(REQUEST)
        with pytest.raises(AgentError, match=HAS_ENDED):
            await tasks[0]

    run(check())
