"""What every test shares: Hypothesis runs the same examples every time, without a clock.

`ACCORD_EXAMPLES` makes it try more of them.
"""

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("ACCORD_EXAMPLES", "100"))

settings.register_profile(
    "house", derandomize=True, deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")
