"""Rules of a virtual key, and what was used with it.

A key is an API token (`session.TokenRecord`) with rules. Costs are whole micro-dollars wherever they are added up, so
that sums are exact; messages have them in US dollars.
"""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal

import msgspec
from pydantic import AwareDatetime, ConfigDict, Field

from accord.wire.message import FreeObject, Message

MICRO: Final = 1_000_000
"""Micro-dollars in a dollar."""
MAX_BUDGET_USD: Final = 1e9
RATE_PATTERN: Final = r"[1-9]\d{0,8}/(?:[1-9]\d{0,5})?(?:second|minute|hour|day)s?"
"""A rate such as `60/minute` or `5/10seconds`."""
RATE: Final = re.compile(RATE_PATTERN)


class BudgetPeriod(StrEnum):
    """When a budget starts again: every day or month in UTC, or never."""

    DAY = "day"
    MONTH = "month"
    TOTAL = "total"

    def start(self, now: datetime) -> date | None:
        """The first day that counts; None if every day does."""
        today = now.astimezone(UTC).date()
        return {BudgetPeriod.DAY: today, BudgetPeriod.MONTH: today.replace(day=1), BudgetPeriod.TOTAL: None}[self]

    def renews_at(self, now: datetime) -> datetime | None:
        """The moment at which the budget starts again; None if it never does."""
        start = self.start(now)
        if start is None:
            return None
        following = start + timedelta(days=1 if self is BudgetPeriod.DAY else 32)
        if self is BudgetPeriod.MONTH:
            following = following.replace(day=1)
        return datetime.combine(following, time(), UTC)


Rate = Annotated[str, Field(pattern=f"^{RATE_PATTERN}$")]
ModelPattern = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00\s,]+$")]


class KeyRules(Message, frozen=True):
    """What a key may do. Without rules, everything that the service offers.

    An unknown member is an error: a rule that is ignored would allow what it should limit.
    """

    model_config = ConfigDict(extra="forbid")

    models: list[ModelPattern] | None = Field(
        default=None,
        max_length=200,
        description="The models that may be requested: names of backends or groups, `auto`, or patterns such as "
        "`gpt-*`. Absent: every model.",
    )
    rates: list[Rate] | None = Field(
        default=None, max_length=20, description="Rates such as `60/minute`, besides those of the service."
    )
    budget_usd: float | None = Field(
        default=None, ge=0, le=MAX_BUDGET_USD, allow_inf_nan=False, description="The most that may be spent."
    )
    budget_period: BudgetPeriod = Field(
        default=BudgetPeriod.TOTAL,
        description="When the budget starts again: every `day` or `month` (UTC), or never (`total`).",
    )
    policy: Literal["labelled", "strict"] | None = Field(
        default=None, description="Whether fields that a backend lacks may be dropped with a label, or are refused."
    )
    is_admin: bool = Field(default=False, description="Whether the key may use the admin API and `/metrics`.")
    account_references: bool | None = Field(
        default=None,
        description="Whether requests may name files, containers and the like in the provider's account, which all "
        "keys share. Absent: only if the key may use the admin API.",
    )

    @property
    def budget_micro(self) -> int | None:
        """The budget in micro-dollars."""
        return None if self.budget_usd is None else round(self.budget_usd * MICRO)

    @property
    def may_reference_account(self) -> bool:
        """Whether requests may name what is in the provider's account."""
        return self.is_admin if self.account_references is None else self.account_references

    def allows_model(self, name: str) -> bool:
        """Whether a model may be requested by this name."""
        return self.models is None or any(fnmatchcase(name, pattern) for pattern in self.models)


NO_RULES: Final = KeyRules()
"""The rules of a key that has none."""


class Payer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who pays for a run, and what the rules of the key allowed when it was admitted. Travels with queued work."""

    key_id: str = ""
    """Empty for a request without a key."""
    user: str = ""
    """Empty for an anonymous request."""
    budget_micro: int | None = None
    budget_period: BudgetPeriod = BudgetPeriod.TOTAL
    backends: tuple[str, ...] | None = None
    """The backends that may be used; None if every one may be."""
    reserved_micro: int = 0
    """What is reserved in the store for a queued run, until it has ended."""


class UsageGroup(StrEnum):
    """What usage is added up by."""

    KEY = "key"
    USER = "user"
    MODEL = "model"
    BACKEND = "backend"
    DAY = "day"


# `gc=False`: a record refers to nothing that could refer back to it.
class UsageRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Requests of one key and user to one model of one backend on one day (UTC); a store adds equal ones up."""

    key_id: str = ""
    """Empty for requests without a key."""
    user: str = ""
    """Empty for anonymous requests, and for those of a deleted user."""
    backend: str
    model: str
    day: date
    requests: int = 1
    failed: int = 0
    input_tokens: int = 0
    """All input, cached input included."""
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cost_micro: int = 0
    """The cost of the priced requests, in micro-dollars."""
    priced: int = 0
    """How many of the requests have a known price."""
    estimated: int = 0
    """How many of the requests have a usage that is estimated, at least in part."""


class UsageTotal(Message, frozen=True):
    """Usage of one key, user, model, backend or day."""

    name: str = Field(description="The key id, user, model, backend or day; empty for requests without one.")
    requests: int = Field(description="All requests.")
    failed: int = Field(description="Those that were refused or failed.")
    input_tokens: int = Field(description="All input tokens, cached ones included.")
    output_tokens: int = Field(description="All output tokens.")
    cached_input_tokens: int = Field(description="Input tokens that were read from a cache.")
    cost_usd: float = Field(description="The cost of the priced requests.")
    priced_requests: int = Field(description="The requests whose price is known; the others are not in `cost_usd`.")
    estimated_requests: int = Field(
        default=0, description="The requests whose usage is estimated from what arrived, at least in part."
    )


USAGE_COUNTS: Final = UsageRecord.__struct_fields__[5:]
"""What is added up of usage: every field after those that name the row."""


def usage_total(name: str, sums: Iterable[int]) -> UsageTotal:
    """Convert sums, in the order of `USAGE_COUNTS`, to a message."""
    counts = dict(zip(USAGE_COUNTS, sums, strict=True))
    return UsageTotal(
        name=name,
        cost_usd=counts.pop("cost_micro") / MICRO,
        priced_requests=counts.pop("priced"),
        estimated_requests=counts.pop("estimated"),
        **counts,
    )


class KeyInfo(Message, frozen=True):
    """A key, without its secret."""

    key_id: str = Field(description="The id, which is no secret.")
    user: str = Field(description="The user that requests with this key are made by.")
    label: str = Field(default="", description="A note, such as what the key is for.")
    created_at: AwareDatetime = Field(description="When it was made.")
    expires_at: AwareDatetime | None = Field(default=None, description="Absent: valid until it is revoked.")
    expired: bool = Field(description="Whether it is no longer valid.")
    rules: KeyRules | None = Field(default=None, description="Absent: everything that the service offers.")
    spent_usd: float = Field(description="What was spent in the current period of the budget; in all without a budget.")
    renews_at: AwareDatetime | None = Field(default=None, description="When the budget starts again.")


class NewKey(KeyInfo, frozen=True):
    """A key that was just made, with its secret, which is not shown again."""

    key: str = Field(description="Send it as `Authorization: Bearer <key>` or as `x-api-key: <key>`.")


class KeyRequest(Message, frozen=True):
    """A request to make a key."""

    model_config = ConfigDict(extra="forbid")

    user: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00]+$")] = Field(
        description="The user that requests with this key are made by."
    )
    label: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = Field(
        default="", description="A note, such as what the key is for."
    )
    days: Annotated[int, Field(ge=1, le=36_500)] | None = Field(
        default=None, description="Days until it expires; absent: it does not."
    )
    rules: KeyRules | None = Field(
        default=None, description="What it may do; absent: everything that the service offers."
    )


class KeyChange(Message, frozen=True):
    """A change of a key's rules (RFC 7396): members that are given replace, null removes; `rules: null` removes all."""

    model_config = ConfigDict(extra="forbid")

    rules: FreeObject | None = Field(description="The rules to change.")


class KeyList(Message, frozen=True):
    """All keys, the oldest first."""

    keys: list[KeyInfo] = Field(description="The keys.")


class UsageReport(Message, frozen=True):
    """Usage, added up by key, user, model, backend or day."""

    by: UsageGroup = Field(description="What it is added up by.")
    key: str | None = Field(default=None, description="The key that it is limited to.")
    since: date | None = Field(default=None, description="The first day (UTC).")
    until: date | None = Field(default=None, description="The last day (UTC).")
    usage: list[UsageTotal] = Field(description="One total for each.")
