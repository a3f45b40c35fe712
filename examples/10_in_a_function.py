"""Accord in a serverless function: the ASGI application is called once per event, without a server.

Needs `accord-agents[serve]`. `handle` is what the platform calls; here it gets two events, as a platform sends them:

    python examples/10_in_a_function.py
"""

import asyncio
import base64
import json
from typing import Any

from accord.agents import demo
from accord.config import ServerConfig
from accord.run import Dispatcher, Engine, Sessions
from accord.servers.http.app import Application
from accord.servers.service import AllowAll, NullObserver, Service
from accord.stores.memory import MemoryStore

# A function loses its memory between calls: use a PostgreSQL store for sessions that outlive one call.
sessions = Sessions(Engine(demo, Dispatcher([])), MemoryStore())
app = Application(Service(sessions, ServerConfig(), AllowAll(), NullObserver(), "1.0"))


async def answer(event: dict[str, Any]) -> dict[str, Any]:
    """Call the application with one event and return its response."""
    body = event.get("body") or ""
    content = base64.b64decode(body) if event.get("isBase64Encoded") else body.encode()
    headers = [(name.lower().encode(), str(value).encode()) for name, value in event.get("headers", {}).items()]
    scope = {"type": "http", "method": event["method"], "path": event["path"], "query_string": b"", "headers": headers}
    incoming: asyncio.Queue[Any] = asyncio.Queue()
    incoming.put_nowait({"type": "http.request", "body": content, "more_body": False})
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, incoming.get, send)
    start, *parts = sent
    return {
        "statusCode": start["status"],
        "headers": {name.decode(): value.decode() for name, value in start["headers"]},
        "body": b"".join(part["body"] for part in parts).decode(),
    }


async def run_once(event: dict[str, Any]) -> dict[str, Any]:
    """Start the application, call it with one event, and stop it."""
    events, replies = asyncio.Queue[Any](), asyncio.Queue[Any]()
    lifespan = asyncio.create_task(app({"type": "lifespan"}, events.get, replies.put))
    events.put_nowait({"type": "lifespan.startup"})
    await replies.get()
    response = await answer(event)
    events.put_nowait({"type": "lifespan.shutdown"})
    await lifespan
    return response


def handle(event: dict[str, Any]) -> dict[str, Any]:
    """The function that the platform calls."""
    return asyncio.run(run_once(event))


if __name__ == "__main__":
    request: dict[str, Any] = {
        "request_id": "550e8400-e29b-41d4-a716-446655440000",
        "context": {"session_id": "s", "user": {"id": "u", "name": "U"}},
        "payload": {"query": "help", "capabilities": {"supported_events": [], "prefers_markdown": False}},
    }
    body = base64.b64encode(json.dumps(request).encode()).decode()
    response = handle({"method": "POST", "path": "/v1/assist", "body": body, "isBase64Encoded": True})
    print(response["statusCode"], json.loads(response["body"])["output"]["text"].splitlines()[0])
    response = handle({"method": "GET", "path": "/v1/nothing", "headers": {"Accept": "application/json"}})
    print(response["statusCode"], json.loads(response["body"])["code"])
