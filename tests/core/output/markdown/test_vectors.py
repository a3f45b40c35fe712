"""The shared test vectors, fed whole, in chunks and character by character."""

from typing import Any

import pytest

from accord.core.output.markdown import Profile
from tests.core.output.markdown.feeding import feed_all, read_lines

CASES = [
    pytest.param(vector, profile, id=f"{vector['id']}-{profile}")
    for vector in read_lines("plain_text.jsonl")
    for profile in Profile
    if f"expected_{profile}" in vector
]


@pytest.mark.parametrize(("vector", "profile"), CASES)
def test_each_vector_gives_the_expected_output_however_it_is_cut(vector: dict[str, Any], profile: Profile) -> None:
    expected = vector[f"expected_{profile}"]
    markdown = vector["markdown"]
    accepted = {expected, *vector.get("also_accept", [])}
    chunks = vector.get("chunks", [markdown])
    interleaved = [piece for chunk in chunks for piece in (chunk, "")]
    outputs = {feed_all(pieces, profile) for pieces in ([markdown], chunks, interleaved, list(markdown))}
    assert len(outputs) == 1
    assert outputs <= accepted
