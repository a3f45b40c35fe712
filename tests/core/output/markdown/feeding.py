"""What every test of the stripper needs: ways to cut and feed a text, and the data files."""

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

from accord.core.output.markdown import Profile, TextStripper

DATA = Path(__file__).parents[3] / "vectors"


def read_lines(name: str) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file of test data."""
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def feed_all(chunks: Iterable[str], profile: Profile = Profile.PLAIN) -> str:
    """The output for a text in these pieces."""
    stripper = TextStripper(profile)
    return "".join(map(stripper.feed, chunks)) + stripper.close()


def cut(text: str, seed: int, longest: int = 12) -> list[str]:
    """A text in pieces of random length."""
    dice = Random(seed)  # noqa: S311 - repeatable on purpose
    pieces: list[str] = []
    while text:
        length = dice.randint(1, longest)
        pieces.append(text[:length])
        text = text[length:]
    return pieces
