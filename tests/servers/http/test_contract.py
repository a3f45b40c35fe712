"""The service does what its OpenAPI document says, whatever is sent to it: Schemathesis against the real server."""

import asyncio
import threading
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi import checks as openapi_checks

from accord.agents import demo
from accord.ports import SystemClock
from accord.servers.http.app import Application
from accord.servers.http.authentication import TokenAuthenticator
from accord.servers.http.information import information_routes
from accord.servers.observability.metrics import Metrics
from accord.wire.contract import ServiceContract
from tests.laws import examples
from tests.servers.transports import make_service, served

load_checks: Any = import_module("schemathesis.checks")
KEPT: Any = openapi_checks
CHECKS: list[Any] = [
    load_checks.not_a_server_error,
    KEPT.status_code_conformance,
    KEPT.content_type_conformance,
    KEPT.response_headers_conformance,
    KEPT.response_schema_conformance,
    KEPT.unsupported_method,
]
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A real server in a thread of its own, for as long as the module's tests take."""
    service = make_service(demo, authenticator=TokenAuthenticator(None, None, [], SystemClock()))
    application = Application(service, information_routes(service, Metrics(version="1.0")))
    found: list[str] = []
    is_ready, loop = threading.Event(), asyncio.new_event_loop()
    is_done = asyncio.Event()

    async def run() -> None:
        async with served(application) as listening:
            found.append(listening)
            is_ready.set()
            await is_done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert is_ready.wait(30)
    yield found[0]
    loop.call_soon_threadsafe(is_done.set)
    thread.join(30)
    loop.close()


schema: Any = schemathesis.openapi.from_dict(ServiceContract.document())


@schema.parametrize()
@settings(max_examples=examples(12), suppress_health_check=SLOW)
def test_the_service_keeps_its_contract(case: Any, address: str):
    case.call_and_validate(base_url=address, checks=CHECKS, timeout=30)
