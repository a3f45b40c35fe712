"""The examples of pages about tools print what the pages say: receipts, the inspector, the fake model."""

from pathlib import Path

import pytest

from tests.page_blocks import Reader, read_blocks, settle

SERVED = "http://127.0.0.1:8000"
"""Blocks with this address need a service; tests/test_http_page.py runs them."""


@pytest.mark.parametrize("page", ["receipts.md", "inspect.md", "fake-model.md"])
def test_the_example_of_the_page_prints_what_it_says(page: str, tmp_path: Path):
    blocks = read_blocks(page)
    first = next(
        at for at, block in enumerate(blocks) if block.language in ("sh", "python") and SERVED not in block.text
    )
    ((_, expected, printed),) = Reader(tmp_path).follow(blocks[first : first + 2])
    assert settle(printed) == settle(expected)
