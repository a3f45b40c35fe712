"""The channel between processes of one machine, with real processes. What every channel does is in `test_channels.py`."""

import asyncio
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from accord.errors import StoreError
from accord.queues.local import MAX_BYTES, WAITING_BYTES, LocalChannel, channel_folder
from tests.queues.test_channels import WAIT_S, Inbox

pytestmark = pytest.mark.anyio

CHILD = """
import asyncio, sys
from pathlib import Path
from accord.queues.local import LocalChannel

async def main():
    channel = LocalChannel(Path(sys.argv[1]))
    channel.on_gap(lambda: print("gap", flush=True))
    channel.subscribe("down", lambda message: (print(len(message), flush=True), channel.publish("up", message)))
    await channel.open()
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await channel.close()

asyncio.run(main())
"""
"""Prints the length of each message and sends it back."""


@contextmanager
def child(folder: Path) -> Generator["subprocess.Popen[str]"]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", CHILD, str(folder)], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[LocalChannel]:
    channel = LocalChannel(folder)
    await channel.open()
    try:
        yield channel
    finally:
        await channel.close()


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@pytest.fixture
def folder(short_path: Path) -> Path:
    return short_path / "service" / "channel"


async def test_processes_exchange_messages(folder: Path):
    async with opened(folder) as channel:
        inbox = Inbox(channel, "up")
        with child(folder), child(folder):
            for _ in range(2):
                channel.publish("down", bytes(MAX_BYTES))
            await inbox.until(lambda each: len(each.messages) == 4)
            assert {*inbox.messages} == {bytes(MAX_BYTES)}
            assert inbox.gaps == 0


async def test_the_socket_of_a_killed_process_is_removed_and_the_others_go_on(folder: Path):
    async with opened(folder) as channel:
        inbox = Inbox(channel, "up")
        with child(folder) as killed:
            channel.publish("down", b"1")
            await inbox.until(lambda each: each.messages == [b"1"])
            killed.kill()
            killed.wait(WAIT_S)
            assert len(files_in(folder)) == 2
            # There is no other process, which might be the first to remove it.
            channel.publish("down", b"2")
            assert len(files_in(folder)) == 1
            assert inbox.gaps == 1  # it may have had something to send
        with child(folder):
            channel.publish("down", b"3")
            await inbox.until(lambda each: each.messages[1:] == [b"3"])


async def test_a_process_that_reads_nothing_for_long_notices_a_gap(folder: Path):
    async with opened(folder) as channel:
        inbox = Inbox(channel, "up")
        with child(folder) as slow:
            assert slow.stdout is not None
            slow.send_signal(signal.SIGSTOP)
            sent = 2 * WAITING_BYTES // MAX_BYTES
            for _ in range(sent):
                channel.publish("down", bytes(MAX_BYTES))
            slow.send_signal(signal.SIGCONT)
            lines: list[str] = []
            async with asyncio.timeout(WAIT_S):
                # The last messages are among the lost ones: nothing else is sent after them.
                while "gap" not in lines:
                    lines.append((await asyncio.to_thread(slow.stdout.readline)).strip())
            assert lines.count("gap") == 1
            received = lines.count(str(MAX_BYTES))
            assert WAITING_BYTES // MAX_BYTES <= received < sent
            await inbox.until(lambda each: len(each.messages) == received)
            channel.publish("down", b"again")
            await inbox.until(lambda each: each.messages[-1] == b"again")


async def test_a_process_that_stays_stopped_does_not_delay_closing(folder: Path):
    with child(folder) as stopped:
        async with opened(folder) as channel:
            stopped.send_signal(signal.SIGSTOP)
            for _ in range(100):
                channel.publish("down", b"x")
            await asyncio.wait_for(channel.close(), WAIT_S)


async def test_a_socket_file_that_nobody_has_open_is_removed(folder: Path):
    async with opened(folder) as channel:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stale:
            stale.bind(str(folder / "0123456789abcdef"))
        (folder / "not-a-socket").touch()
        channel.publish("topic", b"x")
        assert len(files_in(folder)) == 1


async def test_a_process_whose_socket_was_removed_makes_another_one(folder: Path):
    async with opened(folder) as channel, opened(folder) as other:
        inbox = Inbox(channel, "topic")
        for file in files_in(folder):
            file.unlink()
        for each in (channel, other):
            each.publish("topic", b"makes the socket again")
        assert inbox.gaps > 0
        other.publish("topic", b"hello")
        await inbox.until(lambda each: each.messages[-1:] == [b"hello"])


async def test_messages_that_are_no_messages_are_ignored(folder: Path):
    async with opened(folder) as channel, opened(folder) as other:
        inbox = Inbox(channel, "topic")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
            for file in files_in(folder):
                for message in (b"", b"x", bytes(17), b"\xff" * 100, b"\xff" * 17):
                    stranger.sendto(message, str(file))
        other.publish("topic", b"hello")
        await inbox.until(lambda each: each.messages == [b"hello"])


async def test_a_closed_channel_leaves_no_file_and_can_be_opened_again(folder: Path):
    channel = LocalChannel(folder)
    await channel.close()
    for _ in range(2):
        await channel.open()
        await channel.open()
        assert len(files_in(folder)) == 1
        await channel.close()
        assert files_in(folder) == []


async def test_the_folder_is_private(folder: Path):
    async with opened(folder):
        assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, folder.parent)] == [0o700, 0o700]


@pytest.mark.parametrize("which", ["folder", "parent"])
async def test_a_folder_that_others_may_enter_is_refused(folder: Path, which: str):
    async with opened(folder):  # makes both
        pass
    wrong = folder if which == "folder" else folder.parent
    wrong.chmod(0o755)
    with pytest.raises(StoreError) as raised:
        await LocalChannel(folder).open()
    assert (
        str(raised.value) == f"{wrong}: expected a folder that only this user may enter; remove it, or `chmod 700` it"
    )


async def test_a_folder_that_cannot_be_made_is_a_store_error(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"channel: cannot make a socket there: "):
        await LocalChannel(tmp_path / "file" / "service" / "channel").open()


async def test_a_path_that_is_too_long_for_a_socket_is_named_with_its_limit_and_the_setting(tmp_path: Path):
    folder = tmp_path / ("d" * 100) / "channel"
    with pytest.raises(StoreError) as raised:
        await LocalChannel(folder).open()
    assert str(raised.value) == (
        f"{folder}: cannot make a socket there: its path would have {len(str(folder)) + 17} bytes, "
        f"and at most {107 if sys.platform == 'linux' else 103} are allowed; set TMPDIR to a folder with a shorter path"
    )


def test_one_database_has_one_short_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    database = tmp_path / ("d" * 100) / "accord.db"
    found = channel_folder(database)
    assert len(str(found / "0123456789abcdef")) <= 104  # the limit of macOS; 107 on Linux
    monkeypatch.chdir(tmp_path)
    assert channel_folder(Path("d" * 100) / "accord.db") == found
    assert channel_folder(database.with_name("other.db")) != found
