"""Make keys, change their rules, and describe them: what the command line and the admin API share."""

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from accord.ports import TokenStore, UsageStore
from accord.wire.keys import MICRO, KeyInfo, KeyRequest, KeyRules
from accord.wire.message import invalid_message
from accord.wire.session import PREFIX, SECRET_BYTES, TokenRecord, token_digest


def make_key(request: KeyRequest, now: datetime) -> tuple[str, TokenRecord]:
    """Return the secret of a new key, and its record, which has only the hash of it."""
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    return secret, TokenRecord(
        token_id=secrets.token_hex(6),
        digest=token_digest(secret),
        user=request.user,
        label=request.label,
        created_at=now,
        expires_at=None if request.days is None else now + timedelta(days=request.days),
        rules=request.rules,
    )


async def find_key(store: TokenStore, key_id: str) -> TokenRecord | None:
    """The key of this id."""
    return next((key for key in await store.tokens() if key.token_id == key_id), None)


def change_rules(rules: KeyRules | None, change: Mapping[str, Any] | None) -> KeyRules | None:
    """Return the rules with some members replaced, and those that are None removed; without a change, no rules.

    Raises `InvalidMessageError` if the result is not valid.
    """
    if change is None:
        return None
    members = {**({} if rules is None else rules.dump()), **change}
    try:
        return KeyRules.model_validate({name: value for name, value in members.items() if value is not None})
    except ValidationError as error:
        raise invalid_message(KeyRules.__name__, error) from None


async def describe_key(key: TokenRecord, store: UsageStore, now: datetime) -> KeyInfo:
    """Describe a key, without its hash, with what it has spent in the current period of its budget."""
    period = key.limits.budget_period
    return KeyInfo(
        key_id=key.token_id,
        user=key.user,
        label=key.label,
        created_at=key.created_at,
        expires_at=key.expires_at,
        expired=key.is_expired(now),
        rules=key.rules,
        spent_usd=await store.spent(key.token_id, period.start(now)) / MICRO,
        renews_at=None if key.limits.budget_usd is None else period.renews_at(now),
    )
