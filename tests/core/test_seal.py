"""Sealing and verifying receipts: every change is found."""

import copy
import json
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from typing import Any, cast

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from accord.core.receipt import ReceiptState, Verification, canonical, digest, seal, seal_members, verify
from accord.wire.receipt import Receipt
from tests.core.test_canonicalise import texts, values
from tests.receipts import a_body, a_chain


def test_a_hash_is_the_sha_256_of_the_canonical_form_without_it():
    receipt = seal(a_body())
    members = json.loads(receipt.to_json())
    assert members.pop("hash") == sha256(rfc8785.dumps(members)).hexdigest() == digest(members)


def test_sealing_is_deterministic():
    assert seal(a_body()) == seal(a_body())
    assert seal(seal(a_body())) == seal(a_body())


def test_a_sealed_receipt_survives_being_written_and_read():
    receipt = seal(a_body())
    again = Receipt.parse(receipt.to_json())
    assert again == receipt
    assert verify([again]).ok


@given(
    st.dictionaries(texts, values),
    st.datetimes(min_value=datetime(1980, 1, 1), timezones=st.timezones()),  # noqa: DTZ001 - Hypothesis wants it so
    st.floats(0, 1e9),
)
def test_any_receipt_survives_being_written_and_read(usage: dict[str, Any], moment: datetime, taken: float):
    receipt = seal(a_body(work=[{"usage": usage}], created_at=moment, timings={"plan_ms": taken, "total_ms": taken}))
    assert verify([json.loads(receipt.to_json())]).ok
    assert Receipt.parse(receipt.to_json()).hashed() == receipt.hashed()


@given(st.lists(values | st.fixed_dictionaries({"hash": values, "session_id": values, "previous": values})))
def test_any_value_gets_a_finding(items: list[Any]):
    assert [finding.index for finding in verify(items).findings] == list(range(len(items)))


def plain(length: int) -> list[dict[str, Any]]:
    return [json.loads(receipt.to_json()) for receipt in a_chain(length)]


def states(found: Verification) -> list[str]:
    return [str(finding.state) for finding in found.findings]


@given(st.integers(1, 12))
def test_a_chain_as_it_was_sealed_is_ok(length: int):
    found = verify(a_chain(length))
    assert found.ok
    assert len(found.findings) == length


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        members = enumerate(cast("list[Any]", value))
    else:
        return
    for name, inner in members:
        yield (*path, name)
        yield from places(inner, (*path, name))


PLACES = list(places(plain(2)[1]))


@given(st.sampled_from(PLACES), values, st.sampled_from(["set", "remove", "add"]))
def test_any_change_of_any_field_is_found(place: tuple[Any, ...], value: Any, how: str):
    receipts = plain(3)
    before = canonical(receipts[1])
    parent: Any = receipts[1]
    for part in place[:-1]:
        parent = parent[part]
    if how == "set":
        parent[place[-1]] = value
    elif how == "remove":
        del parent[place[-1]]
    else:
        receipts[1]["added"] = value
    assert verify(receipts).ok is (canonical(receipts[1]) == before)


@given(st.permutations(range(5)))
def test_any_other_order_is_found(order: list[int]):
    receipts = plain(5)
    assert verify([receipts[index] for index in order]).ok is (order == [0, 1, 2, 3, 4])


@given(st.integers(0, 3))
def test_a_removed_receipt_is_missing(index: int):
    receipts = plain(5)
    del receipts[index]
    found = verify(receipts)
    assert [(finding.index, finding.state) for finding in found.wrong] == [(index, ReceiptState.MISSING)]


@given(st.integers(0, 4), st.integers(0, 5))
def test_a_second_copy_is_found(which: int, where: int):
    receipts = plain(5)
    receipts.insert(where, copy.deepcopy(receipts[which]))
    assert not verify(receipts).ok


@given(st.integers(0, 4))
def test_an_inserted_receipt_is_found(after: int):
    receipts = plain(5)
    forged = seal(a_body(99, receipts[after]["hash"]))
    receipts.insert(after + 1, json.loads(forged.to_json()))
    # Appending a genuine receipt to the end is what a session does; only a hash kept elsewhere shows it.
    last = a_chain(5)[-1].hash
    assert not verify(receipts, last=last).ok


@given(st.integers(0, 4))
def test_a_removed_end_is_found_with_a_hash_that_was_kept(kept: int):
    receipts = a_chain(5)
    assert verify(receipts, last=receipts[-1].hash).ok
    assert verify(receipts[:kept]).ok is (kept > 0)
    found = verify(receipts[:kept], last=receipts[-1].hash)
    assert states(found)[-1] == "missing"
    reason = f"the receipts should end with {receipts[-1].hash[:12]}…: later ones were removed, or all were replaced"
    assert found.findings[-1].reason == reason


def rewritten(receipt: dict[str, Any]) -> dict[str, Any]:
    members = {name: value for name, value in receipt.items() if name != "hash"} | {"request_id": "forged"}
    return members | {"hash": digest(members)}


R = plain(4)
SHORT = [f"{receipt['hash'][:12]}…" for receipt in R]
FORK = json.loads(seal(a_body(7, R[0]["hash"])).to_json())
FRESH = json.loads(seal(a_body(8)).to_json())

CASES: list[tuple[list[Any], list[tuple[int, str, str]]]] = [
    ([], []),
    (R, []),
    ([7], [(0, "altered", "it is not an object")]),
    ([{}], [(0, "altered", "it has no hash or no session_id")]),
    ([R[0] | {"version": 2}], [(0, "altered", "its content does not match its hash")]),
    ([R[0] | {"extra": "\ud800"}], [(0, "altered", "its content does not match its hash")]),
    ([R[0], R[0]], [(1, "out of order", "it is a second copy of receipt 1")]),
    (R[1:], [(0, "missing", f"the receipt before it, {SHORT[0]}, is missing: removed or rewritten")]),
    (
        [rewritten(R[0]), *R[1:]],
        [(1, "missing", f"the receipt before it, {SHORT[0]}, is missing: removed or rewritten")],
    ),
    ([R[0], FRESH], [(1, "broken link", f"it begins a chain, and follows {SHORT[0]} of the same session")]),
    ([R[0], R[1], FORK], [(2, "broken link", f"it follows {SHORT[0]}, as receipt 2 does already")]),
    (
        [R[1], R[0]],
        [
            (0, "out of order", f"it belongs right after {SHORT[0]}"),
            (1, "broken link", f"it begins a chain, and follows {SHORT[1]} of the same session"),
        ],
    ),
]


@pytest.mark.parametrize(("receipts", "wrong"), CASES)
def test_each_finding_has_its_reason(receipts: list[Any], wrong: list[tuple[int, str, str]]):
    found = verify(receipts)
    assert [(finding.index, str(finding.state), finding.reason) for finding in found.wrong] == wrong
    assert found.ok is (not wrong and bool(receipts))


def test_each_session_is_compared_with_its_own_end():
    first, second = a_chain(2), a_chain(3, session_id="s2")
    ends = {"s1": first[-1].hash, "s2": second[-1].hash}
    assert verify([*first, *second], ends=ends).ok
    found = verify([*first, *second[:2]], ends=ends)
    reason = f"the store's last receipt of this session is {second[-1].hash[:12]}…: the end is missing or rewritten"
    assert [(each.index, str(each.state), each.session_id, each.reason) for each in found.wrong] == [
        (4, "missing", "s2", reason)
    ]
    assert verify(second, ends=ends).wrong[0].session_id == "s1"


def test_a_signature_covers_the_hash_and_is_not_covered_by_it():
    members = a_body().hashed()
    signed: list[bytes] = []
    sealed = seal_members(members, lambda data: signed.append(data) or "S")
    assert sealed.hash == seal_members(members).hash
    assert signed == [f"accord receipt {sealed.hash}".encode()]
    assert Receipt.parse(sealed.json).signature == "S"
    assert Receipt.parse(sealed.json).hashed() == members
    receipt = json.loads(sealed.json)
    assert verify([receipt]).ok
    assert verify([receipt], verify_signature=lambda data, signature: (data, signature) == (signed[0], "S")).ok
    assert states(verify([receipt], verify_signature=lambda _, __: False)) == ["forged"]
    assert states(verify([{**receipt, "signature": None}], verify_signature=lambda _, __: True)) == ["unsigned"]


def test_sessions_are_chains_of_their_own():
    mixed = [receipt for pair in zip(a_chain(3), a_chain(3, session_id="s2"), strict=True) for receipt in pair]
    assert verify(mixed).ok


def test_a_verification_returns_the_last_hash():
    chain = a_chain(3)
    assert verify(chain).last == chain[-1].hash
    assert verify([]).last is None
