"""Seal and verify receipts: canonical JSON, its SHA-256, the chain of a session, and signatures.

A chain shows that no receipt inside it was changed, inserted, removed or moved. That none was removed from its end
shows only against a hash that was kept elsewhere: `verify(…, last=…)`, or `ends=…` with the hashes of a store. That the
whole chain was not rewritten shows only by signatures. Keys are not handled here: the functions that sign and verify
are passed in.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from typing import Any, Final, NamedTuple, cast

import msgspec

from accord.errors import NotSerialisableError
from accord.wire.message import MAX_DEPTH
from accord.wire.receipt import Receipt, ReceiptBody, ReceiptState

# Canonical JSON is RFC 8785 (JCS): UTF-8, no spaces, members sorted by the UTF-16 code units of their names, strings
# with the fewest escapes, numbers as ECMAScript writes a double. One difference: a whole number beyond ±(2^53 - 1) is
# written digit by digit, where RFC 8785 would round it.

MAX_EXACT: Final = 2**53 - 1
MAX_CANONICAL_DEPTH: Final = MAX_DEPTH + 50
"""Deeper than any free object inside a receipt can be."""

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
MIN_PLAIN: Final = 1e-4
"""Every writer of JSON writes fractions above this without an exponent."""


def canonical(value: Any) -> bytes:
    """Write a JSON value in canonical form; raises `NotSerialisableError` if it has none.

    NaN and infinities, unpaired surrogates, names that are not text and values that are not JSON have none. A
    `msgspec.Raw` is taken to be canonical already.
    """
    try:
        return _encode(_ordered(value, 0))
    except UnicodeEncodeError:
        raise NotSerialisableError("An unpaired surrogate has no canonical JSON") from None


def canonical_object(members: dict[str, Any]) -> bytes:
    """Write an object of plain JSON values in canonical form, in less than half the time of `canonical`."""
    try:
        written = _encode_sorted(members)
    except (OverflowError, UnicodeEncodeError, RecursionError):
        return canonical(members)
    # Beyond ASCII, names may sort differently; `null` may have been NaN.
    is_canonical = written.isascii() and b"null" not in written and not _has_odd_number(members)
    return written if is_canonical else canonical(members)


def _has_odd_number(value: Any) -> bool:
    """Whether ECMAScript may write a number of this JSON value in another form than the encoder: `1.0`, `1e-7`.

    Looking at the values takes a tenth of the time of searching the text.
    """
    left = [value]
    while left:
        each = left.pop()
        kind = cast("type[Any]", type(each))
        if kind is dict:
            left.extend(each.values())
        elif kind is list or kind is tuple:
            left.extend(each)
        elif kind is float and (each.is_integer() or not MIN_PLAIN < abs(each) < MAX_EXACT):
            return True
    return False


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value's canonical form, in hexadecimal."""
    return sha256(canonical(value)).hexdigest()


def digest_object(members: dict[str, Any]) -> str:
    """Return the same digest for an object of plain JSON values, faster."""
    return sha256(canonical_object(members)).hexdigest()


LONG_TEXT: Final = 64 * 1024
_MARK: Final = re.compile(rb"\x00(\d+)\x00")  # JSON has no such byte: it escapes control characters


def digest_in_pieces(value: Any) -> str:
    """Return the same digest, without the memory for the canonical form of long texts."""
    texts: list[str] = []
    hashed = sha256()
    for place, piece in enumerate(_MARK.split(canonical(_mark_long_texts(value, texts)))):
        if place % 2 == 0:
            hashed.update(piece)
            continue
        text = texts[int(piece)]
        hashed.update(b'"')
        for start in range(0, len(text), LONG_TEXT):
            hashed.update(_encode(text[start : start + LONG_TEXT])[1:-1])
        hashed.update(b'"')
    return hashed.hexdigest()


def _mark_long_texts(value: Any, texts: list[str]) -> Any:
    """The value with a mark for each long text, which is added to `texts`."""
    if isinstance(value, str) and len(value) > LONG_TEXT:
        texts.append(value)
        return msgspec.Raw(b"\x00%d\x00" % (len(texts) - 1))
    if isinstance(value, dict):
        return {name: _mark_long_texts(each, texts) for name, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_mark_long_texts(each, texts) for each in cast("list[Any]", value)]
    return value


def _ordered(value: Any, depth: int) -> Any:
    """Sort the members and write out the numbers that the encoder would write differently."""
    kind = cast("type[Any]", type(value))
    if kind is str or value is None or kind is bool or kind is msgspec.Raw:
        return value
    if kind is int:
        return value if -MAX_EXACT <= value <= MAX_EXACT else msgspec.Raw(str(value).encode())
    if kind is float:
        return msgspec.Raw(_number(value).encode())
    if depth > MAX_CANONICAL_DEPTH:
        raise NotSerialisableError(f"Values nested more than {MAX_CANONICAL_DEPTH} deep have no canonical JSON")
    if kind is dict:
        return {name: _ordered(value[name], depth + 1) for name in _sorted_names(value)}
    if kind is list or kind is tuple:
        return [_ordered(item, depth + 1) for item in value]
    raise NotSerialisableError(f"A {kind.__name__} has no canonical JSON")


def _sorted_names(members: dict[Any, Any]) -> list[str]:
    for name in members:
        if type(name) is not str:
            raise NotSerialisableError(f"The name of a member should be text, not {type(name).__name__}")
    # Code points and UTF-16 code units sort differently only beyond ASCII.
    if all(map(str.isascii, members)):
        return sorted(members)
    return sorted(members, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def _number(value: float) -> str:
    """Write a double as ECMAScript does: the same shortest digits as Python's, in the layout of ECMA-262."""
    if not isfinite(value):
        raise NotSerialisableError("NaN and infinities have no canonical JSON")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    return sign + _place_point(digits.rstrip("0"), point)


def _place_point(digits: str, point: int) -> str:
    """Put the decimal point after the first `point` digits (ECMA-262, Number::toString)."""
    if len(digits) <= point <= 21:
        return digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{rest}e{point - 1:+d}"


SHOWN_CHARS: Final = 12
"""How many characters of a hash are shown to people."""
NOT_HASHED: Final = frozenset({"hash", "signature"})
"""The members of a receipt that its hash does not cover."""

Sign = Callable[[bytes], str]
"""Signs bytes and returns the signature as text."""
VerifySignature = Callable[[bytes, str], bool]
"""Whether a signature of these bytes is valid."""


def signed_bytes(hash: str) -> bytes:
    """Return what is signed of a receipt: its hash, with a prefix so that the signature is valid for nothing else."""
    return f"accord receipt {hash}".encode()


class SealedReceipt(NamedTuple):
    """A receipt's members with their hash, and the JSON text to store."""

    members: Mapping[str, Any]
    hash: str
    json: str


def seal(body: ReceiptBody) -> Receipt:
    """Make the receipt with this content. The same content always has the same hash."""
    fields = {name: getattr(body, name) for name in ReceiptBody.model_fields}
    return Receipt(**fields, hash=seal_members(body.hashed()).hash)


def seal_members(members: dict[str, Any], sign: Sign | None = None) -> SealedReceipt:
    """Seal the plain JSON values of a `ReceiptBody`: the text that is hashed is the text that is stored."""
    written = canonical_object(members)
    written_hash = sha256(written).hexdigest()
    signature = "" if sign is None else f',"signature":"{sign(signed_bytes(written_hash))}"'
    return SealedReceipt(members, written_hash, f'{written[:-1].decode()},"hash":"{written_hash}"{signature}}}')


@dataclass(frozen=True, slots=True)
class ReceiptFinding:
    """The state of one receipt; `index` counts from 0. `missing` is reported where the next receipt refers to it."""

    index: int
    state: ReceiptState
    reason: str = ""
    hash: str | None = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """A finding for every receipt, in the order in which they were given.

    `last` is the hash at the end, for the next verification to compare with. `count` is the number of receipts; without
    any, the chain is not ok.
    """

    findings: tuple[ReceiptFinding, ...]
    last: str | None = None
    count: int = 0

    @property
    def ok(self) -> bool:
        """Whether there are receipts, and nothing is wrong with them."""
        return self.count > 0 and not self.wrong

    @property
    def wrong(self) -> tuple[ReceiptFinding, ...]:
        """The findings that are not ok."""
        return tuple(finding for finding in self.findings if finding.state is not ReceiptState.OK)


def verify(
    receipts: Iterable[Any],
    *,
    last: str | None = None,
    ends: Mapping[str, str] | None = None,
    verify_signature: VerifySignature | None = None,
) -> Verification:
    """Check that these receipts, models or plain JSON values, are unchanged, complete and in order.

    Receipts of several sessions may be mixed; each session is a chain of its own. `last` is the expected hash of the
    very last one, `ends` those of each session; with `verify_signature` every receipt needs a valid signature.
    """
    # Plain values, so that members which this version does not know are covered as well.
    items = [receipt.dump() if isinstance(receipt, Receipt) else receipt for receipt in receipts]
    hashes = [cast("Mapping[str, Any]", item).get("hash") for item in items if isinstance(item, Mapping)]
    chain = ChainVerifier(verify_signature, {each for each in hashes if isinstance(each, str)})
    findings = [chain.check(item) for item in items]
    end = findings[-1].hash if findings else None
    if last is not None and end != last:
        reason = f"the receipts should end with {_short(last)}: later ones were removed, or all were replaced"
        findings.append(ReceiptFinding(len(items), ReceiptState.MISSING, reason, last))
    for session, expected in (ends or {}).items():
        if (finding := chain.check_end(session, expected)) is not None:
            findings.append(finding)
    return Verification(tuple(findings), end, len(items))


class ChainVerifier:
    """Checks receipts one by one against those before them in their session.

    `hashes` are those of all receipts that will be checked. Without them, a receipt that comes too early is reported
    as one whose predecessor is missing.
    """

    def __init__(self, verify_signature: VerifySignature | None = None, hashes: Collection[str] = ()) -> None:
        self._is_signed: Final = verify_signature
        self._all: Final = hashes
        self._places: Final[dict[str, int]] = {}
        self._followers: Final[dict[str, int]] = {}
        self.count = 0
        self.ends: Final[dict[str, str]] = {}
        """The hash of the last receipt of each session so far."""

    def check_end(self, session: str, expected: str) -> ReceiptFinding | None:
        """Check that the receipts of this session have ended with this hash, the last one that the store has."""
        if self.ends.get(session) == expected:
            return None
        reason = f"the store's last receipt of this session is {_short(expected)}: the end is missing or rewritten"
        return ReceiptFinding(self.count, ReceiptState.MISSING, reason, expected, session)

    def check(self, item: Any) -> ReceiptFinding:
        """Check this receipt, given those before it."""
        index = self.count
        self.count += 1
        if not isinstance(item, Mapping):
            return ReceiptFinding(index, ReceiptState.ALTERED, "it is not an object")
        fields = cast("Mapping[str, Any]", item)
        carried, session, previous = fields.get("hash"), fields.get("session_id"), fields.get("previous")
        if not isinstance(carried, str) or not isinstance(session, str):
            return ReceiptFinding(index, ReceiptState.ALTERED, "it has no hash or no session_id")
        state, reason = self._state(fields, carried, session, previous)
        self._places.setdefault(carried, index)
        if isinstance(previous, str):
            self._followers.setdefault(previous, index)
        self.ends[session] = carried
        return ReceiptFinding(index, state, reason, carried, session)

    def _state(self, fields: Mapping[str, Any], carried: str, session: str, previous: Any) -> tuple[ReceiptState, str]:
        if not has_valid_hash(fields):
            return ReceiptState.ALTERED, "its content does not match its hash"
        signature = fields.get("signature")
        if self._is_signed is not None and not isinstance(signature, str):
            return ReceiptState.UNSIGNED, "it has no signature"
        if self._is_signed is not None and not self._is_signed(signed_bytes(carried), str(signature)):
            return ReceiptState.FORGED, "its signature does not match the key"
        if carried in self._places:
            return ReceiptState.OUT_OF_ORDER, f"it is a second copy of receipt {self._places[carried] + 1}"
        end = self.ends.get(session)
        if previous == end:
            return ReceiptState.OK, ""
        if previous is None:
            return ReceiptState.BROKEN_LINK, f"it begins a chain, and follows {_short(end)} of the same session"
        return self._misplaced(str(previous))

    def _misplaced(self, previous: str) -> tuple[ReceiptState, str]:
        if previous not in self._all and previous not in self._places:
            return (
                ReceiptState.MISSING,
                f"the receipt before it, {_short(previous)}, is missing: removed or rewritten",
            )
        if previous in self._followers:
            rival = self._followers[previous] + 1
            return ReceiptState.BROKEN_LINK, f"it follows {_short(previous)}, as receipt {rival} does already"
        return ReceiptState.OUT_OF_ORDER, f"it belongs right after {_short(previous)}"


def parse_receipt(text: str) -> Any:
    """Parse the JSON of a receipt; raises `ValueError` if it is none, or if it is unclear what of it was hashed."""
    try:
        return json.loads(text, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has the same name twice")
    return members


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def has_valid_hash(receipt: Mapping[str, Any]) -> bool:
    """Whether the content of this receipt matches its hash; its place in a chain is not checked."""
    try:
        hashed = {name: value for name, value in receipt.items() if name not in NOT_HASHED}
        return digest(hashed) == receipt.get("hash")
    except NotSerialisableError:
        return False


def _short(hash: str | None) -> str:
    return f"{(hash or '')[:SHOWN_CHARS]}…"
