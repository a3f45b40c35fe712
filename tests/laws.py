"""How many examples a law is tried with. `ACCORD_EXAMPLES` scales all of them: 40 with `make test`, else 100."""

import os

EXAMPLES = int(os.environ.get("ACCORD_EXAMPLES", "100"))


def examples(usual: int) -> int:
    """The number of examples for a law that usually has this many instead of 100."""
    return max(1, usual * EXAMPLES // 100)
