"""The service of an agent for this process alone."""

import asyncio
from urllib.parse import urlsplit

import pytest

from accord.agents import relay
from accord.assembly.local_service import open_local_service
from accord.assembly.parts import build_engine
from accord.client import AsyncClient
from accord.config import load_config
from accord.errors import ErrorCode, RefusedError


def test_only_who_has_the_token_is_served_and_only_while_it_is_open():
    async def run() -> None:
        loaded = load_config(None, environ={}, flags=[(("store", "kind"), "memory", "test")])
        async with open_local_service(loaded, build_engine(loaded, agent=relay), "ann") as service:
            assert urlsplit(service.address).hostname == "127.0.0.1"
            async with AsyncClient(service.address, user="ann", token=service.token) as client:
                assert "Hello" in str((await client.ask("Hello")).output)
            for token in (None, "other"):
                async with AsyncClient(service.address, user="ann", token=token) as client:
                    with pytest.raises(RefusedError) as caught:
                        await client.capabilities()
                    assert caught.value.code is ErrorCode.UNAUTHENTICATED
        _, port = urlsplit(service.address).hostname, urlsplit(service.address).port
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(asyncio.wait_for(run(), 30))
