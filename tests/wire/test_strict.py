"""A value of another type is refused, from JSON and from Python: text is no number, a number is no boolean."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, cast
from uuid import UUID

import pytest
from pydantic import ValidationError

from accord import (
    CapabilityManifest,
    CapabilityRequirement,
    ClientCapabilities,
    Conversation,
    ErrorCode,
    HealthCheckResponse,
    InvalidMessageError,
    MinSupport,
    PresentationEvent,
    ServiceRequest,
    StreamOpCode,
    StreamPacket,
)
from tests.wire.test_golden import GOLDEN, GOLDEN_CASES

FREE = {"output", "metrics", "details", "meta", "metadata", "input", "usage"}
"""Members that hold an object of any shape."""
FREE_IN = {
    ("event_thought_trace", "data"),
    ("event_user_error", "data"),
    ("packet_event", "p"),
    ("inspection_report", "capabilities"),
    ("service_capabilities", "agent"),
    ("service_capabilities", "agents"),
}
WRONG: dict[type, list[Any]] = {
    bool: [0, 1, "true", "no", 1.0],
    int: ["3600", True, "1.5"],
    float: ["3600", True],
    str: [1, 1.5, True],
}
Path = tuple[str | int, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value that is neither an object nor a list, with its path."""
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from leaves(inner, (*path, index))
    else:
        yield path, value


def replaced(message: Any, path: Path, value: Any) -> Any:
    changed = deepcopy(message)
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return changed


CASES = [
    pytest.param(name, path, wrong, id=f"{name}-{'.'.join(map(str, path))}-{wrong!r}")
    for name in GOLDEN_CASES
    for path, value in leaves(json.loads((GOLDEN / f"{name}.json").read_text()))
    if not FREE & set(path) and (name, path[0]) not in FREE_IN
    for wrong in WRONG.get(cast("type", value.__class__), [])
]


@pytest.mark.parametrize(("name", "path", "wrong"), CASES)
def test_a_value_of_another_type_is_refused(name: str, path: Path, wrong: Any):
    message = replaced(json.loads((GOLDEN / f"{name}.json").read_text()), path, wrong)
    with pytest.raises(InvalidMessageError):
        GOLDEN_CASES[name].parse(json.dumps(message))
    with pytest.raises(ValidationError):
        GOLDEN_CASES[name].model_validate(message)


HEALTHY: dict[str, Any] = {"status": "ok", "agent_id": "123e4567-e89b-12d3-a456-426614174000", "version": "1.0.0"}


def test_a_whole_number_is_a_number():
    assert HealthCheckResponse(**HEALTHY, uptime_seconds=3600).uptime_seconds == 3600
    assert HealthCheckResponse.parse(json.dumps({**HEALTHY, "uptime_seconds": 3600})).uptime_seconds == 3600


@pytest.mark.parametrize("wrong", ["no", "yes", 0, 1, None, []])
def test_only_true_and_false_are_booleans(wrong: Any):
    with pytest.raises(ValidationError):
        ClientCapabilities(prefers_markdown=wrong)
    with pytest.raises(ValidationError):
        ClientCapabilities.model_validate_json(json.dumps({"prefers_markdown": wrong}))


def test_what_python_writes_differently_is_still_understood():
    assert StreamPacket(op="delta", p="x") == StreamPacket(op=StreamOpCode.DELTA, p="x")
    assert StreamPacket.model_validate(
        {"op": "error", "p": {"code": ErrorCode.INTERNAL, "message": "m", "severity": "fatal"}}
    )
    assert CapabilityRequirement(capability="streaming", min_support="native").min_support is MinSupport.NATIVE  # pyright: ignore[reportArgumentType]
    assert CapabilityManifest.model_validate({"streaming": "native"})["streaming"].kind == "native"
    assert Conversation.model_validate({"messages": ({"role": "user", "content": ({"type": "text", "text": "Hi"},)},)})
    request: dict[str, Any] = {
        "request_id": "550e8400-e29b-41d4-a716-446655440000",
        "context": {"session_id": "s", "user": {"id": "u", "name": "U"}},
        "payload": {"query": "q", "files": ("a.txt",)},
    }
    assert ServiceRequest.model_validate(request) == ServiceRequest.model_validate(
        {**request, "request_id": UUID(request["request_id"])}
    )
    event = {"type": "markdown_block", "data": {"content": "Hi"}, "timestamp": "2023-10-27T10:00:00Z"}
    assert PresentationEvent.model_validate(event).timestamp.isoformat() == "2023-10-27T10:00:00+00:00"
