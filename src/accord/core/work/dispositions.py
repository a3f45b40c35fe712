"""Decide what becomes of the fields of a model API's request at each backend. Pure; the table is in `field_table.py`.

Before planning: which backends cannot carry a contract field at all (`field_limits`), and which capabilities the fields
require (`required_capabilities`). After it: what became of each field at the chosen backend (`dispose`). Without any
request: what a backend would make of one field (`effective`) or of each (`effective_fields`), for
`GET /v1/capabilities` and `GET /v1/models`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from accord.core.work.derive import need_for
from accord.core.work.fields import CONVERSATION, CONVERSATIONS, MARKED, TABLE, FieldColumn, FieldRow, place_of, row_of
from accord.core.work.negotiate import IdentityCache
from accord.core.work.plan import Candidate, PlanConfig, offer_for
from accord.wire.capability import canonical_name
from accord.wire.disposition import Api, Disposition, FieldClass, FieldPolicy, FieldRecord
from accord.wire.manifest import CapabilityRequirement, MinSupport, NegotiationResult
from accord.wire.plan import Offer, Shortfall

NOT_A_NAME: Final = re.compile(r"[^a-z0-9]+")
API_NAMES: Final[Mapping[Api, str]] = {
    Api.CHAT: "the chat completions API",
    Api.RESPONSES: "the responses API",
    Api.MESSAGES: "the messages API",
    Api.GEMINI: "the Gemini API",
    Api.ACP: "an ACP agent",
    Api.OTHER: "this kind of backend",
}
LEARNED: Final = "the endpoint refused it"
REBUILT: Final = "the request has to be changed for this backend, and only an unchanged one can carry it"


class FieldLimits(NamedTuple):
    """What rules a backend out, and whether it can get the request in another form than it came."""

    lacking: tuple[Shortfall, ...]
    may_emulate: bool


@lru_cache(maxsize=1024)
def field_limits(
    api: Api, fields: tuple[str, ...], column: FieldColumn, policy: FieldPolicy, learned: frozenset[str] = frozenset()
) -> FieldLimits:
    """What these fields mean for a backend of this column; `learned` are fields that its endpoint refused recently."""
    lacking: list[Shortfall] = []
    may_emulate = True
    for name in fields:
        row = row_of(api, name)
        cell = column.cell(row)
        is_contract = row.kind is FieldClass.CONTRACT or policy is FieldPolicy.STRICT
        if is_contract and (name in learned or cell in (Disposition.REFUSED, Disposition.DROPPED)):
            reason = LEARNED if name in learned else lacking_reason(row, column)
            lacking.append(Shortfall(capability=row.capability or shortfall_name(name), reason=f"{name}: {reason}"))
        elif is_contract and column.api in row.only_unchanged and ("." in name or "[" in name):
            may_emulate = False
    return FieldLimits(tuple(lacking), may_emulate)


def shortfall_name(field: str) -> str:
    """The name of a field where plans have the name of a capability."""
    return NOT_A_NAME.sub("_", field.lower()).strip("_") or "field"


def lacking_reason(row: FieldRow, column: FieldColumn) -> str:
    """Why this kind of backend cannot carry the field."""
    if column.lacks_row(row):
        return f"the {column.title} has no field for it"
    own, is_own, reason = row.reason.partition(": ")
    if is_own:  # of one kind of backend only
        return reason if own == column.api.value else f"{API_NAMES[column.api]} has no field for it"
    return row.reason or f"{API_NAMES[column.api]} has no field for it"


@lru_cache(maxsize=1024)
def required_capabilities(api: Api, fields: tuple[str, ...], policy: FieldPolicy) -> tuple[CapabilityRequirement, ...]:
    """What these fields require besides what the work order implies: contracts and, with `strict`, all tuning."""
    names: dict[str, None] = {}
    for name in fields:
        row = row_of(api, name)
        if row.capability and (row.capability in STATED or policy is FieldPolicy.STRICT):
            names[row.capability] = None
    return tuple(CapabilityRequirement(capability=name, min_support=MinSupport.EMULATED) for name in names)


STATED: Final = frozenset({"logprobs"})
"""Contracts that an order has as a parameter, which alone would be a preference."""


class FieldUse(NamedTuple):
    """The fields of a request, and how it reaches a backend.

    `unchanged`: it is passed on as it came, without what is dropped. `learned` are fields that the endpoint refused.
    """

    api: Api
    fields: tuple[str, ...]
    column: FieldColumn
    unchanged: bool
    learned: frozenset[str] = frozenset()


def dispose(use: FieldUse, offer: Offer) -> tuple[FieldRecord, ...]:
    """What became of each field at the backend of this offer; native ones are not listed. Shared between calls."""
    return _DISPOSED.get_or_compute((offer,), (), lambda: _dispose(use, offer), use)


def _dispose(use: FieldUse, offer: Offer) -> tuple[FieldRecord, ...]:
    records: list[FieldRecord] = []
    for name in use.fields:
        row = row_of(use.api, name)
        if name in use.learned:
            records.append(FieldRecord(field=name, disposition=Disposition.DROPPED, reason=LEARNED, learned=True))
            continue
        # What the API cannot carry would not get there with the capability, either.
        is_carried = use.column.cell(row) is not Disposition.DROPPED
        outcome = (_by_capability(row, offer) if is_carried else None) or _by_cell(name, row, use, offer)
        if outcome is not None:
            records.append(FieldRecord(field=name, disposition=outcome[0], reason=outcome[1]))
    return tuple(records)


def _by_capability(row: FieldRow, offer: Offer) -> tuple[Disposition, str] | None:
    """What becomes of a field whose capability this backend does not have natively, and why."""
    capability = canonical_name(row.capability) if row.capability else ""
    for rescue in offer.rescues:
        if canonical_name(rescue.capability) == capability:
            if row.kind is FieldClass.TUNING:
                return Disposition.DROPPED, f"{capability} is emulated by Accord, without such a setting"
            return Disposition.EMULATED, f"emulated by Accord: {rescue.strategy.type}"
    for short in (*offer.unmet, *offer.losses):
        if canonical_name(short.capability) == capability:
            return Disposition.DROPPED, f"{capability} is {short.reason}" if short.reason else capability
    if capability in map(canonical_name, offer.negotiation.emulatable):
        own = offer.negotiation.strategies.get(capability, "its own way")
        return Disposition.EMULATED, f"emulated by the backend: {own}"
    return None


def _by_cell(name: str, row: FieldRow, use: FieldUse, offer: Offer) -> tuple[Disposition, str] | None:
    """What becomes of a field that the kind of backend does not carry natively, and why."""
    cell = use.column.cell(row)
    is_native = row.capability is not None and canonical_name(row.capability) in offer.negotiation.native
    if cell is Disposition.EMULATED and not is_native and not (use.unchanged and use.column.api is use.api):
        return cell, row.note or "emulated by Accord"
    if cell is Disposition.DROPPED:
        return cell, lacking_reason(row, use.column)
    return (Disposition.DROPPED, REBUILT) if _is_lost(name, row, use) else None


def _is_lost(name: str, row: FieldRow, use: FieldUse) -> bool:
    """Whether the request had to be changed and the field could not be taken over; whole members of a body can."""
    return (
        not use.unchanged and use.column.api in row.only_unchanged and place_of(use.api, name, use.column.api) is None
    )


def assumed(api: Api, fields: Sequence[str], choices: Mapping[str, str]) -> tuple[FieldRecord, ...]:
    """The labels of what was chosen: each under the field that the request has for it or could have."""
    listed = (*fields, *TABLE[api])
    return tuple(
        FieldRecord(field=name, disposition=Disposition.ASSUMED, reason=reason)
        for subject, reason in choices.items()
        for name in [
            next(each for each in listed if each in CONVERSATIONS)
            if subject == CONVERSATION
            else next(each for each in listed if row_of(api, each).capability == subject)
        ]
    )


_DISPOSED: Final = IdentityCache[tuple[FieldRecord, ...]]()


def effective(
    row: FieldRow,
    column: FieldColumn,
    candidate: Candidate,
    config: PlanConfig,
    learned: frozenset[str] = frozenset(),
) -> FieldRecord:
    """What becomes of this field in a request that asks for nothing else, at a backend of this column.

    The cell of the table, the manifest, the configured emulations and what was learned decide, through the same code
    that plans and labels a request.
    """
    fields = (row.name,)
    lacking, may_emulate = field_limits(row.api, fields, column, FieldPolicy.LABELLED, learned)
    if lacking:  # its reason begins with the name of the field
        reason = lacking[0].reason.partition(": ")[2]
        return FieldRecord(field=row.name, disposition=Disposition.REFUSED, reason=reason)
    offer = NEEDS_NOTHING
    if row.capability is not None:
        need = need_for(row.capability)
        if row.capability in STATED:
            need = replace(need, required=True, because="required")
        offer = offer_for(replace(candidate, may_emulate=may_emulate), [need], config)
    if offer.missing:
        reason = f"{offer.missing[0].capability} is {offer.missing[0].reason}"
        return FieldRecord(field=row.name, disposition=Disposition.REFUSED, reason=reason)
    unchanged = column.api is row.api and not offer.rescues and not offer.losses
    # Not in the cache of requests, which these would fill.
    records = _dispose(FieldUse(row.api, fields, column, unchanged, learned), offer)
    return records[0] if records else FieldRecord(field=row.name, disposition=Disposition.NATIVE, reason="")


def effective_fields(
    api: Api, column: FieldColumn, candidate: Candidate, config: PlanConfig, learned: frozenset[str] = frozenset()
) -> Mapping[str, FieldRecord]:
    """What becomes of each field of an API at a backend of this column, by name. Shared between calls."""
    return _EFFECTIVE.get_or_compute(
        (candidate.manifest, config),
        (candidate.manifest.root,),
        lambda: {name: effective(row, column, candidate, config, learned) for name, row in TABLE[api].items()},
        key=(api, column, candidate.refused, candidate.contradicted, candidate.history, learned),
    )


_EFFECTIVE: Final = IdentityCache[Mapping[str, FieldRecord]]()
NEEDS_NOTHING: Final = Offer(backend="", negotiation=NegotiationResult())
"""What every backend makes of work without needs."""


def without_fields(body: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A copy of a request's body without these fields; what has no place of its own, such as `tools[].other`, stays."""
    for name in names:
        places = MARKED if name.startswith("*.") else ("",)
        for place in places:
            for member in ALSO_NAMED.get(name.rpartition(".")[2], (name.rpartition(".")[2],)):
                path = f"{place}{name[1:] if place else name}".rpartition(".")[0]
                body = _remove(body, [*(path.split(".") if path else ()), member])
    return body


ALSO_NAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "reasoning_content": ("reasoning_content", "reasoning"),
    "thinking": ("thinking", "redacted_thinking"),
}
"""Fields that a request may have under several names."""


def _remove(held: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """A copy without the member at this path; an object that is left empty goes, too."""
    first, rest = path[0], path[1:]
    name, _, role = first.removesuffix("]").partition("[")
    inner: Any = held.get(name)
    kept = {key: value for key, value in held.items() if key != name}
    if not rest:
        return kept
    if first.endswith("]") and isinstance(inner, list):
        messages = cast("list[Any]", inner)
        items = [_remove_from_item(item, rest) if not role or _has_role(item, role) else item for item in messages]
        return {**held, name: [item for item in items if item is not None]}
    if isinstance(inner, dict):
        left = _remove(cast("dict[str, Any]", inner), rest)
        return {**held, name: left} if left else kept
    # A path goes on below a value where that value has a row of its own.
    return held if isinstance(inner, list) or first.endswith("]") else kept


def _has_role(item: Any, role: str) -> bool:
    return isinstance(item, dict) and cast("dict[str, Any]", item).get("role") == role


def _remove_from_item(item: Any, path: Sequence[str]) -> Any:
    """The item without this member; None if the path names the kind of item itself."""
    if not isinstance(item, dict):
        return item
    held = cast("dict[str, Any]", item)
    if held.get("type") == path[0]:
        if len(path) == 1:
            return None
        if not isinstance(held.get(path[0]), dict):  # its members are those of the item
            return _remove(held, path[1:])
    return _remove(held, path)


def format_dispositions(records: Sequence[FieldRecord]) -> str:
    """The value of the response header: each field with what became of it, `seed=dropped, tools=emulated`."""
    return ", ".join(f"{each.field}={each.disposition.value}{';learned' if each.learned else ''}" for each in records)
