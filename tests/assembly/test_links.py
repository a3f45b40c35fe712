"""Which channel connects the processes of a configuration."""

import logging
import os
import tempfile
from pathlib import Path

import pytest

from accord.assembly.links import open_links
from accord.config import LoadedConfig, read_config
from accord.queues.local import LocalChannel, channel_folder
from accord.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio


def load(store: str) -> LoadedConfig:
    return read_config(f"[store]\n{store}\n", environ={})


async def test_processes_on_one_sqlite_file_have_a_local_channel(tmp_path: Path):
    loaded = load(f'path = "{tmp_path}/s.db"')
    async with open_links(loaded, MemoryStore(), name="test") as links:
        assert isinstance(links.channel, LocalChannel)
        assert len(os.listdir(channel_folder(tmp_path / "s.db"))) == 1  # noqa: PTH208
    assert os.listdir(channel_folder(tmp_path / "s.db")) == []  # noqa: PTH208


async def test_a_memory_store_has_no_channel():
    async with open_links(load('kind = "memory"'), MemoryStore(), name="test") as links:
        assert links.channel is None


async def test_a_service_starts_without_a_channel_if_its_folder_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"accord-{os.getuid()}").touch()
    with caplog.at_level(logging.WARNING):
        async with open_links(load(f'path = "{tmp_path}/s.db"'), MemoryStore(), name="test") as links:
            assert links.channel is None
    assert "No messages to other processes on this store: " in caplog.text
