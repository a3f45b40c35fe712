"""20,000 calls through endpoints that double, delay and merge their replies, a fifth of them cancelled."""

import asyncio
from pathlib import Path

import pytest

from tests.hostile.unasked import call_all


@pytest.mark.timeout(900)
def test_no_caller_gets_a_byte_of_another_ones_answer_in_20_000_calls(tmp_path: Path):
    tally, served = asyncio.run(call_all(tmp_path, 20_000, 200, seed=7))
    logged = sum("sent bytes unasked" in line for line in served.log_lines)
    print(
        f"\n{tally.answered} answered, {tally.cancelled} cancelled, {tally.failed} failed, {tally.stale} stale,"
        f" {len(tally.foreign)} foreign; {tally.unasked} replies with unasked bytes, {logged} endpoints distrusted"
    )
    assert tally.foreign == []
    assert logged > 150
