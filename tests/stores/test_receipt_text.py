"""Packing the text of a receipt loses nothing, and whatever is stored can be read."""

from hashlib import sha256
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from accord.core.receipt import canonical, seal_members
from accord.stores import receipt_text
from accord.stores.receipt_text import pack, unpack
from tests.receipts import a_body
from tests.run.test_chain import SIGN

texts = st.text(st.characters(exclude_categories=["Cs"]))
members = st.dictionaries(
    texts, st.recursive(texts | st.floats(allow_nan=False, allow_infinity=False) | st.none(), st.lists)
)


@given(texts)
def test_any_text_is_unpacked_as_it_was(text: str):
    assert unpack(pack(text)) == text


@given(members, st.booleans())
def test_a_receipt_with_any_members_is_unpacked_as_it_was_sealed(more: dict[str, object], is_signed: bool):
    sealed = seal_members({**a_body(1, "0" * 64).hashed(), "more": more}, SIGN if is_signed else None)
    assert unpack(pack(sealed.json)) == sealed.json


@given(members)
def test_what_earlier_schemas_stored_is_read_as_it_is(value: dict[str, object]):
    written = canonical(value)
    assert unpack(written) == written.decode()


@given(st.binary() | st.binary().map(lambda data: b"\x01" + data))
def test_arbitrary_bytes_are_never_an_error(stored: bytes):
    unpack(stored)


def test_of_a_receipt_is_stored_what_others_do_not_have():
    text = seal_members(a_body(1, "0" * 64).hashed()).json
    assert len(pack(text)) < len(text) / 3


def test_the_dictionary_is_the_one_that_receipts_were_stored_with():
    dictionary = Path(receipt_text.__file__).with_name("receipt_dictionary.jsonl").read_bytes()
    assert sha256(dictionary).hexdigest() == "9bd5e0d471da847ad887b01806df4512fe7cbdc1a984076af76bc186670b8416"
