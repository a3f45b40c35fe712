"""The SQLite file: in the user's state folder, closed to others, the same for every command."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_app import accord


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Make new files readable by everyone unless a command sets their mode."""
    before = os.umask(0)
    yield
    os.umask(before)


def state() -> Path:
    return Path(os.environ["ACCORD_STATE_DIR"])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_without_a_setting_it_is_in_the_state_folder_and_closed_to_others(folder: Path):
    assert accord("keys", "add", "ada").returncode == 0
    assert list(folder.iterdir()) == []
    assert mode(state()) == 0o700
    assert mode(state() / "accord.db") == 0o600
    assert "1 key\n" in accord("keys", "list").stdout


def test_the_state_folder_of_the_platform_is_used_unless_a_variable_names_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("ACCORD_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    accord("keys", "add", "ada")
    assert mode(folder / "state" / "accord" / "accord.db") == 0o600


def test_the_log_of_a_running_store_is_closed_to_others_too(folder: Path):
    accord("keys", "add", "ada", "--store", "mine.db")
    with sqlite3.connect(folder / "mine.db") as connection:
        connection.execute("pragma journal_mode=wal")
        connection.execute("create table more (x)")
        connection.commit()
        assert {mode(path) for path in folder.glob("mine.db*")} == {0o600}
    connection.close()


@pytest.mark.parametrize(
    "arguments", [["keys", "list"], ["sessions", "list", "ada"], ["sessions", "delete-user", "ada", "--yes"]]
)
@pytest.mark.usefixtures("folder")
def test_every_command_uses_the_named_file(arguments: list[str]):
    accord("keys", "add", "ada", "--store", "mine.db")
    assert accord(*arguments, "--store", "mine.db").returncode == 0
    assert not state().exists()
    assert "other.db: there is no such file" in accord(*arguments, "--store", "other.db").stderr


def test_a_named_file_is_relative_to_the_working_directory_and_overrides_the_configuration(folder: Path):
    (folder / "sub").mkdir()
    (folder / "sub" / "a.toml").write_text('[store]\nkind = "postgres"\nurl_env = "NOWHERE"\n')
    assert accord("keys", "add", "ada", "--config", "sub/a.toml", "--store", "mine.db").returncode == 0
    assert mode(folder / "mine.db") == 0o600


@pytest.mark.usefixtures("folder")
def test_the_file_of_an_earlier_version_is_mentioned():
    accord("keys", "add", "ada", "--store", "accord.db")
    done = accord("keys", "add", "eve")
    assert done.stderr.startswith(
        f"accord: sessions are kept in {state() / 'accord.db'} now, and accord.db is not used;"
    )
    assert "--store accord.db uses it" in done.stderr.splitlines()[0]
    assert "ada" in accord("keys", "list", "--store", "accord.db").stdout


@pytest.mark.usefixtures("folder")
def test_the_default_file_is_made_private():
    accord("keys", "add", "ada")
    (state() / "accord.db").chmod(0o644)
    state().chmod(0o755)
    assert accord("keys", "add", "eve").returncode == 0
    assert (mode(state() / "accord.db"), mode(state())) == (0o600, 0o700)


def test_a_configured_file_that_others_can_read_is_reported_and_left(folder: Path):
    accord("keys", "add", "ada", "--store", "mine.db")
    (folder / "mine.db").chmod(0o640)
    done = accord("keys", "list", "--store", "mine.db")
    assert done.returncode == 0
    assert "mine.db can be read by other users of this machine; `chmod 600" in done.stderr
    assert mode(folder / "mine.db") == 0o640
