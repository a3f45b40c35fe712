"""A history that is parsed on first use equals one that was parsed before."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from accord.wire.conversation import ChatMessage, Role, Transcript

AT = datetime(2026, 1, 1, tzinfo=UTC)
MESSAGES = [
    ChatMessage(role=Role.USER, content='What is "this"?', timestamp=AT),
    ChatMessage(role=Role.ASSISTANT, content="Ein Bär\n🐻", timestamp=AT),
    ChatMessage(role=Role.TOOL, content="", name="t", tool_call_id="1", timestamp=AT),
]


Look = Callable[[Sequence[ChatMessage]], Any]
LOOKS: dict[str, Look] = {
    "all": list,
    "how many": len,
    "any": bool,
    "the last": lambda them: them[-1:],
    "the first": lambda them: them[:2],
    "backwards": lambda them: list(reversed(them)),
}


@pytest.mark.parametrize("messages", [[], MESSAGES[:1], MESSAGES], ids=len)
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_every_access_gives_the_messages(messages: Sequence[ChatMessage], look: Look) -> None:
    assert look(Transcript([each.to_json() for each in messages])) == look(messages)


def test_a_message_is_found_by_its_index() -> None:
    kept = Transcript([each.to_json() for each in MESSAGES])
    assert (kept[0], kept[-1]) == (MESSAGES[0], MESSAGES[-1])
    assert MESSAGES[1] in kept
    with pytest.raises(IndexError):
        _ = kept[3]


def test_it_equals_any_sequence_of_the_same_messages() -> None:
    kept = Transcript([each.to_json() for each in MESSAGES])
    assert kept == MESSAGES
    assert kept == tuple(MESSAGES)
    assert kept != MESSAGES[:2]
    assert kept != "text"
