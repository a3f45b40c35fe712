"""`accord sessions`, and the parts that are built from a configuration."""

import asyncio
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from accord.assembly.parts import KINDS, build_engine
from accord.assembly.store import make_store
from accord.cli.configuration import load_if_trusted
from accord.config import load_config
from accord.errors import UsageError
from accord.run import Sessions
from tests.cli.on_terminal import run_on_terminal
from tests.cli.test_app import accord
from tests.run.test_sessions import request

FILE = """
default_agent = "relay"

[[backends]]
name = "local"
kind = "scripted"
manifest = "declared"
overrides = { streaming = "native" }
options = { script = ["Hello ", "there."] }

[store]
path = "accord.db"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "accord.toml"
    path.write_text(FILE)
    return path


def run_one(config: Path) -> list[dict[str, Any]]:
    async def run() -> list[dict[str, Any]]:
        loaded = load_config(str(config), environ={})
        store = make_store(loaded)
        await store.open()
        try:
            turn = await Sessions(build_engine(loaded), store).begin(request())
            return [json.loads(kept.body) async for batch in turn.read() for kept in batch.packets]
        finally:
            await store.close()

    return asyncio.run(asyncio.wait_for(run(), 30))


def test_a_configuration_runs_a_turn(config: Path):
    assert [packet.get("p") for packet in run_one(config)] == ["Hello ", "there.", None]
    assert (config.parent / "accord.db").is_file()


@pytest.mark.parametrize(
    ("agent", "backends"),
    [(None, ["demo-text", "demo-vision"]), ("demo", ["demo-text", "demo-vision"]), ("relay", ["echo"])],
)
def test_without_a_file_the_demo_has_its_own_backends_and_any_other_agent_an_echo(
    agent: str | None, backends: list[str]
):
    engine = build_engine(load_config(None, environ={}), agent=agent)
    assert engine.agent.name == (agent or "demo")
    assert list(engine.dispatcher.backends) == backends


def test_with_a_backend_the_demo_runs_on_that(config: Path):
    engine = build_engine(load_config(str(config), environ={}), agent="demo")
    assert list(engine.dispatcher.backends) == ["local"]


def test_sessions_can_be_listed_verified_and_deleted(config: Path):
    run_one(config)
    flags = ("--config", str(config))
    assert "1 session\n" in accord("sessions", "list", "u", *flags).stdout
    receipts = accord("sessions", "receipts", "s", *flags).stdout
    (config.parent / "r.jsonl").write_text(receipts)
    assert accord("receipts", "verify", str(config.parent / "r.jsonl")).returncode == 0
    assert accord("sessions", "expire", "--days", "1", *flags).stdout == "Deleted nothing\n"
    assert (
        "1 session, 1 turn, 3 packets, 2 messages, 1 receipt"
        in accord("sessions", "delete-user", "u", "--yes", *flags).stdout
    )
    assert accord("sessions", "list", "u", *flags).stdout == "No sessions of u yet\n"
    gone = accord("sessions", "receipts", "s", *flags)
    assert (gone.returncode, gone.stdout) == (0, "")
    assert "No receipts of session s yet" in gone.stderr


def test_nothing_is_deleted_without_an_answer(config: Path, monkeypatch: pytest.MonkeyPatch):
    run_one(config)
    flags = ("--config", str(config))
    monkeypatch.setattr("sys.stdin", StringIO(""))
    done = accord("sessions", "delete-user", "u", *flags)
    assert (done.returncode, done.stdout.strip()) == (1, "")
    assert done.stderr.endswith("accord: nothing was deleted; --yes deletes without asking\n")
    assert "1 session\n" in accord("sessions", "list", "u", *flags).stdout


def test_expire_needs_an_age(config: Path):
    done = accord("sessions", "expire", "--config", str(config))
    assert done.returncode == 2
    assert "The age is missing" in done.stderr


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            ("scripted", "telepathy"),
            f"backends.local: kind should be one of {', '.join(sorted(KINDS))}",
        ),
        (('["Hello ", "there."]', '"Hello"'), "backends.local: options.script should be a list of strings"),
        (('manifest = "declared"', 'manifest = "m.json"'), "m.json: No such file or directory"),
        (('manifest = "declared"', 'model = "gpt-4oo"'), "backends.local: no facts about a model named 'gpt-4oo'"),
    ],
)
def test_a_part_that_cannot_be_built_gives_one_sentence(config: Path, change: tuple[str, str], sentence: str):
    config.write_text(FILE.replace(*change))
    with pytest.raises(UsageError) as caught:
        build_engine(load_config(str(config), environ={}))
    assert sentence in str(caught.value)


def test_a_postgres_store_needs_its_address(config: Path):
    config.write_text('[store]\nkind = "postgres"\n')
    with pytest.raises(UsageError, match="The store is postgres: set ACCORD_STORE_URL to its address"):
        make_store(load_config(str(config), environ={}))


def test_a_deletion_shows_its_progress_on_a_terminal_and_removes_it(config: Path):
    run_one(config)
    screen = run_on_terminal("sessions", "delete-user", "u", "--yes", "--config", str(config), cwd=config.parent)
    assert screen.status == 0
    first, *_, last = screen.received.split("\r\x1b[K")
    assert "so far" in screen.received
    assert (first, last) == ("", "Deleted 1 session, 1 turn, 3 packets, 2 messages, 1 receipt\r\n")


@pytest.mark.parametrize(("given", "kind"), [("memory", "memory"), ("./memory", "sqlite"), ("a.db", "sqlite")])
def test_a_store_is_memory_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, kind: str):
    monkeypatch.chdir(tmp_path)
    loaded = load_if_trusted(None, store=given)
    assert loaded.config.store.kind == kind
    if kind == "sqlite":
        assert loaded.config.store.path == str((tmp_path / given).absolute())
