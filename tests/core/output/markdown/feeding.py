"""Shared by the tests of the stripper: cut and feed a text, read the data files."""

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

from accord.core.output.markdown import Profile, TextStripper

DATA = Path(__file__).parents[3] / "vectors"


def read_lines(name: str) -> list[dict[str, Any]]:
    """Return the objects of a JSON-lines file of test data."""
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def feed_all(chunks: Iterable[str], profile: Profile = Profile.PLAIN) -> str:
    """Return the output for a text in these pieces."""
    stripper = TextStripper(profile)
    return "".join(map(stripper.feed, chunks)) + stripper.close()


def cut(text: str, seed: int, longest: int = 12) -> list[str]:
    """Cut a text into pieces of random length."""
    random = Random(seed)  # noqa: S311 - repeatable, not for security
    pieces: list[str] = []
    while text:
        length = random.randint(1, longest)
        pieces.append(text[:length])
        text = text[length:]
    return pieces
