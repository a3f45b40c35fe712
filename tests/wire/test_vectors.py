"""The conformance vectors of the CAP messages: each line gives its verdict."""

from typing import Any

import pytest

import accord
from accord.errors import InvalidMessageError
from accord.wire.message import Message
from tests.vectors import read_vectors

CAP = read_vectors("cap.jsonl")


@pytest.mark.parametrize(
    "line", CAP, ids=[f"{number}-{line['model']}-{line['why']}" for number, line in enumerate(CAP)]
)
def test_each_vector_gives_its_verdict(line: dict[str, Any]):
    model: type[Message] = getattr(accord, line["model"])
    if not line["valid"]:
        with pytest.raises(InvalidMessageError):
            model.parse(line["json"])
        return
    message = model.parse(line["json"])
    assert model.parse(message.to_json()) == message
    for attribute, value in line.get("reads", {}).items():
        assert getattr(message, attribute) == value
    kept: Any = message.dump()
    for key in line.get("keeps", []):
        kept = kept[key]
