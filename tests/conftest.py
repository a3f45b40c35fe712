"""What every test shares: Hypothesis runs the same examples every time, without a clock, and more take more time.

No test touches the state folder of the user who runs it. `make test` leaves out the tests of `slow.txt`.
"""

import gc
import os
import shutil
import signal
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from accord.agents.demo.pace import PACE_VARIABLE
from tests.laws import EXAMPLES
from tests.slow import SLOW, is_slow

NUMBERS = count()
ROOT = Path(__file__).parent.parent

# As in a shell's background or below nohup: every program that a test starts would ignore them as well.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

settings.register_profile(
    "house", derandomize=True, deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")

os.environ[PACE_VARIABLE] = "0"  # the demo without pauses, also in the processes that tests start
STATE = tempfile.mkdtemp(prefix="accord-tests-")
os.environ["ACCORD_STATE_DIR"] = STATE  # for what starts before any test does


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Name a state folder that no other test uses; what needs it makes it. As a fixture, this took a tenth of the time."""
    os.environ["ACCORD_STATE_DIR"] = f"{STATE}/{next(NUMBERS)}"


@pytest.fixture
def short_path() -> Path:
    """A folder for sockets, whose paths have at most 103 bytes: `tmp_path` has the names of the user and the test."""
    return Path(tempfile.mkdtemp(dir=STATE))


def pytest_unconfigure() -> None:
    """Remove the state folders."""
    shutil.rmtree(STATE, ignore_errors=True)


def pytest_collection_finish() -> None:
    """Search no test module, class or function for reference cycles: they stay until the end, and there are many."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give laws with more examples than usual as much more time before pytest-timeout stops them."""
    if config.option.timeout is None and EXAMPLES > 100:
        config.option.timeout = float(config.getini("timeout")) * EXAMPLES / 100


def pytest_xdist_auto_num_workers() -> int:
    """Two workers for each core: tests with programs of their own mostly wait."""
    return 2 * (os.cpu_count() or 1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a file or a folder of which every test is slow."""
    if config.option.markexpr != "not slow" or not collection_path.is_relative_to(ROOT):
        return None
    name = collection_path.relative_to(ROOT).as_posix()
    return True if name in SLOW or f"{name}/" in SLOW else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that are listed as slow."""
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)
