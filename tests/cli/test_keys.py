"""`accord keys`: rules are given, shown and changed; usage is added up and printed in three forms."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from accord.assembly.store import run_with_store
from accord.config import load_config
from accord.wire.keys import UsageRecord
from accord.wire.session import TokenRecord, looks_like_token, token_digest
from tests.cli.test_app import Done, accord

TODAY = datetime.now(UTC).date()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "accord.toml"
    path.write_text('[store]\npath = "accord.db"\n')
    return path


def keys(config: Path, *arguments: str) -> Done:
    return accord("keys", *arguments, "--config", str(config))


def listed(config: Path) -> list[dict[str, Any]]:
    return json.loads(keys(config, "list", "--json").stdout)


def add(config: Path, *arguments: str) -> str:
    """Make a key; returns its id."""
    done = keys(config, "add", *arguments)
    assert done.returncode == 0, done.stderr
    return listed(config)[-1]["key_id"]


def use(config: Path, *rows: UsageRecord) -> None:
    run_with_store(load_config(str(config), environ={}), lambda store: store.add_usage(rows))


def test_a_key_is_printed_once_and_has_the_rules_that_were_given(config: Path):
    done = keys(
        config, "add", "ada", "--models", "gpt-*, auto", "--rate", "10/second,200/minute", "--budget", "20/month",
        "--policy", "strict", "--admin", "--label", "laptop", "--days", "7",
    )  # fmt: skip
    token = done.stdout.removesuffix("\n")
    assert looks_like_token(token)
    assert "Send it as `Authorization: Bearer <key>` or `x-api-key: <key>`" in done.stderr
    (key,) = listed(config)
    assert f"This is key {key['key_id']} of ada" in done.stderr
    assert key["rules"] == {
        "models": ["gpt-*", "auto"],
        "rates": ["10/second", "200/minute"],
        "budget_usd": 20.0,
        "budget_period": "month",
        "policy": "strict",
        "is_admin": True,
    }
    assert (key["user"], key["label"], key["expired"], key["spent_usd"]) == ("ada", "laptop", False, 0.0)
    assert key["renews_at"].endswith("01T00:00:00Z")
    for output in (done.stderr, keys(config, "list").stdout, keys(config, "show", key["key_id"]).stdout):
        assert token not in output
        assert token_digest(token) not in output


def test_a_token_without_rules_that_an_earlier_version_stored_is_a_key(config: Path):
    made = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    old = TokenRecord(token_id="old", user="ada", digest=token_digest("x"), created_at=made, expires_at=made)  # noqa: S106
    run_with_store(load_config(str(config), environ={}), lambda store: store.put_token(old), create=True)
    (key,) = listed(config)
    assert (key["key_id"], key["user"], key["expired"], "rules" in key) == ("old", "ada", True, False)
    assert "expired 2026-01-31" in keys(config, "list").stdout
    assert keys(config, "set", "old", "--budget", "5/day").stdout == "old may use 5 USD per day\n"
    assert keys(config, "revoke", "old").stdout == "Revoked old\n"


def test_no_secret_is_in_the_store_or_in_a_list(config: Path):
    secret = keys(config, "add", "ada").stdout.strip()
    kept = b"".join(path.read_bytes() for path in config.parent.glob("accord.db*"))
    assert token_digest(secret).encode() in kept
    assert secret.encode() not in kept
    for arguments in (["list"], ["list", "--json"]):
        output = keys(config, *arguments).stdout
        assert secret not in output
        assert token_digest(secret) not in output


def test_a_key_is_listed_with_its_expiry(config: Path):
    assert ", valid until 20" in keys(config, "add", "ada", "--days", "7").stderr
    assert "of eve, valid until it is revoked" in keys(config, "add", "eve").stderr
    first, second = listed(config)
    assert str(first["expires_at"]) > str(first["created_at"])
    assert "expires_at" not in second
    assert "never" in keys(config, "list").stdout


def test_deleting_a_user_deletes_the_keys(config: Path):
    add(config, "ada")
    done = accord("sessions", "delete-user", "ada", "--yes", "--config", str(config))
    assert done.stdout == "Deleted 1 key\n"
    assert listed(config) == []


def test_a_memory_store_takes_no_keys(config: Path):
    config.write_text('[store]\nkind = "memory"\n')
    done = keys(config, "add", "ada")
    assert (done.returncode, done.stdout) == (2, "")
    assert "The store is memory" in done.stderr


def test_access_is_opened_once_no_key_is_left(config: Path):
    key_id = add(config, "ada")
    refused = keys(config, "open")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "there are keys; revoke all of them first" in refused.stderr
    keys(config, "revoke", key_id)
    assert run_with_store(load_config(str(config), environ={}), lambda store: store.requires_tokens())
    assert keys(config, "open").returncode == 0
    assert not run_with_store(load_config(str(config), environ={}), lambda store: store.requires_tokens())


@pytest.mark.parametrize("arguments", [["list"], ["revoke", "t"], ["usage"]])
def test_a_store_that_is_not_there_is_named(config: Path, arguments: list[str]):
    done = keys(config, *arguments, "--store", "none.db")
    assert (done.returncode, done.stdout) == (2, "")
    assert "none.db: there is no such file" in done.stderr


def test_the_list_says_what_a_key_may_use_and_has_spent(config: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")  # the table's rows are not broken then
    key_id = add(config, "ada", "--models", "gpt-*", "--budget", "5/day")
    add(config, "eve")
    use(config, UsageRecord(key_id=key_id, user="ada", backend="b", model="m", day=TODAY, cost_micro=1_500_000))
    table = keys(config, "list").stdout
    for text in (key_id, "models gpt-*, 5 USD per day", "1.5000 USD of 5", "everything", "0.0000 USD", "2 keys"):
        assert text in table


def test_one_key_is_shown_with_its_usage_by_model(config: Path):
    key_id = add(config, "ada", "--budget", "5/day")
    row = UsageRecord(key_id=key_id, user="ada", backend="b", model="gpt-4o", day=TODAY, input_tokens=1234, priced=1)
    use(config, row, row, UsageRecord(key_id="other", backend="b", model="claude", day=TODAY))
    page = keys(config, "show", key_id).stdout
    for text in (key_id, "5 USD per day", "budget starts again", "gpt-4o", "2,468"):
        assert text in page
    assert "claude" not in page
    shown = json.loads(keys(config, "show", key_id, "--json").stdout)
    assert [(total["name"], total["requests"]) for total in shown["usage"]] == [("gpt-4o", 2)]


@pytest.mark.parametrize(
    ("arguments", "rules"),
    [
        (["--budget", "7"], {"models": ["a"], "budget_usd": 7.0, "budget_period": "total", "is_admin": False}),
        (["--budget", "none"], {"models": ["a"], "budget_period": "total", "is_admin": False}),
        (["--models", "none"], {"budget_usd": 5.0, "budget_period": "day", "is_admin": False}),
        (
            ["--models", "b,c*", "--admin", "--rate", "1/minute"],
            {"models": ["b", "c*"], "rates": ["1/minute"], "budget_usd": 5.0, "budget_period": "day", "is_admin": True},
        ),
    ],
)
def test_the_rules_that_are_named_change_and_the_others_stay(config: Path, arguments: list[str], rules: dict[str, Any]):
    key_id = add(config, "ada", "--models", "a", "--budget", "5/day")
    done = keys(config, "set", key_id, *arguments)
    assert done.returncode == 0
    assert done.stdout.startswith(f"{key_id} may use ")
    assert listed(config)[0]["rules"] == rules


def test_revoking_a_key_keeps_its_usage(config: Path):
    key_id = add(config, "ada")
    use(config, UsageRecord(key_id=key_id, user="ada", backend="b", model="m", day=TODAY))
    revoked = keys(config, "revoke", key_id)
    assert revoked.stdout == f"Revoked {key_id}\n"
    assert "accord keys open" in revoked.stderr
    assert listed(config) == []
    assert key_id in keys(config, "usage").stdout


def test_usage_is_printed_as_a_table_as_json_and_as_csv(config: Path):
    add(config, "ada")
    days = [datetime(2026, 11, day, tzinfo=UTC).date() for day in (1, 2, 3)]
    rows = [
        UsageRecord(key_id="k", user="ada", backend="b", model=f"m{place}", day=day, input_tokens=10, cost_micro=2500, priced=1)
        for place, day in enumerate(days)
    ]  # fmt: skip
    use(config, *rows)
    found = json.loads(keys(config, "usage", "--by", "day", "--since", "2026-11-02", "--json").stdout)
    assert [(total["name"], total["cost_usd"]) for total in found] == [("2026-11-02", 0.0025), ("2026-11-03", 0.0025)]
    table = keys(config, "usage", "--by", "model", "--until", "2026-11-02").stdout
    assert "m1" in table
    assert "m2" not in table
    assert "0.0025" in table
    done = keys(config, "usage", "--by", "user", "--key", "k", "--csv")
    assert list(csv.reader(done.stdout.splitlines())) == [
        ["user", "requests", "failed", "input_tokens", "cached_input_tokens", "output_tokens", "cost_usd", "priced_requests", "estimated_requests"],
        ["ada", "3", "0", "30", "0", "0", "0.0075", "3", "0"],
    ]  # fmt: skip
    assert keys(config, "usage", "--key", "unknown").stdout == "No usage yet\n"


def test_no_cell_of_csv_is_a_formula(config: Path):
    add(config, "ada")
    models = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "gpt=4"]
    use(config, *(UsageRecord(key_id="k", user="ada", backend="b", model=model, day=TODAY) for model in models))
    rows = list(csv.reader(keys(config, "usage", "--by", "model", "--csv").stdout.splitlines()))
    assert {row[0] for row in rows[1:]} == {"'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\t=1", "gpt=4"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["add", "ada", "--budget", "5/week"], "--budget 5/week: expected an amount in USD and a period: 5/day"),
        (["add", "ada", "--budget", "much"], "--budget much: expected an amount"),
        (["add", "ada", "--budget", "-5"], "keys add: expected KeyRules: budget_usd: "),
        (["add", "ada", "--budget", "nan"], "keys add: expected KeyRules: budget_usd: "),
        (["add", "ada", "--rate", "often"], "keys add: expected KeyRules: rates.0: "),
        (["add", "ada", "--models", "a b"], "keys add: expected KeyRules: models.0: "),
        (["add", "ada", "--policy", "loose"], "keys add: expected KeyRules: policy: "),
        (["add", ""], "keys add: expected KeyRequest: user: "),
        (["add", "ada", "--label", "x" * 201], "keys add: expected KeyRequest: label: "),
        (["add", "ada", "--days", "0"], "Invalid value for '--days'"),
        (["set", "k"], "keys set: nothing to change; give --models"),
        (["usage", "--since", "yesterday"], "--since yesterday: expected a day such as 2026-11-01"),
        (["usage", "--by", "week"], "Invalid value for '--by'"),
    ],
)
def test_a_mistake_is_named_and_changes_nothing(config: Path, arguments: list[str], sentence: str):
    done = keys(config, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert not (config.parent / "accord.db").exists()


@pytest.mark.parametrize("arguments", [["show", "k"], ["set", "k", "--budget", "1"], ["revoke", "k"]])
def test_an_unknown_key_gives_exit_status_1(config: Path, arguments: list[str]):
    add(config, "ada")
    done = keys(config, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "accord: there is no key k; `accord keys list` lists them\n"
