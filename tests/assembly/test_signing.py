"""Receipts against the store that they came from and the key that signed them: cut, rewritten and forged chains."""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from accord.assembly.parts import build_engine
from accord.assembly.signing import make_signer
from accord.assembly.store import make_store
from accord.config import load_config
from accord.core.receipt import seal_members
from accord.run import Sessions
from tests.cli.test_app import Done, accord
from tests.receipts import a_chain
from tests.run.test_sessions import request

CONFIG = """\
signing_key = "key.pem"

[store]
path = "sessions.db"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a key, and a store with three signed turns of one session."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "signed.toml").write_text(CONFIG)
    assert accord("receipts", "keygen", "key.pem").returncode == 0
    asyncio.run(asyncio.wait_for(run_turns(3), 30))
    (tmp_path / "all.jsonl").write_text(accord("sessions", "receipts", "s", "--config", "signed.toml").stdout)
    return tmp_path


async def run_turns(count: int) -> None:
    loaded = load_config("signed.toml", environ={})
    store = make_store(loaded)
    await store.open()
    try:
        sessions = Sessions(build_engine(loaded), store, sign=make_signer(loaded))
        for number in range(1, count + 1):
            assert (await sessions.collect(await sessions.begin(request(number)))).output
    finally:
        await store.close()


def verify(*arguments: str) -> Done:
    return accord("receipts", "verify", *arguments)


def lines(folder: Path) -> list[str]:
    return (folder / "all.jsonl").read_text().splitlines(keepends=True)


SIGNED = ("--public-key", "key.pem.pub")
STORED = ("--config", "signed.toml")


def test_a_signed_chain_matches_its_store_and_its_key(folder: Path):
    assert len(lines(folder)) == 3
    done = verify("all.jsonl", *SIGNED, *STORED)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 receipts, all in order" in done.stdout
    result = json.loads(verify("all.jsonl", *SIGNED, *STORED, "--json").stdout)
    assert (result["ok"], result["count"], result["compared"]) == (True, 3, ["s"])


def test_keys_are_private_and_never_overwritten(folder: Path):
    assert stat.S_IMODE((folder / "key.pem").stat().st_mode) == 0o600
    assert "PRIVATE" not in (folder / "key.pem.pub").read_text()
    again = accord("receipts", "keygen", "key.pem")
    assert (again.returncode, again.stderr) == (
        2,
        "accord: key.pem: exists already; choose another name, since keys are never overwritten\n",
    )


def test_a_missing_end_is_found_by_comparing_with_the_store(folder: Path):
    (folder / "cut.jsonl").write_text("".join(lines(folder)[:2]))
    done = verify("cut.jsonl", *SIGNED, *STORED)
    assert done.returncode == 1
    assert "2 ok, 1 missing" in done.stdout
    assert verify("cut.jsonl", *SIGNED, "--offline").returncode == 0


def rewritten(folder: Path) -> str:
    """The same chain with another prompt and new hashes, as anyone without the key could write it."""
    previous, chain = None, list[str]()
    for line in lines(folder):
        members: dict[str, Any] = {**json.loads(line), "previous": previous}
        signature = members.pop("signature")
        del members["hash"]
        if previous is None:
            del members["previous"]
        members["request"]["text_chars"] = 999
        sealed = seal_members(members)
        previous = sealed.hash
        chain.append(sealed.json[:-1] + f',"signature":{json.dumps(signature)}' + "}\n")
    return "".join(chain)


def test_a_rewritten_chain_is_found_by_the_key_only(folder: Path):
    (folder / "new.jsonl").write_text(rewritten(folder))
    assert verify("new.jsonl", "--offline").returncode == 0
    done = verify("new.jsonl", "--offline", *SIGNED)
    assert done.returncode == 1
    assert "3 forged" in done.stdout
    assert verify("new.jsonl", *STORED).returncode == 1


def test_a_chain_without_signatures_is_unsigned(folder: Path):
    (folder / "bare.jsonl").write_text("".join(f"{receipt.to_json()}\n" for receipt in a_chain(2)))
    done = verify("bare.jsonl", "--offline", *SIGNED)
    assert done.returncode == 1
    assert "2 unsigned" in done.stdout
    assert verify("bare.jsonl", "--offline").returncode == 0


def test_a_signature_of_another_receipt_is_forged(folder: Path):
    first, second, third = map(json.loads, lines(folder))
    second["signature"] = first["signature"]
    (folder / "swapped.jsonl").write_text("".join(json.dumps(each) + "\n" for each in (first, second, third)))
    assert "2 ok, 1 forged" in verify("swapped.jsonl", "--offline", *SIGNED).stdout


@pytest.mark.parametrize("signature", ["", "x", "AAAA", 7, None])
def test_an_invalid_signature_is_no_signature(folder: Path, signature: Any):
    first = {**json.loads(lines(folder)[0]), "signature": signature}
    (folder / "one.jsonl").write_text(json.dumps(first))
    assert verify("one.jsonl", "--offline", *SIGNED).returncode == 1


def test_any_of_several_keys_is_enough(folder: Path):
    accord("receipts", "keygen", "other.pem")
    assert verify("all.jsonl", "--offline", "--public-key", "other.pem.pub").returncode == 1
    assert verify("all.jsonl", "--offline", "--public-key", "other.pem.pub", *SIGNED).returncode == 0
    assert (folder / "other.pem").exists()


MISTAKES = [
    (["all.jsonl", "--public-key", "none.pub"], "none.pub: No such file"),
    (["all.jsonl", "--public-key", "all.jsonl"], "all.jsonl: expected an Ed25519 key as PEM"),
    (["all.jsonl", "--public-key", "key.pem"], "key.pem: expected an Ed25519 key as PEM"),
    (["all.jsonl", "--store", "none.db"], "none.db: there is no such file"),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES)
def test_a_named_key_or_store_must_exist(arguments: list[str], sentence: str):
    done = verify(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_an_invalid_signing_key_stops_the_command(folder: Path):
    (folder / "bad.toml").write_text('signing_key = "all.jsonl"\n')
    done = accord("ask", "hello", "--config", "bad.toml")
    assert done.returncode == 2
    assert "all.jsonl: expected an Ed25519 key as PEM" in done.stderr


@pytest.mark.usefixtures("folder")
def test_without_a_store_a_note_says_that_nothing_was_compared():
    done = verify("all.jsonl")
    assert done.returncode == 0
    assert done.stderr.startswith("accord: not compared with a store: ")
    assert "there is no such file" in done.stderr


def test_a_session_that_the_store_does_not_have_is_named(folder: Path):
    (folder / "others.jsonl").write_text("".join(f"{receipt.to_json()}\n" for receipt in a_chain(2)))
    done = verify("others.jsonl", *STORED)
    assert (done.returncode, done.stderr) == (0, "accord: not compared: the store has no session s1\n")


def test_an_untrusted_configuration_is_not_opened_to_compare(folder: Path):
    (folder / "accord.toml").write_text(CONFIG)
    assert "accord.toml is not trusted" in verify("all.jsonl").stderr


def test_one_command_signs_what_another_checks(folder: Path):
    done = accord("ask", "hello", "--config", "signed.toml", "--receipt")
    receipt = done.stderr[done.stderr.index("{") :]
    (folder / "asked.json").write_text(receipt.splitlines()[0])
    assert verify("asked.json", "--offline", *SIGNED).returncode == 0
    assert json.loads(receipt.splitlines()[0])["signature"][:40] in accord("receipts", "show", "asked.json").stdout
