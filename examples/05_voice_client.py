"""A voice client: it declares no events and no markdown, speaks sentence by sentence, and lists what was lost.

Needs `accord-agents[serve]` for its client. In another terminal: `accord serve`. Then

    python examples/05_voice_client.py Hello

Where it prints `say:`, a real one calls its speech synthesis.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from accord import ClientCapabilities
from accord.client import Client

CAPABILITIES = ClientCapabilities(supported_events=[], prefers_markdown=False)
"""Both together mean speech: tables come as sentences, and addresses and code are left out."""
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def split_sentences(pieces: Iterable[str]) -> Iterator[str]:
    """Each sentence, as soon as the pieces of a stream make it complete."""
    rest = ""
    for piece in pieces:
        *complete, rest = SENTENCE_END.split(rest + piece)
        yield from filter(None, complete)
    if rest:
        yield rest


def main() -> None:
    parser = argparse.ArgumentParser(description="Speak the answer of a service of Accord.")
    parser.add_argument("query")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    options = parser.parse_args()
    with Client(options.url, user="me", capabilities=CAPABILITIES) as client:
        stream = client.stream(options.query)
        for sentence in split_sentences(stream.text()):
            print(f"say: {sentence}", flush=True)
        report = client.adaptation(stream.request_id)
    lost = Counter[str]()
    for entry in report.entries:
        if entry.lost:
            lost[f"{entry.type} {entry.rung}, without {', '.join(entry.lost)} ({entry.reason})"] += entry.count
    print("\nLost on the way, by the report:")
    for line, count in lost.items():
        print(f"{count:4} × {line}")


if __name__ == "__main__":
    main()
