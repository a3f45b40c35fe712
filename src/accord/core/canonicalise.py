"""Writes a JSON value in its one canonical text, and takes its SHA-256.

The form is RFC 8785 (JCS): UTF-8, no spaces, members sorted by the UTF-16 code units of their names, strings with the
fewest escapes, numbers as ECMAScript writes a double. One thing is ours: a whole number beyond ±(2^53 - 1) is written
digit by digit, where RFC 8785 would have it rounded. What has no such form is refused: NaN and infinities, unpaired
surrogates, names that are not text, everything that is not JSON. A part that was written before can be put in as a
`msgspec.Raw`. It knows nothing of receipts.
"""

import re
from hashlib import sha256
from math import isfinite
from typing import Any, Final, cast

import msgspec

from accord.errors import NotSerialisableError
from accord.wire.message import MAX_DEPTH

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
