"""The packets of running turns in the session store, announced to other processes over a channel.

Packets are announced for turns that are followed: a process that follows a turn announces that, and at once
gets a message with how far the turn is. Small batches travel with the announcement, so that following costs no query.
The other log is `queues/nats/log.py`, where packets reach the session store later.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from accord.ports import Channel, PacketBatch, RunLog, RunNews, SessionStore
from accord.wire.session import PacketRecord, RunRecord

FOLLOW_TOPIC: Final = "follow"


class StoreLog:
    """A log whose packets are in the session store. With `announces_all`, every turn is announced, followed or not."""

    def __init__(self, store: SessionStore, channel: Channel | None = None, *, announces_all: bool = False) -> None:
        self._store: Final = store
        self._channel: Final = channel
        self._announces_all: Final = announces_all
        self._open: Final[dict[str, _StoreRunLog]] = {}
        if channel is not None:
            channel.subscribe(FOLLOW_TOPIC, self._follow_requested)

    def open_turn(
        self, turn: RunRecord, logged_seq: int, unstored: Sequence[str] = (), *, is_followed: bool = False
    ) -> RunLog:
        """The log of a turn that this process runs."""
        del unstored  # the store has all packets
        is_followed = is_followed or self._announces_all
        log = self._open[turn.request_id] = _StoreRunLog(self, self._store, turn, logged_seq, is_followed=is_followed)
        return log

    async def fence(self, turn: RunRecord) -> Sequence[str]:
        """The store refuses earlier epochs by itself, and has all packets."""
        del turn
        return ()

    async def unstored(self, request_id: str, after_seq: int) -> Sequence[PacketRecord]:
        """Nothing: the store has all packets."""
        del request_id, after_seq
        return ()

    def follow(self, request_id: str, receive: Callable[[RunNews], None]) -> Callable[[], None]:
        """Call `receive` with the news of a turn that another process runs."""
        channel = self._channel
        if channel is None:
            return lambda: None
        end = channel.subscribe(news_topic(request_id), lambda payload: receive(decode_news(payload)))
        channel.publish(FOLLOW_TOPIC, request_id.encode())
        return end

    def on_gap(self, lost: Callable[[], None]) -> None:
        """Call `lost` whenever news may have been lost."""
        if self._channel is not None:
            self._channel.on_gap(lost)

    def announce(self, request_id: str, news: RunNews) -> None:
        """Send news to the processes that follow this turn."""
        if self._channel is not None:
            self._channel.publish(news_topic(request_id), encode_news(news, self._channel.max_bytes))

    def forget(self, log: "_StoreRunLog") -> None:
        """Forget a turn that is over."""
        if self._open.get(log.request_id) is log:
            del self._open[log.request_id]

    def _follow_requested(self, payload: bytes) -> None:
        log = self._open.get(payload.decode(errors="replace"))
        if log is not None:
            log.follow_requested()


class _StoreRunLog:
    """The log of one turn."""

    def __init__(
        self, log: StoreLog, store: SessionStore, turn: RunRecord, logged_seq: int, *, is_followed: bool
    ) -> None:
        self.request_id: Final = turn.request_id
        self._log: Final = log
        self._store: Final = store
        self._epoch: Final = turn.epoch
        self._seq = logged_seq
        self._is_followed = is_followed

    async def append(self, new: PacketBatch) -> None:
        new.epoch = self._epoch
        await self._store.append_packets(new)
        self._seq = new.last_seq
        if self._is_followed:
            self._log.announce(self.request_id, RunNews(new.first_seq, new.last_seq, new.packets))

    async def ending(self, last: Sequence[str], stored_seq: int | None = None) -> PacketBatch:
        if stored_seq is not None:
            self._seq = stored_seq
        return PacketBatch(self.request_id, self._seq + 1, last, self._epoch)

    def ended(self, last: PacketBatch) -> None:
        if self._is_followed:
            self._log.announce(self.request_id, RunNews(last.first_seq, last.last_seq, last.packets, is_over=True))

    def close(self) -> None:
        self._log.forget(self)

    def follow_requested(self) -> None:
        self._is_followed = True
        self._log.announce(self.request_id, RunNews(self._seq + 1, self._seq))


def news_topic(request_id: str) -> str:
    """The topic of the news of a turn."""
    return f"packets.{request_id}"


def encode_news(news: RunNews, max_bytes: int) -> bytes:
    """Encode news: a line about the packets, then a line for each; without these if they do not fit."""
    head: dict[str, Any] = {"first": news.first_seq, "last": news.last_seq, "over": news.is_over}
    if news.packets is not None:
        whole = "\n".join([json.dumps({**head, "packets": True}), *news.packets]).encode()
        if len(whole) <= max_bytes:
            return whole
    return json.dumps(head).encode()


def decode_news(payload: bytes) -> RunNews:
    """Decode news; what is no news at all says nothing."""
    head_line, _, rest = payload.decode(errors="replace").partition("\n")
    try:
        head: Any = json.loads(head_line)
        news = RunNews(int(head["first"]), int(head["last"]), None, head["over"] is True)
    except (ValueError, KeyError, TypeError):
        return RunNews(1, 0)
    packets = rest.split("\n") if rest else []
    if head.get("packets") is not True or len(packets) != news.last_seq - news.first_seq + 1:
        return news
    return news._replace(packets=packets)
