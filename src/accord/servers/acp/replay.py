"""Replay a stored conversation to the client that loads it: what the user sent and what the agent showed, in order.

The updates of a turn are made from its stored packets by `PromptUpdates`, which makes those of live turns as well. What
cannot be replayed is stated in the conversation. Which turns are replayed is decided by `choose_turns`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from accord.acp.schema_parts import TextContent
from accord.errors import StoreError
from accord.ports import SessionRuns
from accord.run import Reader, Sessions
from accord.servers.acp.messages import ClientHandshake
from accord.servers.acp.updates import PromptUpdates, without_malformed
from accord.wire.agent_work import PermissionRecord
from accord.wire.conversation import ChatMessage, Role
from accord.wire.session import RunRecord, StoredState

SEND_BYTES: Final = 64 * 1024
"""How many bytes of updates are collected before they are sent."""

OMITTED: Final = (
    "({count} earlier turns of this conversation are not shown: at most {max_turns} turns and {max_bytes} bytes are "
    "replayed; limits.max_replay_turns and limits.max_replay_bytes change that.)\n\n"
)
TOO_LARGE: Final = "(A turn of {size} bytes is not shown here: limits.max_replay_bytes is {max_bytes}.)"
NO_PROMPT: Final = "(The user's message is not stored.)\n\n"
NO_BLOCKS: Final = "(Not stored, and so not shown: {} that the user sent.)\n\n"
MALFORMED: Final = "({} malformed content blocks of the user are not shown.)\n\n"
RUNS_HERE: Final = "(This turn is still running.)"
RUNS_ELSEWHERE: Final = (
    "\n\n(This turn has not ended: another process still runs it, or was stopped in the middle of it.)"
)
ENDINGS: Final[Mapping[StoredState, str]] = {
    StoredState.REFUSED: "(This prompt was refused: {})",
    StoredState.FAILED: "\n\n(This turn ended with an error: {})",
    StoredState.CANCELLED: "\n\n(This turn was cancelled.)",
}
"""What is stated at the end of a turn that did not run to its end."""

Send = Callable[..., Awaitable[None]]
"""Sends lines, which may be in pieces."""


@dataclass(frozen=True, slots=True)
class ReplayLimits:
    """How many turns, and bytes of them, are replayed: the last ones of the session."""

    max_turns: int = 1_000
    max_bytes: int = 64 * 1024 * 1024


class ChosenRun(NamedTuple):
    """A turn to be replayed; one that is too large alone is only mentioned, with its size."""

    record: RunRecord
    too_large: int | None = None


def choose_turns(found: SessionRuns, limits: ReplayLimits) -> list[ChosenRun]:
    """The last turns that fit together, oldest first. One that would not fit even alone takes no space."""
    chosen: list[ChosenRun] = []
    left = limits.max_bytes
    for record, size in reversed(found.last):
        if size > limits.max_bytes:
            chosen.append(ChosenRun(record, size))
            continue
        left -= size
        if left < 0:
            break
        chosen.append(ChosenRun(record))
    return chosen[::-1]


class _Shape(msgspec.Struct):
    blocks: dict[str, int] = {}


class _Receipt(msgspec.Struct):
    """What a replay needs of a receipt."""

    request: _Shape = msgspec.field(default_factory=_Shape)
    permissions: msgspec.Raw = msgspec.Raw(b"[]")


_read_receipt = msgspec.json.Decoder(_Receipt).decode
_read_records = msgspec.json.Decoder(list[msgspec.Raw]).decode


class SessionReplay:
    """Replays one session to one client."""

    def __init__(
        self, sessions: Sessions, session_id: str, handshake: ClientHandshake, limits: ReplayLimits, send: Send
    ) -> None:
        self._sessions: Final = sessions
        self._store: Final = sessions.store
        self._session_id: Final = session_id
        self._reader: Final = Reader(handshake.capabilities)
        self._writer: Final = handshake.writer(session_id)
        self._limits: Final = limits
        self._send: Final = send

    async def run(self) -> None:
        """Send the updates of all turns that are replayed."""
        found = await self._find_turns()
        chosen = choose_turns(found, self._limits)
        if omitted := found.total - len(chosen):
            max_turns, max_bytes = self._limits.max_turns, self._limits.max_bytes
            text = OMITTED.format(count=omitted, max_turns=max_turns, max_bytes=max_bytes)
            await self._send(self._writer.agent_message(f"{self._session_id}-omitted", text))
        texts: Mapping[str, Sequence[ChatMessage]] = {}
        if any(not each.record.prompt_bytes for each in chosen):
            limit, max_bytes = 2 * self._limits.max_turns, self._limits.max_bytes
            texts = await self._store.messages(self._session_id, limit=limit, max_bytes=max_bytes)
        for record, too_large in chosen:
            if too_large is None:
                await self._replay_turn(record, texts.get(record.request_id, ()))
            else:
                text = TOO_LARGE.format(size=too_large, max_bytes=self._limits.max_bytes)
                await self._send(self._writer.agent_message(record.request_id, text))

    async def _find_turns(self) -> SessionRuns:
        """The last turns. Those that a process left when it died are ended first, if its lease is over."""
        found = await self._store.session_turns(self._session_id, limit=self._limits.max_turns)
        if not any(self._is_left(record) for record, _ in found.last):
            return found
        with suppress(StoreError):
            await self._sessions.recover()
        return await self._store.session_turns(self._session_id, limit=self._limits.max_turns)

    def _is_left(self, record: RunRecord) -> bool:
        return record.state is StoredState.RUNNING and not self._sessions.is_running(record.request_id)

    async def _replay_turn(self, record: RunRecord, messages: Sequence[ChatMessage]) -> None:
        stored = await self._store.receipt(record.request_id)
        receipt = _read_receipt(stored.body) if stored is not None else _Receipt()
        await self._send(*await self._user_part(record, messages, receipt))
        if self._sessions.is_running(record.request_id):  # its updates are sent as they are made
            await self._send(self._writer.agent_message(record.request_id, RUNS_HERE))
            return
        updates = PromptUpdates(self._writer, record.request_id)
        permissions = [PermissionRecord.parse(bytes(each)) for each in _read_records(receipt.permissions)]
        lines = bytearray()
        async with aclosing(self._sessions.read_stored(record, self._reader)) as batches:
            async for batch in batches:
                while permissions and (permissions[0].after or 0) < batch.made:
                    lines += updates.replay_permission(permissions.pop(0))
                lines += updates.lines([packet.body for packet in batch.packets])
                if len(lines) >= SEND_BYTES:
                    await self._send(bytes(lines))
                    lines.clear()
        for permission in permissions:
            lines += updates.replay_permission(permission)
        await self._send(bytes(lines) + self._last_lines(record, updates))

    async def _user_part(self, record: RunRecord, messages: Sequence[ChatMessage], receipt: _Receipt) -> list[bytes]:
        """The lines of what the user sent, and a statement on what is missing."""
        request_id, missing = record.request_id, ""
        if prompt := await self._store.prompt(request_id) if record.prompt_bytes else b"":
            if record.state is StoredState.REFUSED:
                prompt, malformed = without_malformed(prompt)
                missing = MALFORMED.format(malformed) if malformed else ""
        else:
            texts = [each.content for each in messages if each.role is Role.USER and each.content]
            prompt = msgspec.json.encode([TextContent(text=text).dump() for text in texts])
            kinds = ", ".join(f"{count} × {kind}" for kind, count in receipt.request.blocks.items())
            missing = NO_BLOCKS.format(kinds) if kinds else "" if texts else NO_PROMPT
        lines = self._writer.user_message(request_id, prompt) if prompt != b"[]" else []
        return [*lines, self._writer.agent_message(request_id, missing)] if missing else lines

    def _last_lines(self, record: RunRecord, updates: PromptUpdates) -> bytes:
        if record.state is StoredState.RUNNING:
            return self._writer.agent_message(record.request_id, RUNS_ELSEWHERE)
        lines, ending = updates.ending(updates.stop_reason), ENDINGS.get(record.state)
        if ending is None:
            return lines
        why = updates.error.message if updates.error is not None else "no reason is stored"
        return lines + self._writer.agent_message(record.request_id, ending.format(why))
