"""Ids: the field of a message and `is_id` accept the same names."""

import pytest
from pydantic import TypeAdapter, ValidationError

from accord.wire.session import MAX_ID_CHARS, Id, is_id

NAMES = ["a", " ", "ä\n🐻", "x" * MAX_ID_CHARS, "", "x" * (MAX_ID_CHARS + 1), "a\0b", "\0"]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:5]))
def test_the_field_and_the_function_accept_the_same_ids(name: str):
    try:
        TypeAdapter(Id).validate_python(name)
    except ValidationError:
        assert not is_id(name)
    else:
        assert is_id(name)
