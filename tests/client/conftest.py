"""Both kinds of client, and an environment that names no proxy."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest

from tests.client.driving import Driver, driven

Drive = Callable[..., AbstractContextManager[Driver]]


@pytest.fixture(autouse=True)
def no_proxy_is_named(monkeypatch: pytest.MonkeyPatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(params=["awaiting", "blocking"])
def drive(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return partial(driven, request.param)
