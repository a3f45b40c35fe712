"""The text of a receipt as it is stored: deflated (RFC 1951), with a dictionary of what receipts have in common.

What thousands of receipts share is so in the program instead of in each row, and no row needs another one to be read. A
byte in front names the dictionary. Its file can never change, or what was stored with it could not be read: for new
members, add another dictionary with the next number. Earlier schemas stored the text as it is, which begins with `{`.
"""

import zlib
from pathlib import Path
from typing import Final

_MARK: Final = b"\x01"
_DICTIONARY: Final = Path(__file__).with_name("receipt_dictionary.jsonl").read_bytes()
# A copy of this one saves reading the dictionary for each receipt: a third of the time. What receipts do not share are
# mostly hashes, which Z_FILTERED encodes better. A higher level takes a third longer and saves 2 bytes; a window of
# 16 KB has room for the dictionary, and is half as much to copy.
_COMPRESSOR: Final = zlib.compressobj(4, wbits=-14, memLevel=7, strategy=zlib.Z_FILTERED, zdict=_DICTIONARY)


def pack(text: str) -> bytes:
    """Return what is stored for the text of a receipt."""
    compressor = _COMPRESSOR.copy()
    return _MARK + compressor.compress(text.encode()) + compressor.flush()


def unpack(stored: bytes) -> str:
    """Return the text again. Of a row that someone has changed it may be none of a receipt, but never an error."""
    if stored.startswith(_MARK):
        try:
            stored = zlib.decompressobj(-zlib.MAX_WBITS, _DICTIONARY).decompress(stored[1:])
        except zlib.error:
            return "null"
    return stored.decode(errors="replace")
