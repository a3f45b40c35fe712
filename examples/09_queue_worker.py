"""Send a request to an agent in a worker, over NATS with its plain client, and print the answer as it comes.

The client needs `nats-py`, and nothing of Accord. The worker needs `accord-agents[all]`, a NATS server with JetStream
(`nats-server -js`) and a PostgreSQL database:

    accord worker examples/02_my_agent.py --queue nats://127.0.0.1:4222 --store postgresql://127.0.0.1/accord
    python examples/09_queue_worker.py nats://127.0.0.1:4222 answer Hello

docs/asyncapi.yaml describes the messages, docs/queue.md the queue. Over HTTP a client has less to do: there a lost
message is not its concern.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import nats
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

# The annotations of the client are incomplete.
# pyright: reportUnknownMemberType=false

ANSWERED, FAILED, READ_ELSEWHERE = 0, 1, 3


class Answer:
    """Takes the messages of one turn and prints its text. `status` is set when nothing more is to be expected."""

    def __init__(self) -> None:
        self.status: int | None = None
        self._next = 1  # the number of the next packet
        self._is_failed = False

    def feed(self, subject: str, headers: Mapping[str, str], data: bytes) -> None:
        """Take one message, whatever it is."""
        if ".dead." in subject:
            self._end(FAILED, f"Rejected: {headers.get('Accord-Reason', 'no reason given')}")
            return
        first = headers.get("Accord-Seq", "")
        if not first.isdecimal() or int(first) < 1:
            return  # a fence, or a kind of message that this program does not know
        if "Accord-Last" in headers or int(first) > self._next:
            self._end(READ_ELSEWHERE, "Packets are missing: read the rest over HTTP, with GET /v1/requests/{id}")
            return
        for number, line in enumerate(data.split(b"\n") if data else [], start=int(first)):
            if number == self._next:  # others were repeated
                self._next += 1
                self._show(line)
        if "Accord-Over" in headers:
            self._end(FAILED if self._is_failed else ANSWERED)

    def _show(self, line: bytes) -> None:
        try:
            packet: Any = json.loads(line)
        except ValueError:
            return
        match packet:
            case {"op": "delta", "p": str(text)}:
                print(text, end="", flush=True)
            case {"op": "error", "p": {"message": str(message)}}:
                self._is_failed = True
                print(f"\nThe turn failed: {message}", file=sys.stderr)
            case _:
                pass  # an event, the close, or a packet that this program does not know

    def _end(self, status: int, why: str | None = None) -> None:
        if self.status is None:
            self.status = status
            if why is not None:
                print(why, file=sys.stderr)


async def ask(options: argparse.Namespace) -> int:
    """Publish the request and print packets until the turn is over."""
    request_id, prefix = str(uuid4()), options.prefix
    request = {
        "request_id": request_id,
        "context": {"session_id": options.session, "user": {"id": options.user, "name": options.user}},
        "payload": {"query": options.query},
    }
    client = await nats.connect(options.url, inbox_prefix=options.inbox, connect_timeout=5, max_reconnect_attempts=5)
    messages: asyncio.Queue[Msg] = asyncio.Queue()
    try:
        # First subscribe, then publish: what is published before that is not repeated.
        for subject in (f"{prefix}.packets.out.{request_id}", f"{prefix}.dead.{request_id}"):
            await client.subscribe(subject, cb=messages.put)
        await client.flush()
        # The acknowledgement says that the request is stored. The id makes it safe to publish it again.
        await client.jetstream().publish(
            f"{prefix}.work.{options.agent}", json.dumps(request).encode(), headers={"Nats-Msg-Id": request_id}
        )
        answer = Answer()
        while answer.status is None:
            message = await asyncio.wait_for(messages.get(), options.timeout)
            answer.feed(message.subject, message.headers or {}, message.data)
    except TimeoutError:
        print(f"Nothing came for {options.timeout} s; the request {request_id} may still run", file=sys.stderr)
        return READ_ELSEWHERE
    except NatsError as error:
        print(f"NATS: {error or type(error).__name__}", file=sys.stderr)
        return FAILED
    finally:
        await client.close()
    print()
    return answer.status


def main() -> int:
    """Read the command line and ask."""
    parser = argparse.ArgumentParser(description="Send a request to an agent over NATS and print its answer.")
    parser.add_argument("url", help="such as nats://127.0.0.1:4222")
    parser.add_argument("agent", help="the agent's name")
    parser.add_argument("query")
    parser.add_argument("--user", default="me")
    parser.add_argument("--session", default=str(uuid4()))
    parser.add_argument("--prefix", default="accord", help="queue.prefix of the service")
    parser.add_argument("--inbox", default="_INBOX", help="prefix of the subjects on which NATS answers this client")
    parser.add_argument("--timeout", type=float, default=60, help="seconds without any message")
    return asyncio.run(ask(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
