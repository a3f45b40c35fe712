"""What every test shares: Hypothesis runs the same examples every time, without a clock."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "house", derandomize=True, deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")
