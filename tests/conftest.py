"""What every test shares: Hypothesis runs the same examples every time, without a clock, and more take more time."""

import pytest
from hypothesis import HealthCheck, settings

from tests.laws import EXAMPLES

settings.register_profile(
    "house", derandomize=True, deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give laws with more examples than usual as much more time before pytest-timeout stops them."""
    if config.option.timeout is None and EXAMPLES > 100:
        config.option.timeout = float(config.getini("timeout")) * EXAMPLES / 100
