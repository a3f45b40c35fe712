"""Declare, in the agent's answer to `initialize`, all the content that adapt can replace. Pure.

A conforming editor sends only what the agent declares, so without this it would never send what adapt is for. Only the
flags change, and `_meta` beside them names the raised ones; every other member is kept as the agent wrote it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accord.acp_tools.shape import DRAFT_PATH, V1_PATH
from accord.core.prompt import Declaration
from accord.core.prompt.verdict import FLAGS

RAISED_KEY: Final = "accord.adapted"
"""The key of `_meta` in the prompt capabilities that lists the flags that the agent did not declare itself."""

_read_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_write: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class RaisedResult:
    """A result of `initialize` as JSON, and the flags that were raised in it."""

    result: bytes
    flags: tuple[str, ...]


def raise_flags(result: bytes, declaration: Declaration) -> RaisedResult | None:
    """The result with every flag of the prompt capabilities raised; None if nothing can be raised in it.

    That is the case if the result is not an object, or if an agent of the draft declares no sessions: it takes no
    prompts, and a flag below `session` would say that it does. Malformed members count as absent (ACP, schema).
    """
    is_draft = declaration.protocol_version >= 2
    flags = tuple(flag for kind, flag in FLAGS.items() if not declaration.accepts(kind))
    if not flags:
        return RaisedResult(result, ())
    if not _is_object(result) or (is_draft and not _has_sessions(result)):
        return None
    raised: dict[str, Any] = {flag: {} if is_draft else True for flag in flags}
    return RaisedResult(_raise_in(result, DRAFT_PATH if is_draft else V1_PATH, raised), flags)


def _raise_in(raw: bytes, path: Sequence[str], raised: Mapping[str, Any]) -> bytes:
    members: dict[str, Any] = {**_members(raw)}
    if path:
        members[path[0]] = msgspec.Raw(_raise_in(members.get(path[0], b"{}"), path[1:], raised))
    else:
        members |= {**raised, "_meta": {**_members(members.get("_meta", b"{}")), RAISED_KEY: [*raised]}}
    return _write(members)


def _has_sessions(result: bytes) -> bool:
    return _is_object(_members(_members(result).get(DRAFT_PATH[0], b"{}")).get(DRAFT_PATH[1], b"null"))


def _is_object(raw: bytes) -> bool:
    return bytes(raw).lstrip()[:1] == b"{"


def _members(raw: bytes) -> Mapping[str, msgspec.Raw]:
    return _read_members(raw) if _is_object(raw) else {}
