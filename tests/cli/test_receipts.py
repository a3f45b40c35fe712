"""`accord receipts`, as a user runs it."""

import asyncio
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from accord.agents import relay
from accord.backends.scripted import ScriptedBackend
from accord.core.receipt import seal
from accord.errors import ErrorCode
from accord.run import Dispatcher, Engine, Sessions
from accord.run.record import record_candidates
from accord.stores.memory import MemoryStore
from accord.wire.emulation import EmulationRecord
from accord.wire.plan import Offer, Refusal
from accord.wire.receipt import Fallback, Outcome, OutcomeStatus, Work
from tests.cli.test_app import accord
from tests.receipts import a_body, a_chain
from tests.run.playing import asking

CHAIN = a_chain(3)
LINES = "".join(receipt.to_json() + "\n" for receipt in CHAIN)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    records = [receipt.dump() for receipt in CHAIN]
    (tmp_path / "lines.jsonl").write_text(LINES)
    (tmp_path / "array.json").write_text(json.dumps(records, indent=2))
    (tmp_path / "altered.jsonl").write_text(LINES.replace('"r1"', '"r9"'))
    (tmp_path / "cut.jsonl").write_text("".join(LINES.splitlines(keepends=True)[1:]))
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "broken.jsonl").write_text(LINES + '{"a":')
    (tmp_path / "twice.jsonl").write_text('{"a": 1, "a": 2}')
    (tmp_path / "nan.jsonl").write_text('{"a": NaN}')
    (tmp_path / "deep.jsonl").write_text("[" * 100_000)
    (tmp_path / "other.jsonl").write_text('{"hash": "x"}')
    return tmp_path


def test_a_single_receipt_may_span_several_lines(tmp_path: Path):
    (tmp_path / "one.json").write_text(json.dumps(CHAIN[0].dump(), indent=2))
    assert accord("receipts", "verify", str(tmp_path / "one.json")).returncode == 0


@pytest.mark.parametrize("name", ["lines.jsonl", "array.json"])
def test_a_complete_chain_is_in_order(folder: Path, name: str):
    done = accord("receipts", "verify", str(folder / name))
    assert done.returncode == 0, done.stderr
    assert f"3 receipts, all in order, ending with {CHAIN[-1].hash}" in done.stdout.replace("\n", " ").replace(
        "  ", " "
    )


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", StringIO(LINES))
    assert accord("receipts", "verify", "-").returncode == 0


WRONG: list[tuple[str, list[str], str]] = [
    ("altered.jsonl", [], "2 ok, 1 altered"),
    ("cut.jsonl", [], "1 ok, 1 missing"),
    ("lines.jsonl", ["--last", "f" * 64], "3 ok, 1 missing"),
    ("empty.jsonl", ["--last", "f" * 64], "1 missing"),
]


@pytest.mark.parametrize(("name", "flags", "summary"), WRONG)
def test_invalid_receipts_give_exit_status_1(folder: Path, name: str, flags: list[str], summary: str):
    done = accord("receipts", "verify", str(folder / name), *flags)
    assert done.returncode == 1
    assert done.stdout.endswith(f"{summary}\n")


def test_a_file_without_receipts_gives_exit_status_3(folder: Path):
    done = accord("receipts", "verify", str(folder / "empty.jsonl"))
    assert (done.returncode, done.stdout) == (
        3,
        "No receipts, so nothing was verified; `accord sessions receipts SESSION` prints those of a session\n",
    )
    result = json.loads(accord("receipts", "verify", str(folder / "empty.jsonl"), "--json").stdout)
    assert (result["ok"], result["count"]) == (False, 0)


def test_findings_are_printed_as_json(folder: Path):
    done = accord("receipts", "verify", "--json", str(folder / "altered.jsonl"))
    result: Any = json.loads(done.stdout)
    assert done.returncode == 1
    assert result["ok"] is False
    assert result["last"] == CHAIN[-1].hash
    assert [finding["state"] for finding in result["findings"]] == ["ok", "altered", "ok"]
    assert result["findings"][1]["number"] == 2


MISTAKES = [
    (["verify", "{}/none.jsonl"], "none.jsonl: No such file"),
    (["verify", "{}/broken.jsonl"], "broken.jsonl:4: expected JSON: "),
    (["verify", "{}/twice.jsonl"], "twice.jsonl:1: expected JSON: an object has the same name twice"),
    (["verify", "{}/nan.jsonl"], "nan.jsonl:1: expected JSON: NaN is not a JSON number"),
    (["verify", "{}/deep.jsonl"], "deep.jsonl: expected JSON: nested too deeply"),
    (["show", "{}/lines.jsonl", "4"], "lines.jsonl: there is no receipt 4; the file has 3 receipts"),
    (["show", "{}/other.jsonl"], "other.jsonl: receipt 1: expected Receipt: request_id: Field required"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_gives_one_line_that_names_the_place(folder: Path, arguments: list[str], message: str):
    done = accord("receipts", *(argument.replace("{}", str(folder)) for argument in arguments))
    assert done.returncode == 2
    assert done.stderr.startswith("accord: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_one_receipt_is_printed(folder: Path):
    first = accord("receipts", "show", str(folder / "lines.jsonl"), "1").stdout
    last = accord("receipts", "show", str(folder / "lines.jsonl")).stdout
    assert CHAIN[0].hash in first
    assert "none: the first of its session" in first
    assert CHAIN[2].hash in last
    assert CHAIN[1].hash in last
    assert "local (m)" in last
    assert "intact" in last


def test_permissions_are_shown_with_their_answers(tmp_path: Path):
    option = {"id": "yes", "name": "Yes", "kind": "allow_once"}
    record = {"title": "Delete build/", "options": [option], "waited_ms": 2.5}
    answers = [{"status": "allowed", "chosen": "yes"}, {"status": "nobody", "why": "This client cannot be asked"}]
    receipt = seal(a_body(permissions=[record | answer for answer in answers]))
    (tmp_path / "r.jsonl").write_text(receipt.to_json())
    text = " ".join(accord("receipts", "show", str(tmp_path / "r.jsonl")).stdout.split())
    assert "Delete build/: allowed, chose yes, after 2.5 ms; offered yes (allow_once)" in text
    assert "Delete build/: nobody, This client cannot be asked, after 2.5 ms" in text
    assert "intact" in text


def test_the_receipt_of_a_real_turn_is_shown_in_full(tmp_path: Path):
    async def run() -> str:
        store = MemoryStore()
        await store.open()
        made = Sessions(
            Engine(relay, Dispatcher([ScriptedBackend("local", [["Hi."]], {"streaming": "native"})])), store
        )
        await made.collect(await made.begin(asking("hello")))
        stored = await store.receipt(str(asking("hello").request_id))
        assert stored is not None
        return stored.body

    (tmp_path / "r.jsonl").write_text(asyncio.run(run()))
    text = accord("receipts", "show", str(tmp_path / "r.jsonl")).stdout
    assert all(title in text for title in ("intact", "Work order 1", "Candidates", "Negotiation", "Adaptation"))


def test_an_altered_receipt_has_a_broken_seal(folder: Path):
    done = accord("receipts", "show", str(folder / "altered.jsonl"), "2")
    assert "broken: the content does not have this hash" in done.stdout


def test_a_refused_turn_is_shown_with_its_reasons(tmp_path: Path):
    offer = Offer.model_validate(
        {"backend": "local", "negotiation": {}, "missing": [{"capability": "vision", "reason": "[bold]not declared"}]}
    )
    refusal = Refusal(code=ErrorCode.CAPABILITY_UNSUPPORTED, message="No backend", offers=[offer])
    receipt = seal(
        a_body(
            work=[
                Work(
                    candidates=record_candidates(refusal),
                    emulations=EmulationRecord(),
                    fallbacks=[Fallback(backend="far", code=ErrorCode.TIMED_OUT)],
                )
            ],
            outcome=Outcome(status=OutcomeStatus.REFUSED, code=refusal.code, message=refusal.message),
        )
    )
    (tmp_path / "r.jsonl").write_text(receipt.to_json())
    text = accord("receipts", "show", str(tmp_path / "r.jsonl")).stdout
    assert "refused: CAPABILITY_UNSUPPORTED, No backend" in text
    assert "vision ([bold]not declared)" in text
    assert "far failed: timed_out" in text


def test_what_was_emulated_and_adapted_is_written_in_lines(tmp_path: Path):
    emulations = {
        "emulated": [{"capability": "json_mode", "strategy": {"type": "post_processing", "detail": "parse it"}}],
        "attempts": [{"number": 1, "ok": False, "problems": ["not JSON"]}, {"number": 2, "ok": True}],
        "effects": [{"capability": "json_mode", "kind": "text_around_json", "count": 7}],
    }
    negotiation = {"native": ["streaming"], "unsupported": ["audio_input"], "reasons": {"audio_input": "not declared"}}
    entry = {"position": 3, "id": "e", "type": "citation_block", "rung": "described", "reason": "not_declared"}
    adaptation = {"totals": {"native": 2, "described": 1}, "entries": [entry | {"lost": ["items.snippet"]}]}
    work = {"emulations": emulations, "negotiation": negotiation}
    receipt = seal(a_body(work=[work], adaptation=adaptation))
    (tmp_path / "r.jsonl").write_text(receipt.to_json())
    text = accord("receipts", "show", str(tmp_path / "r.jsonl")).stdout
    for line in (
        "native: streaming",
        "unsupported: audio_input (not declared)",
        "json_mode: post_processing (parse it)",
        "attempt 1: rejected: not JSON",
        "attempt 2: accepted",
        "effect on json_mode: text_around_json, 7",
        "3 packets: 2 native, 1 described",
    ):
        assert f"{line}\n" in text
    assert "items.snippet" in text
    assert "{" not in text
