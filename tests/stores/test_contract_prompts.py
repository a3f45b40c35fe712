"""The contract of every store for prompts, for the turns of a session, and for messages with long texts."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from accord.errors import ErrorCode, RefusedError
from accord.ports import PacketBatch, SessionStore
from accord.stores.statements import LONG_TEXT
from accord.stores.transcripts import PROMPT_PART_BYTES
from accord.wire.conversation import ChatMessage, Role
from accord.wire.packet import DeltaPacket
from accord.wire.session import DeletionCounts, StoredState
from tests.stores.records import START, a_session, a_turn, at, begun, ending, said

LONG = "ä\n\N{GRINNING FACE}" * LONG_TEXT


def blocks(*texts: str) -> bytes:
    found: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    return json.dumps([image, *found]).encode()


async def begun_with(store: SessionStore, prompt: bytes, request_id: str = "r1", *, seconds: float = 1) -> None:
    turn = a_turn(request_id, seconds=seconds, prompt_bytes=len(prompt))
    await store.begin_turn(a_session(), turn, history=0, prompt=prompt)


@pytest.mark.parametrize("size", [0, 1, PROMPT_PART_BYTES, PROMPT_PART_BYTES + 1, 3 * PROMPT_PART_BYTES])
async def test_a_prompt_is_read_as_it_was_stored(store: SessionStore, size: int):
    prompt = bytes(number % 251 for number in range(size))
    await begun_with(store, prompt)
    assert await store.prompt("r1") == prompt
    assert await store.prompt("none") == b""
    found = await store.turn("r1")
    assert found is not None
    assert found.prompt_bytes == size


async def test_the_last_turns_of_a_session_come_oldest_first_with_their_sizes(store: SessionStore):
    assert await store.session_turns("s1", limit=9) == (0, [])
    await begun_with(store, b"12345", "r1", seconds=3)
    await begun_with(store, b"", "r2", seconds=1)
    await begun(store, "r3", "s2")
    await store.append_packets(PacketBatch("r1", 1, ["a", "b"]))
    await store.end_turn(ending(PacketBatch("r1", 3, ["cde"])))
    first = a_turn("r2", seconds=1)
    second = a_turn("r1", seconds=3, prompt_bytes=5, state=StoredState.DONE, last_seq=3, ended_at=at(2))
    assert await store.session_turns("s1", limit=9) == (2, [(first, 0), (second, 10)])
    assert await store.session_turns("s1", limit=1) == (2, [(second, 10)])


async def test_messages_are_found_by_the_turn_that_added_them(store: SessionStore):
    for number in range(3):
        await begun(store, f"r{number}")
        await store.end_turn(ending(f"r{number}", messages=said(f"q{number}", f"a{number}")))
    found = await store.messages("s1", limit=3, max_bytes=10_000)
    assert found == {"r1": said("a1"), "r2": said("q2", "a2")}
    assert await store.messages("none", limit=3, max_bytes=10_000) == {}


@pytest.mark.parametrize("state", [StoredState.DONE, StoredState.CANCELLED])
@pytest.mark.parametrize("has_prompt", [True, False])
async def test_a_long_message_is_read_with_its_whole_text(store: SessionStore, state: StoredState, has_prompt: bool):
    prompt = blocks("first", LONG) if has_prompt else b""
    await begun_with(store, prompt)
    question = ChatMessage(role=Role.USER, content=f"first\n{LONG}", timestamp=START)
    answer = ChatMessage(role=Role.ASSISTANT, content=LONG * 2, timestamp=START)
    packets = [DeltaPacket(p=LONG).to_json(), '{"op":"event","p":{"type":"x"}}', DeltaPacket(p=LONG).to_json()]
    await store.end_turn(ending(PacketBatch("r1", 1, packets), state, messages=[question, answer]))
    fits = len(question.to_json().encode()) + len(answer.to_json().encode())
    assert await store.history("s1", limit=9, max_bytes=fits) == [question, answer]
    assert await store.history("s1", limit=9, max_bytes=fits - 1) == [answer]
    assert await store.messages("s1", limit=9, max_bytes=fits) == {"r1": [question, answer]}


async def test_a_prompt_counts_for_the_quota_and_goes_with_its_session(store: SessionStore):
    prompt = b"x" * (3 * PROMPT_PART_BYTES)
    await begun_with(store, prompt)
    await store.end_turn(ending("r1"))
    turn = replace(a_turn("r2"), session_id="s2")
    with pytest.raises(RefusedError) as refused:
        await store.begin_turn(a_session("s2"), turn, history=0, quota_bytes=len(prompt))
    assert refused.value.code is ErrorCode.QUOTA_EXCEEDED
    assert await store.delete_user("ada") == DeletionCounts(sessions=1, turns=1)
    assert await store.prompt("r1") == b""
    await store.begin_turn(a_session("s2"), turn, history=0, quota_bytes=1)
