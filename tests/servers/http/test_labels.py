"""Labels in bodies and events that are passed on: one member more, and nothing else changes."""

import json
from typing import Any

import pytest

from accord.servers.http.model_calls import with_event_label, with_label

LABEL: dict[str, Any] = {"served_by": "a"}


@pytest.mark.parametrize(
    ("body", "labelled"),
    [
        (b'{"id": 1}', b'{"accord":{"served_by":"a"},"id": 1}'),
        (b"{}", b'{"accord":{"served_by":"a"}}'),
        (b" { }", b' {"accord":{"served_by":"a"} }'),
        (b'{"text": "an \\"accord\\""}', b'{"accord":{"served_by":"a"},"text": "an \\"accord\\""}'),
    ],
)
def test_a_body_gets_its_label_and_keeps_everything_else(body: bytes, labelled: bytes):
    assert with_label(body, LABEL) == labelled
    assert json.loads(labelled)["accord"]["served_by"] == "a"


@pytest.mark.parametrize(
    ("block", "labelled"),
    [
        (b'data: {"a":1}\n\ndata: {"b":2}\n\n', b'data: {"accord":{"served_by":"a"},"a":1}\n\ndata: {"b":2}\n\n'),
        (b'event: x\ndata:{"a":1}\n\n', b'event: x\ndata:{"accord":{"served_by":"a"},"a":1}\n\n'),
        (b': comment\n\ndata: {"a":1}\r\n\r\n', b': comment\n\ndata: {"accord":{"served_by":"a"},"a":1}\r\n\r\n'),
        (b'data: [DONE]\n\ndata: {"a":1}\n\n', b'data: [DONE]\n\ndata: {"accord":{"served_by":"a"},"a":1}\n\n'),
        (b": comment\n\n", b": comment\n\n"),
        (b"data: [DONE]\n\n", b"data: [DONE]\n\n"),
    ],
)
def test_the_first_event_with_an_object_gets_the_label(block: bytes, labelled: bytes):
    assert with_event_label(block, LABEL) == labelled
