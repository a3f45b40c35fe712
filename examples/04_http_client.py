"""An HTTP client with the standard library alone. It declares what it can show, streams, and resumes a lost stream.

Needs nothing but Python. In another terminal (`accord-agents[serve]`): `accord serve`. Then

    python examples/04_http_client.py sources

To show that a lost connection costs nothing, it closes its own after 20 packets, and goes on after the last of them.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

CAPABILITIES = {"supported_events": ["citation_block"], "prefers_markdown": True}
"""This client shows sources and markdown. Whatever else an agent sends comes as text, or not at all."""
LOSE_AFTER = 20
ATTEMPTS = 10


def read_events(lines: Iterable[bytes]) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """The number and the packet of each server-sent event."""
    number = None
    for line in lines:
        field, _, value = line.decode().rstrip("\r\n").partition(": ")
        if field == "id":
            number = int(value)
        elif field == "data":
            yield number, json.loads(value)
            number = None


def follow(url: str, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Send the request and yield its packets. Sent again, the same request goes on after the last packet."""
    last = 0
    for _ in range(ATTEMPTS):
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", "Last-Event-ID": str(last)}
        post = Request(f"{url}/v1/assist", json.dumps(request).encode(), headers)  # noqa: S310 - the user's own service
        try:
            with urlopen(post, timeout=60) as response:  # noqa: S310 - the same
                for number, packet in read_events(response):
                    if number is None:  # why this connection ends; not a packet of the turn
                        break
                    last = number
                    yield packet
                    if packet["op"] == "close":
                        return
                    if last == LOSE_AFTER:
                        print(f"\n[connection closed after packet {last}; asking for the rest]")
                        break
        except HTTPError:
            raise  # an answer: the request was refused
        except (OSError, HTTPException) as error:
            print(f"\n[connection lost: {error}]")
        time.sleep(0.2)
    sys.exit(f"Given up after {ATTEMPTS} attempts.")


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask a service of Accord over HTTP.")
    parser.add_argument("query")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    options = parser.parse_args()
    request = {
        "request_id": str(uuid4()),
        "context": {"session_id": str(uuid4()), "user": {"id": "me", "name": "Me"}},
        "payload": {"query": options.query, "capabilities": CAPABILITIES},
    }
    try:
        for packet in follow(options.url, request):
            match packet:
                case {"op": "delta", "p": text}:
                    print(text, end="", flush=True)
                case {"op": "event", "p": {"type": "citation_block", "data": {"items": items}}}:
                    print("\n".join(f"[{item['title']}] {item['uri']}" for item in items))
                case {"op": "error", "p": {"message": message}}:
                    sys.exit(f"The turn failed: {message}")
                case _:
                    pass  # the close
    except HTTPError as refusal:
        sys.exit(f"Refused: {json.load(refusal)['detail']}")


if __name__ == "__main__":
    main()
