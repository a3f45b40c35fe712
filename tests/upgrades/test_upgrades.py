"""A store of every landed schema, opened by the service of today, holds what it held.

Each folder in `landed/` has a store as a service of its time left it, and every request with its answer. The stores of
one schema were made by `make store-fixture`; those with a second word in their name by other clients and agents.
"""

import json
import lzma
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from scripts.store_fixture import AGENT, CONFIG, LANDED, send, send_turn, served

from accord.stores.migrate import HEAD

STORES = sorted(each.name for each in LANDED.iterdir())


@dataclass(frozen=True)
class Opened:
    """A copy of a landed store, the requests that it answered, and the service that has it open."""

    folder: Path
    asked: dict[str, Any]
    address: str

    @property
    def token(self) -> str:
        return self.asked.get("token", "")

    def send(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Send a request; returns the status and the parsed answer."""
        status, _, answer = send(self.address, path, self.token, body)
        return status, json.loads(answer)

    def repeat(self, turn: dict[str, Any], **changed: Any) -> tuple[int, str]:
        """Send a turn again, or another one with its id; returns the status and the text."""
        body = turn["body"] | {"payload": {**turn["body"]["payload"], **changed}}
        status, _, text = send_turn(self.address, self.token, body, streams=turn["k"] % 2 == 1)
        return status, text

    def new_turn(self, session_id: str) -> tuple[int, str]:
        """Send a new turn in an old session."""
        context = {"session_id": session_id, "user": {"id": "ada", "name": "Ada"}}
        body = {"request_id": str(uuid4()), "context": context, "payload": {"query": "a new turn"}}
        status, _, text = send_turn(self.address, self.token, body, streams=False)
        return status, text

    def rows(self, query: str) -> list[Any]:
        """What the store has."""
        with closing(sqlite3.connect(self.folder / "accord.db")) as store:
            return store.execute(query).fetchall()


@pytest.fixture(scope="module", params=STORES)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    folder, landed = tmp_path_factory.mktemp("upgrade"), LANDED / request.param
    (folder / "accord.toml").write_text(f"{CONFIG}\n[server]\nrates = []\n")
    (folder / "echo_agent.py").write_text(AGENT)
    (folder / "accord.db").write_bytes(lzma.decompress((landed / "accord.db.xz").read_bytes()))
    asked = json.loads((landed / "asked.json").read_text())
    with served(folder) as address:
        yield Opened(folder, asked, address)


def test_the_newest_schema_has_a_store():
    assert HEAD in STORES, "the newest migration needs a store: run `make store-fixture`"


def test_each_store_has_its_schema():
    for name in STORES:
        asked = json.loads((LANDED / name / "asked.json").read_text())
        assert asked["schema"] == name[:4]


def test_the_store_is_upgraded(opened: Opened):
    assert opened.rows("SELECT version_num FROM alembic_version") == [(HEAD,)]
    assert not opened.rows("PRAGMA foreign_key_check")


def test_the_same_request_has_the_same_answer(opened: Opened):
    for turn in opened.asked["turns"]:
        assert opened.repeat(turn) == (turn["status"], turn["text"]), turn["body"]["payload"]


def test_another_request_with_the_same_id_is_refused(opened: Opened):
    for turn in opened.asked["turns"]:
        for changed in ({"query": "another"}, {"meta": {"another": 1}}, {"files": ["another"]}):
            assert opened.repeat(turn, **changed)[0] == 409, (turn["body"]["payload"], changed)


def test_absent_and_empty_fields_were_one_request_to_the_first_versions_only(opened: Opened):
    turn = next(turn for turn in opened.asked["turns"] if set(turn["body"]["payload"]) == {"query"})
    is_first = opened.asked["schema"] == "0001"
    assert opened.repeat(turn, files=[], meta={})[0] == (200 if is_first else 409)


def test_every_chain_verifies(opened: Opened):
    last = "SELECT session_id, max(request_id), count(receipt_position) FROM turns GROUP BY session_id"
    for session, request_id, count in opened.rows(last):
        status, found = opened.send(f"/v1/requests/{request_id}/receipt/verification")
        assert (status, found["ok"], found["count"]) == (200, True, count), (session, found)


def test_stored_responses_continue(opened: Opened):
    for each in opened.asked["stored"]:
        status, response = opened.send(f"/v1/responses/{each['id']}")
        assert (status, response["output"][0]["content"][0]["text"]) == (200, each["text"])
        body = {"model": "echo", "input": "go on", "previous_response_id": each["id"]}
        status, response = opened.send("/v1/responses", body)
        assert (status, response["previous_response_id"]) == (200, each["id"])


def test_old_sessions_take_new_turns(opened: Opened):
    sessions = {turn["body"]["context"]["session_id"] for turn in opened.asked["turns"]}
    for session in sessions:
        status, text = opened.new_turn(session)
        assert status == 200
        assert "a new turn" in text


def test_keys_and_usage_stay(opened: Opened):
    if not opened.token:
        return
    status, *_ = send(opened.address, "/v1/models", "accord_" + "x" * 43)
    assert status == 401
    assert opened.send("/v1/models")[0] == 200
    requests = sum(row["requests"] for row in opened.asked.get("usage", []))
    assert opened.rows("SELECT coalesce(sum(requests), 0) FROM model_usage")[0][0] >= requests
