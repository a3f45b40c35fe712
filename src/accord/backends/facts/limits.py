"""How long an answer of a model can be. Data only, from the documentation of the models' makers of 2026-11-19.

Only models whose API requires a limit are listed. A model that is not listed has no known limit.
"""

import re
from typing import Final

OUTPUT_LIMITS: Final = tuple(
    (re.compile(pattern), tokens)
    for pattern, tokens in (
        (r"claude-3-(opus|sonnet|haiku)-", 4_096),
        (r"claude-3-5-", 8_192),
        (r"claude-3-7-", 64_000),
        (r"claude-opus-4-([01]\b|20)", 32_000),
        (r"claude-(sonnet-4-([056]\b|20)|(opus|haiku)-4-5\b)", 64_000),
        (r"claude-opus-4-[67]\b", 128_000),
        (r"claude-((opus|sonnet)-5|(opus|sonnet|haiku)-5-5|fable-5-1)\b", 128_000),
    )
)


def output_limit(model: str) -> int | None:
    """The most tokens that this model can answer with; a name may have a provider before it and a date after it."""
    return next((tokens for pattern, tokens in OUTPUT_LIMITS if pattern.search(model.lower())), None)
