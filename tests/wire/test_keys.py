"""Rules of keys: which models they allow, when a budget starts again, and what is not a rule."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from accord.wire.keys import NO_RULES, BudgetPeriod, KeyRules

NOON = datetime(2026, 12, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("models", "name", "is_allowed"),
    [
        (None, "anything", True),
        ([], "anything", False),
        (["gpt-4o"], "gpt-4o", True),
        (["gpt-4o"], "gpt-4o-mini", False),
        (["gpt-4o"], "GPT-4o", False),
        (["claude-*", "gpt-*"], "gpt-4o-mini", True),
        (["gpt-?"], "gpt-4o", False),
        (["gpt-[45]*"], "gpt-5", True),
        (["gpt-*"], "auto", False),
        (["*"], "auto", True),
        (["openai/*"], "openai/gpt-4o", True),
    ],
)
def test_each_pattern_allows_the_models_that_it_matches(models: list[str] | None, name: str, is_allowed: bool):
    assert KeyRules(models=models).allows_model(name) is is_allowed


@pytest.mark.parametrize(
    ("period", "now", "start", "renews_at"),
    [
        (BudgetPeriod.DAY, NOON, date(2026, 12, 31), datetime(2027, 1, 1, tzinfo=UTC)),
        (BudgetPeriod.MONTH, NOON, date(2026, 12, 1), datetime(2027, 1, 1, tzinfo=UTC)),
        (BudgetPeriod.MONTH, datetime(2026, 2, 1, tzinfo=UTC), date(2026, 2, 1), datetime(2026, 3, 1, tzinfo=UTC)),
        (BudgetPeriod.TOTAL, NOON, None, None),
        # Half past midnight in a zone that is ahead: the UTC day is still the day before.
        (
            BudgetPeriod.DAY,
            datetime(2026, 6, 2, 0, 30, tzinfo=timezone(timedelta(hours=2))),
            date(2026, 6, 1),
            datetime(2026, 6, 2, tzinfo=UTC),
        ),
    ],
)
def test_a_budget_starts_again_at_midnight_utc(
    period: BudgetPeriod, now: datetime, start: date | None, renews_at: datetime | None
):
    assert (period.start(now), period.renews_at(now)) == (start, renews_at)


@pytest.mark.parametrize(
    "wrong",
    [
        {"models": [""]},
        {"models": ["a,b"]},
        {"models": ["a b"]},
        {"models": ["a\0"]},
        {"rates": ["often"]},
        {"rates": ["5/minute\n"]},
        {"rates": ["0/minute"]},
        {"budget_usd": -1},
        {"budget_usd": float("nan")},
        {"budget_usd": 1e10},
        {"budget_usd": "5"},
        {"budget_period": "week"},
        {"policy": "loose"},
        {"is_admin": 1},
    ],
)
def test_what_cannot_be_applied_is_no_rule(wrong: dict[str, Any]):
    with pytest.raises(ValidationError):
        KeyRules.model_validate(wrong)


def test_a_budget_is_counted_in_whole_micro_dollars():
    assert KeyRules(budget_usd=0.29).budget_micro == 290_000
    assert KeyRules(budget_usd=0).budget_micro == 0
    assert KeyRules() == NO_RULES
    assert NO_RULES.budget_micro is None
