"""Send a request to an agent in a worker, over NATS with its plain client, and print the answer as it comes.

The client needs `nats-py`, and nothing of Accord. The worker needs `accord-agents[nats,postgres]`, a NATS server with
JetStream (`nats-server -js`) and a PostgreSQL database:

    accord worker examples/02_my_agent.py --queue nats://127.0.0.1:4222 --store postgresql://127.0.0.1/accord
    python examples/09_queue_worker.py nats://127.0.0.1:4222 answer Hello

docs/asyncapi.yaml describes the messages, docs/queue.md the queue. Over HTTP a client has less to do: there a lost
message is not its concern.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import nats
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

# The annotations of the client are incomplete.
# pyright: reportUnknownMemberType=false

ANSWERED, FAILED, READ_ELSEWHERE = 0, 1, 3
MISSED = "Packets are missing: read the rest over HTTP, with GET /v1/requests/{id}"


async def read_packets(messages: asyncio.Queue[Msg], timeout_s: float) -> AsyncIterator[Any]:
    """Yield each packet of the turn once and in order, until the turn is over."""
    expected = 1  # the number of the next packet
    while True:
        message = await asyncio.wait_for(messages.get(), timeout_s)
        headers = message.headers or {}
        if ".dead." in message.subject:
            raise ValueError(f"Rejected: {headers.get('Accord-Reason', 'no reason given')}")
        first = headers.get("Accord-Seq", "")
        if not first.isdecimal() or int(first) < 1:
            continue  # a fence, or a kind of message that this program does not know
        if "Accord-Last" in headers or int(first) > expected:
            raise LookupError(MISSED)
        for number, line in enumerate(message.data.split(b"\n") if message.data else [], start=int(first)):
            if number == expected:  # others were repeated
                expected += 1
                with suppress(json.JSONDecodeError):
                    yield json.loads(line)
        if "Accord-Over" in headers:
            return


async def ask(options: argparse.Namespace) -> int:
    """Publish the request, print its answer, and return the exit status."""
    request_id, prefix, status = str(uuid4()), options.prefix, ANSWERED
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
        async for packet in read_packets(messages, options.timeout):
            match packet:
                case {"op": "delta", "p": str(text)}:
                    print(text, end="", flush=True)
                case {"op": "error", "p": {"message": str(message)}}:
                    status = FAILED
                    print(f"The turn failed: {message}", file=sys.stderr)
                case _:
                    pass  # an event, the close, or a packet that this program does not know
    except TimeoutError:
        print(f"Nothing came for {options.timeout} s; the request {request_id} may still run", file=sys.stderr)
        status = READ_ELSEWHERE
    except (LookupError, ValueError, NatsError) as error:
        print(error or type(error).__name__, file=sys.stderr)
        status = READ_ELSEWHERE if isinstance(error, LookupError) else FAILED
    finally:
        await client.close()
    print()
    return status


def main() -> int:
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
