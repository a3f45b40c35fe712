"""Seal and verify receipts: canonical JSON, its SHA-256, the chain of a session, and signatures."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from math import isfinite
from typing import Any, Final, cast

import msgspec

from accord.errors import NotSerialisableError
from accord.wire.message import MAX_DEPTH
from accord.wire.receipt import Receipt, ReceiptBody

# Writes a JSON value in its one canonical text, and takes its SHA-256.
#
# The form is RFC 8785 (JCS): UTF-8, no spaces, members sorted by the UTF-16 code units of their names, strings with
# the fewest escapes, numbers as ECMAScript writes a double. One thing is ours: a whole number beyond ±(2^53 - 1) is
# written digit by digit, where RFC 8785 would have it rounded. What has no such form is refused: NaN and infinities,
# unpaired surrogates, names that are not text, everything that is not JSON. A part that was written before can be put
# in as a `msgspec.Raw`. It knows nothing of receipts.

MAX_EXACT: Final = 2**53 - 1
MAX_CANONICAL_DEPTH: Final = MAX_DEPTH + 50
"""Deeper than any free object inside of a receipt can be."""

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
# Numbers that ECMAScript may write otherwise than the compiled encoder: `1.0`, or one with an exponent. Each pattern
# begins with a letter of its own, which is five times as fast to look for as anything that could begin a number; text
# that happens to look like one only costs the slower way.
_WHOLE_FLOAT: Final = re.compile(rb"\.0[,\]}]")
_EXPONENT: Final = re.compile(rb"e[+-]?\d+[,\]}]")


def canonical(value: Any) -> bytes:
    """The one text of a JSON value; raises `NotSerialisableError` for what has none."""
    try:
        return _encode(_ordered(value, 0))
    except UnicodeEncodeError:
        raise NotSerialisableError("An unpaired surrogate has no canonical JSON") from None


def canonical_object(members: dict[str, Any]) -> bytes:
    """The same text for an object that is known to hold plain JSON values, in less than half the time."""
    try:
        written = _encode_sorted(members)
    except (OverflowError, UnicodeEncodeError, RecursionError):
        return canonical(members)
    # Beyond ASCII names may sort differently; `null` may have been NaN.
    odd = _WHOLE_FLOAT.search(written) or _EXPONENT.search(written)
    sure = written.isascii() and b"null" not in written and not odd
    return written if sure else canonical(members)


def digest(value: Any) -> str:
    """The SHA-256 of a JSON value's canonical form, in hexadecimal."""
    return sha256(canonical(value)).hexdigest()


def digest_object(members: dict[str, Any]) -> str:
    """The same digest for an object that is known to hold plain JSON values."""
    return sha256(canonical_object(members)).hexdigest()


def _ordered(value: Any, depth: int) -> Any:
    """The value with its members in order and its numbers as they are to be written."""
    kind = cast("type[Any]", type(value))
    if kind is str or value is None or kind is bool or kind is msgspec.Raw:
        return value
    if kind is int:
        return value if -MAX_EXACT <= value <= MAX_EXACT else msgspec.Raw(str(value).encode())
    if kind is float:
        return msgspec.Raw(_number(value).encode())
    if depth > MAX_CANONICAL_DEPTH:
        raise NotSerialisableError(f"What is nested more than {MAX_CANONICAL_DEPTH} deep has no canonical JSON here")
    if kind is dict:
        return {name: _ordered(value[name], depth + 1) for name in _sorted_names(value)}
    if kind is list or kind is tuple:
        return [_ordered(item, depth + 1) for item in value]
    raise NotSerialisableError(f"A {kind.__name__} has no canonical JSON")


def _sorted_names(members: dict[Any, Any]) -> list[str]:
    for name in members:
        if type(name) is not str:
            raise NotSerialisableError(f"A member's name is text, not {type(name).__name__}")
    # Code points and UTF-16 code units only sort differently beyond ASCII.
    return sorted(members) if all(map(str.isascii, members)) else sorted(members, key=_code_units)


def _code_units(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def _number(value: float) -> str:
    """A double as ECMAScript writes it: the same shortest digits as Python's, laid out by its own rules."""
    if not isfinite(value):
        raise NotSerialisableError("NaN and infinities have no canonical JSON")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return sign + _laid_out(digits, point)


def _laid_out(digits: str, point: int) -> str:
    """These digits with the decimal point after the first `point` of them (ECMA-262, Number::toString)."""
    if len(digits) <= point <= 21:
        return digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{rest}e{point - 1:+d}"


# Seals receipts and checks a chain of them: a SHA-256 over the canonical form, and the link to the receipt before.
#
# A chain shows that nothing inside of it was changed, put in, taken out or moved. That nothing was cut off its end
# only shows against a hash that was kept elsewhere: `verify(…, last=…)`, or `ends=…` with what a store has. That the
# whole was not written anew only shows by signatures, which are made and checked with functions that are handed in:
# no key is known here. Receipts are checked as they were read, as plain values, so that a member which this version
# does not know is covered as well.

SHOWN_CHARS: Final = 12
"""How much of a hash is told to people."""
BESIDE_THE_HASH: Final = frozenset({"hash", "signature"})
"""The members of a receipt that are not hashed."""

Sign = Callable[[bytes], str]
"""Signs some bytes and gives the signature as text."""
VerifySignature = Callable[[bytes, str], bool]
"""Whether a signature of these bytes is good."""


def signed_bytes(hash: str) -> bytes:
    """What is signed of a receipt: its hash, after words that keep the signature from meaning anything else."""
    return f"accord receipt {hash}".encode()


@dataclass(frozen=True, slots=True)
class SealedReceipt:
    """A receipt's members with their hash, and the JSON text that it is kept as."""

    members: Mapping[str, Any]
    hash: str
    json: str


def seal(body: ReceiptBody) -> Receipt:
    """The receipt with this content. The same content always has the same hash."""
    fields = {name: getattr(body, name) for name in ReceiptBody.model_fields}
    return Receipt.trusted(**fields, hash=seal_members(body.hashed()).hash)


def seal_members(members: dict[str, Any], sign: Sign | None = None) -> SealedReceipt:
    """What a `ReceiptBody` says as plain JSON values, sealed: the text that is hashed is the text that is kept."""
    written = canonical_object(members)
    own_hash = sha256(written).hexdigest()
    signature = "" if sign is None else f',"signature":"{sign(signed_bytes(own_hash))}"'
    return SealedReceipt(members, own_hash, f'{written[:-1].decode()},"hash":"{own_hash}"{signature}}}')


class ReceiptState(StrEnum):
    """What was found of one receipt in its chain."""

    OK = "ok"
    ALTERED = "altered"
    BROKEN_LINK = "broken link"
    UNSIGNED = "unsigned"
    FORGED = "forged"
    MISSING = "missing"
    OUT_OF_ORDER = "out of order"


@dataclass(frozen=True, slots=True)
class ReceiptFinding:
    """One receipt's state; `index` counts from 0. A receipt is `missing` where the next one misses it."""

    index: int
    state: ReceiptState
    reason: str = ""
    hash: str | None = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found of every receipt, in the order in which they were given.

    `last` is the hash at the end, which the next verification can be held against. `count` is how many receipts there
    were; of none, nothing can be said.
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
    """Whether these receipts, models or plain JSON values, are as they were sealed, whole and in order.

    Receipts of several sessions may be mixed; each session is a chain of its own. `last` is the hash of the very last
    one, `ends` that of each session's; with `verify_signature` every receipt needs a good signature.
    """
    items = [_plain(receipt) for receipt in receipts]
    chain = _Chain(items, verify_signature)
    findings = [chain.judge(index, item) for index, item in enumerate(items)]
    end = findings[-1].hash if findings else None
    if last is not None and end != last:
        reason = f"the receipts should end with {_short(last)}: later ones were taken away, or all are others"
        findings.append(ReceiptFinding(len(items), ReceiptState.MISSING, reason, last))
    for session, expected in (ends or {}).items():
        if chain.ends.get(session) != expected:
            reason = f"the store's last receipt of this session is {_short(expected)}: the end is missing or rewritten"
            findings.append(ReceiptFinding(len(items), ReceiptState.MISSING, reason, expected, session))
    return Verification(tuple(findings), end, len(items))


def _carried(item: Any) -> str | None:
    """The hash that an item carries."""
    carried = cast("Mapping[str, Any]", item).get("hash") if isinstance(item, Mapping) else None
    return carried if isinstance(carried, str) else None


def _plain(receipt: Any) -> Any:
    return receipt.dump() if isinstance(receipt, Receipt) else receipt


class _Chain:
    """What has been seen of each session's receipts so far."""

    def __init__(self, items: list[Any], verify_signature: VerifySignature | None) -> None:
        self._is_signed = verify_signature
        self._all = set(filter(None, map(_carried, items)))
        self._places: dict[str, int] = {}
        self._followers: dict[str, int] = {}
        self.ends: dict[str, str] = {}

    def judge(self, index: int, item: Any) -> ReceiptFinding:
        """What is to be said of this receipt, given those before it."""
        if not isinstance(item, Mapping):
            return ReceiptFinding(index, ReceiptState.ALTERED, "it is not an object")
        fields = cast("Mapping[str, Any]", item)
        carried, session, previous = fields.get("hash"), fields.get("session_id"), fields.get("previous")
        if not isinstance(carried, str) or not isinstance(session, str):
            return ReceiptFinding(index, ReceiptState.ALTERED, "it has no hash or no session_id")
        state, reason = self._judge(fields, carried, session, previous)
        self._places.setdefault(carried, index)
        if isinstance(previous, str):
            self._followers.setdefault(previous, index)
        self.ends[session] = carried
        return ReceiptFinding(index, state, reason, carried, session)

    def _judge(self, fields: Mapping[str, Any], carried: str, session: str, previous: Any) -> tuple[ReceiptState, str]:
        if not has_valid_hash(fields):
            return ReceiptState.ALTERED, "its content does not have the hash that it carries"
        signature = fields.get("signature")
        if self._is_signed is not None and not isinstance(signature, str):
            return ReceiptState.UNSIGNED, "it has no signature"
        if self._is_signed is not None and not self._is_signed(signed_bytes(carried), str(signature)):
            return ReceiptState.FORGED, "its signature was not made with this key"
        if carried in self._places:
            return ReceiptState.OUT_OF_ORDER, f"it is a second copy of receipt {self._places[carried] + 1}"
        end = self.ends.get(session)
        if previous == end:
            return ReceiptState.OK, ""
        if previous is None:
            return ReceiptState.BROKEN_LINK, f"it begins a chain, and follows {_short(end)} of the same session"
        return self._misplaced(str(previous))

    def _misplaced(self, previous: str) -> tuple[ReceiptState, str]:
        if previous not in self._all:
            return (
                ReceiptState.MISSING,
                f"the receipt before it, {_short(previous)}, is missing: removed or rewritten",
            )
        if previous in self._followers:
            rival = self._followers[previous] + 1
            return ReceiptState.BROKEN_LINK, f"it follows {_short(previous)}, as receipt {rival} does already"
        return ReceiptState.OUT_OF_ORDER, f"it belongs right after {_short(previous)}"


def has_valid_hash(receipt: Mapping[str, Any]) -> bool:
    """Whether this receipt, as it was read, has the hash that it carries; its place in a chain is another matter."""
    try:
        hashed = {name: value for name, value in receipt.items() if name not in BESIDE_THE_HASH}
        return digest(hashed) == receipt.get("hash")
    except NotSerialisableError:
        return False


def _short(hash: str | None) -> str:
    return f"{(hash or '')[:SHOWN_CHARS]}…"
