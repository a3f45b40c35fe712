"""How fast markdown becomes text: over growing texts, and on hostile input.

Real answers of models are the text. `adapt.py` compares the stripper, alone and in the adapter, with markdown-it-py.
"""

import json
from collections.abc import Callable
from pathlib import Path
from time import process_time

from accord.core.output.markdown import Profile, TextStripper

CORPUS = Path(__file__).parent.parent / "tests" / "vectors" / "answers.jsonl"
PIECE = 8
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
HOSTILE = (
    "*", "[", "`", "<", "_", "![", "**a **a ", "[a](", "> > > > ", "- - - - ", "~", "$", "&", "\\", "<a ",
    "x", "$a ",
)  # fmt: skip


def read_answers() -> list[str]:
    """The answers of models, as markdown."""
    return [json.loads(line)["markdown"] for line in CORPUS.read_text("utf-8").splitlines()]


def pieces_of(text: str, length: int = PIECE) -> list[str]:
    """A text in pieces of one length."""
    return [text[start : start + length] for start in range(0, len(text), length)]


def feed(pieces: list[str], profile: Profile = Profile.PLAIN) -> None:
    """Strip a text piece by piece."""
    stripper = TextStripper(profile)
    take = stripper.feed
    for piece in pieces:
        take(piece)
    stripper.close()


def timed(work: Callable[[], object]) -> float:
    """The seconds of CPU time that one piece of work takes: the machine may be shared."""
    start = process_time()
    work()
    return process_time() - start


def show_flatness(text: str) -> None:
    """Nanoseconds per character for the same text as many small documents, as few large ones, and repeated."""
    for size in SIZES:
        grown = text * -(-size // len(text))
        documents = [pieces_of(grown[start : start + size]) for start in range(0, len(grown), size)]
        rounds = range(1 if size > 1_000_000 else 3)
        seconds = min(timed(lambda documents=documents: [feed(pieces) for pieces in documents]) for _ in rounds)
        print(f"{size:>10} characters: {seconds / len(grown) * 1e9:7.0f} ns each")


def show_hostile() -> None:
    """Nanoseconds per character of what should hurt, at two sizes, fed whole."""
    for unit in HOSTILE:
        costs = [
            timed(lambda text=text: feed([text])) / len(text)
            for text in (unit * (size // len(unit)) for size in (100_000, 1_000_000))
        ]
        print(f"{unit!r:>12}: {costs[0] * 1e9:7.0f} ns at 100 kB, {costs[1] * 1e9:7.0f} ns at 1 MB")


if __name__ == "__main__":
    show_flatness("\n\n".join(read_answers()))
    show_hostile()
