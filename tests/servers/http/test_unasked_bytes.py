"""Endpoints that send bytes unasked: no caller gets another one's answer, and their connections are not kept."""

import asyncio
from pathlib import Path

from tests.hostile.unasked import call_all


def test_no_caller_gets_a_byte_of_another_ones_answer(tmp_path: Path):
    tally, served = asyncio.run(asyncio.wait_for(call_all(tmp_path, 400, 10, seed=1), 50))
    assert tally.foreign == []
    assert tally.unasked > 100
    assert tally.answered > 200
    assert tally.cancelled > 10
    logged = [line for line in served.log_lines if "sent bytes unasked" in line]
    assert 1 <= len(logged) <= 10  # each endpoint once
