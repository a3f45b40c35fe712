"""One test body, every transport: `direct` on both event loops, since it is made of their parts."""

import pytest
import uvloop

from accord.backends.model_options import TRANSPORTS


@pytest.fixture(params=[*TRANSPORTS, "direct on uvloop"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name, _, loop = str(request.param).partition(" on ")
    if loop:
        monkeypatch.setattr("asyncio.events.new_event_loop", uvloop.new_event_loop)  # which `asyncio.run` calls
    return name
