"""What every test shares: Hypothesis runs the same examples every time, without a clock, and more take more time.

No test touches the state folder of the user who runs it.
"""

import os
import tempfile
from itertools import count

import pytest
from hypothesis import HealthCheck, settings

from accord.agents.demo.pace import PACE_VARIABLE
from tests.laws import EXAMPLES

NUMBERS = count()

settings.register_profile(
    "house", derandomize=True, deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")

os.environ[PACE_VARIABLE] = "0"  # the demo without pauses, also in the processes that tests start
os.environ["ACCORD_STATE_DIR"] = tempfile.mkdtemp(prefix="accord-tests-")  # for what starts before any test does


@pytest.fixture(autouse=True)
def _own_state_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """A state folder that no other test uses; it is made by whoever needs it."""
    folder = tmp_path_factory.getbasetemp() / f"state-{next(NUMBERS)}"
    monkeypatch.setenv("ACCORD_STATE_DIR", str(folder))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give laws with more examples than usual as much more time before pytest-timeout stops them."""
    if config.option.timeout is None and EXAMPLES > 100:
        config.option.timeout = float(config.getini("timeout")) * EXAMPLES / 100
