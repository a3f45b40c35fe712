"""`accord tokens`: a token is printed once, listed without its secret, revoked by its id."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from accord.assembly.store import run_with_store
from accord.config import load_config
from accord.wire.session import TokenRecord, looks_like_token, token_digest
from tests.cli.test_app import Done, accord


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "accord.toml"
    path.write_text('[store]\npath = "accord.db"\n')
    return path


def tokens(config: Path, *arguments: str) -> Done:
    return accord("tokens", *arguments, "--config", str(config))


def listed(config: Path) -> list[dict[str, object]]:
    return json.loads(tokens(config, "list", "--json").stdout)


def test_standard_output_has_the_token_alone(config: Path):
    done = tokens(config, "add", "ada", "--label", "laptop")
    token = done.stdout.removesuffix("\n")
    assert done.returncode == 0
    assert looks_like_token(token)
    assert "of ada, valid until it is revoked" in done.stderr
    assert token not in done.stderr


def test_no_secret_is_in_the_store_or_in_a_list(config: Path):
    token = tokens(config, "add", "ada").stdout.strip()
    kept = b"".join(path.read_bytes() for path in config.parent.glob("accord.db*"))
    assert token_digest(token).encode() in kept
    assert token.encode() not in kept
    for arguments in (["list"], ["list", "--json"]):
        output = tokens(config, *arguments).stdout
        assert token not in output
        assert token_digest(token) not in output


def test_the_list_has_users_and_expiry(config: Path):
    tokens(config, "add", "ada", "--label", "laptop", "--days", "7")
    tokens(config, "add", "eve")
    first, second = listed(config)
    assert (first["user"], first["label"], first["expired"]) == ("ada", "laptop", False)
    assert str(first["expires_at"]) > str(first["created_at"])
    assert "expires_at" not in second
    table = tokens(config, "list").stdout
    for text in ("ada", "laptop", str(first["token_id"]), "eve", "never", "2 tokens"):
        assert text in table


def test_an_expired_token_is_listed_as_such(config: Path):
    made = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    old = TokenRecord(token_id="old", user="ada", digest=token_digest("x"), created_at=made, expires_at=made)  # noqa: S106
    run_with_store(load_config(str(config), environ={}), lambda store: store.put_token(old), create=True)
    assert listed(config)[0]["expired"] is True
    assert "expired 2026-01-31" in tokens(config, "list").stdout


def test_revoking_the_last_token_says_how_to_go_on(config: Path):
    token_id = (tokens(config, "add", "ada"), listed(config))[1][0]["token_id"]
    revoked = tokens(config, "revoke", str(token_id))
    assert revoked.stdout == f"Revoked {token_id}\n"
    assert "accord tokens open" in revoked.stderr
    assert tokens(config, "list").stdout == "No tokens yet; `accord tokens add USER` makes one\n"


def test_revoking_an_unknown_token_gives_exit_status_1(config: Path):
    tokens(config, "add", "ada")
    done = tokens(config, "revoke", "nonsense")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "accord: there is no token nonsense; `accord tokens list` lists them\n"


def test_deleting_a_user_deletes_the_tokens(config: Path):
    tokens(config, "add", "ada")
    done = accord("sessions", "delete-user", "ada", "--yes", "--config", str(config))
    assert done.stdout == "Deleted 1 token\n"
    assert listed(config) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["add", ""], "accord: tokens add: expected TokenRecord: user: "),
        (["add", "ada", "--label", "x" * 201], "accord: tokens add: expected TokenRecord: label: "),
        (["add", "ada", "--days", "0"], "Invalid value for '--days'"),
        (["list", "--store", "none.db"], "none.db: there is no such file"),
        (["revoke", "t", "--store", "none.db"], "none.db: there is no such file"),
    ],
)
def test_a_mistake_makes_no_token(config: Path, arguments: list[str], sentence: str):
    done = tokens(config, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert not (config.parent / "accord.db").exists()


def test_a_memory_store_takes_no_tokens(config: Path):
    config.write_text('[store]\nkind = "memory"\n')
    done = tokens(config, "add", "ada")
    assert (done.returncode, done.stdout) == (2, "")
    assert "The store is memory" in done.stderr


def test_access_is_opened_once_no_token_is_left(config: Path):
    tokens(config, "add", "ada")
    refused = tokens(config, "open")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "there are tokens; revoke all of them first" in refused.stderr
    tokens(config, "revoke", str(listed(config)[0]["token_id"]))
    assert run_with_store(load_config(str(config), environ={}), lambda store: store.requires_tokens())
    assert tokens(config, "open").returncode == 0
    assert not run_with_store(load_config(str(config), environ={}), lambda store: store.requires_tokens())
