"""A channel between the processes of one machine: each has a datagram socket in one private folder.

A message goes to every other socket of the folder. Datagrams keep their order and are never split. What a receiver has
not read yet waits in the kernel (a few messages), then in the sender (`WAITING_BYTES` for each receiver); what does not
fit is dropped. Each datagram has a number, by which its receiver notices that others are missing.

It starts no thread and polls nothing. It knows nothing of what the messages say.
"""

import asyncio
import errno
import logging
import os
import socket
import stat
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from struct import Struct
from time import time_ns
from typing import Final

from accord.errors import StoreError
from accord.ports.queue import Receive

MAX_BYTES: Final = 60_000
"""The largest payload; a datagram of that size fits into the buffers of every system."""
WAITING_BYTES: Final = 1_000_000
"""How much may wait in this process for one receiver that is slow."""
READ_AT_ONCE: Final = 100
"""How many messages are read before the event loop does something else."""
CLOSE_S: Final = 1.0
"""How long `close` waits for receivers that are slow."""
MAX_PATH_BYTES: Final = 107 if sys.platform == "linux" else 103
"""The longest path of a socket; 103 is the limit of macOS."""
SETTLED_NS: Final = 100_000_000
"""A folder that was changed more recently than that may change again without another modification time."""
PRIVATE: Final = 0o700
OTHERS: Final = 0o077

# The sender's name, the number of the message for this receiver, the length of the topic that follows.
_HEAD: Final = Struct(">8sQB")
_NOTICE: Final = bytes(1)
"""A message without topic and payload: it only shows that messages before it are missing."""

LOGGER: Final = logging.getLogger("accord.queues")


def channel_folder(database: Path) -> Path:
    """Where the processes of this user that share this database find each other.

    In the folder for temporary files and not beside the database: the path of a socket has at most 107 bytes.
    """
    name = sha256(os.fsencode(database.resolve())).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"accord-{os.getuid()}" / name


class LocalChannel:
    """A `Channel` between the processes of one user on one machine that are given the same folder.

    The folder and the one that holds it are made if they are missing, and no other user may enter them.
    A payload that is too large is not sent: that is logged, and the receivers notice a gap. A process does not get its
    own messages.
    """

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._subscribed: Final[dict[str, list[Receive]]] = {}
        self._on_gap: Final[list[Callable[[], None]]] = []
        self._peers: Final[dict[str, _Peer]] = {}
        self._last_numbers: Final[dict[bytes, int]] = {}
        """The number of the last message of each sender."""
        self._listed_at = 0
        self._name = b""
        self._socket: socket.socket | None = None

    @property
    def max_bytes(self) -> int:
        """The largest payload."""
        return MAX_BYTES

    @property
    def is_connected(self) -> bool:
        """Whether this process has its socket."""
        return self._socket is not None

    async def open(self) -> None:
        """Make this process's socket; raises `StoreError` if the folder cannot be used."""
        if self._socket is None:
            try:
                self._bind()
            except OSError as error:
                reason = error.strerror or str(error)
                if (length := len(os.fsencode(self._folder / self._name.hex()))) > MAX_PATH_BYTES:
                    reason = (
                        f"its path would have {length} bytes, and at most {MAX_PATH_BYTES} are allowed; "
                        "set TMPDIR to a folder with a shorter path"
                    )
                raise StoreError(f"{self._folder}: cannot make a socket there: {reason}") from error

    async def close(self) -> None:
        """Send what is waiting, but wait for slow receivers only briefly, and remove the socket."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                while waiting := [peer.drained for peer in self._peers.values() if not peer.drained.is_set()]:
                    await waiting[0].wait()
        for name in list(self._peers):
            self._forget(name)
        self._unbind()

    def publish(self, topic: str, payload: bytes) -> None:
        """Send a message to the other processes. It never waits and never raises."""
        if self._socket is None:
            return
        self._find_peers()
        body: bytes | None = bytes([len(topic)]) + topic.encode("ascii") + payload
        if len(payload) > MAX_BYTES:
            fields = {"topic": topic, "bytes": len(payload), "max_bytes": MAX_BYTES}
            LOGGER.error("A message between processes is too large and was not sent", extra={"fields": fields})
            body = None
        for name, peer in list(self._peers.items()):
            peer.send(body)
            if peer.is_gone:
                self._remove_dead(name)

    def subscribe(self, topic: str, receive: Receive) -> Callable[[], None]:
        """Call `receive` with each message of this topic; returns a function that ends this."""
        self._subscribed.setdefault(topic, []).append(receive)

        def end() -> None:
            receivers = self._subscribed.get(topic, [])
            if receive in receivers:
                receivers.remove(receive)
            if not receivers:
                self._subscribed.pop(topic, None)

        return end

    def on_gap(self, lost: Callable[[], None]) -> None:
        """Call `lost` whenever messages may have been lost."""
        self._on_gap.append(lost)

    def _bind(self) -> None:
        _make_folder(self._folder)
        self._name = os.urandom(8)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.setblocking(False)
        try:
            made.bind(str(self._folder / self._name.hex()))
        except OSError:
            made.close()
            raise
        self._socket, self._listed_at = made, 0
        asyncio.get_running_loop().add_reader(made, self._receive, made)

    def _unbind(self) -> None:
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        with suppress(OSError):
            (self._folder / self._name.hex()).unlink()

    def _find_peers(self) -> None:
        """List the folder if it has changed; make the socket again if it was removed."""
        try:
            changed_at = self._folder.stat().st_mtime_ns
            if changed_at == self._listed_at:
                return
            names = {each.name for each in self._folder.iterdir()}
        except OSError:
            names, changed_at = set[str](), 0
        self._listed_at = changed_at if time_ns() - changed_at > SETTLED_NS else 0
        for name in names - {self._name.hex(), *self._peers}:
            self._peers[name] = _Peer(self._folder / name, self._name)
        for name in self._peers.keys() - names:
            self._forget(name)
        for sender in [each for each in self._last_numbers if each.hex() not in names]:
            del self._last_numbers[sender]
        if self._name.hex() not in names:
            self._unbind()
            try:
                self._bind()
            except OSError:
                LOGGER.exception("The socket of this process was removed, and cannot be made again")
            self._report_gap()

    def _remove_dead(self, name: str) -> None:
        """Remove the socket of a process that has ended without closing it: what it had not sent yet is lost."""
        self._forget(name)
        with suppress(OSError):
            (self._folder / name).unlink()
        self._report_gap()

    def _forget(self, name: str) -> None:
        self._peers.pop(name).close()

    def _receive(self, own: socket.socket) -> None:
        for _ in range(READ_AT_ONCE):
            try:
                message = own.recv(_HEAD.size + 255 + MAX_BYTES)
            except OSError:  # there are no more
                return
            self._deliver(message)
            if self._socket is not own:  # a receiver has closed this channel
                return

    def _deliver(self, message: bytes) -> None:
        if len(message) < _HEAD.size:
            return
        sender, number, topic_length = _HEAD.unpack_from(message)
        is_gap = number != self._last_numbers.get(sender, 0) + 1
        self._last_numbers[sender] = number
        if is_gap:
            self._report_gap()
        start = _HEAD.size + topic_length
        topic = message[_HEAD.size : start].decode("ascii", "replace")
        for receive in list(self._subscribed.get(topic, ())):
            receive(message[start:])

    def _report_gap(self) -> None:
        for lost in self._on_gap:
            lost()


class _Peer:
    """The socket of another process, and what waits to be sent to it."""

    def __init__(self, path: Path, sender: bytes) -> None:
        self.drained: Final = asyncio.Event()
        """Set while nothing waits."""
        self.drained.set()
        self.is_gone = False
        """Whether the process has ended."""
        self._sender: Final = sender
        self._number = 0
        self._waiting: Final[deque[bytes]] = deque()
        self._waiting_bytes = 0
        self._has_dropped = False
        self._socket: Final = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._loop: Final = asyncio.get_running_loop()
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self.is_gone = _means_gone(error)

    def send(self, body: bytes | None) -> None:
        """Send this topic and payload now, or as soon as there is room; None counts as a message that was lost."""
        self._number += 1
        if body is None or self._waiting_bytes + len(body) > WAITING_BYTES:
            self._has_dropped = True
        else:
            self._add(body)
        if self.drained.is_set():
            self._flush()

    def close(self) -> None:
        """Close the socket; what still waits is lost."""
        if not self.drained.is_set():
            self._loop.remove_writer(self._socket)
            self.drained.set()
        self._socket.close()

    def _add(self, body: bytes) -> None:
        message = _HEAD.pack(self._sender, self._number, body[0]) + body[1:]
        self._waiting.append(message)
        self._waiting_bytes += len(message)

    def _flush(self) -> None:
        """Send what waits; what then still waits is sent as soon as there is room."""
        while self._waiting or self._has_dropped:
            if not self._waiting:
                # Without a later message, the receiver would not notice that the last one is missing.
                self._has_dropped = False
                self._number += 1
                self._add(_NOTICE)
            try:
                self._socket.send(self._waiting[0])
            except BlockingIOError:
                if self.drained.is_set():
                    self.drained.clear()
                    self._loop.add_writer(self._socket, self._flush)
                return
            except OSError as error:
                self._has_dropped = error.errno == errno.ENOBUFS
                self.is_gone = _means_gone(error)
                self._waiting.clear()
                self._waiting_bytes = 0
                break
            self._waiting_bytes -= len(self._waiting.popleft())
        if not self.drained.is_set():
            self._loop.remove_writer(self._socket)
            self.drained.set()


def _means_gone(error: OSError) -> bool:
    return error.errno in (errno.ECONNREFUSED, errno.ENOENT, errno.ENOTCONN, errno.ECONNRESET, errno.EPROTOTYPE)


def _make_folder(folder: Path) -> None:
    """Make the folder, and its parent, for this user alone; raises `StoreError` if others may use it."""
    for each in (folder.parent, folder):
        each.mkdir(mode=PRIVATE, exist_ok=True)
    for each in (folder.parent, folder):
        found = each.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & OTHERS:
            raise StoreError(f"{each}: expected a folder that only this user may enter; remove it, or `chmod 700` it")
