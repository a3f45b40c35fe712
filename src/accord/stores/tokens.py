"""Statements on API tokens: plain functions over a connection, the same on every engine.

As in `statements.py`, none of them begins or ends a transaction. Only hashes of tokens are stored.
"""

from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, literal, select, update

from accord.errors import InvalidMessageError, StoreConflictError, StoreError
from accord.stores.prepared import PreparedStatement, Row, by_engine, values_of
from accord.stores.rules import HAS_TOKENS, NOT_NEW
from accord.stores.schema import token_use, tokens
from accord.wire.keys import KeyRules
from accord.wire.session import TokenRecord

_TOKEN: Final = [tokens.c[name] for name in TokenRecord.model_fields]

_PUT: Final = by_engine(lambda new: new(tokens).values(values_of(tokens)).on_conflict_do_nothing())
_REQUIRE: Final = by_engine(lambda new: new(token_use).values(values_of(token_use)).on_conflict_do_nothing())


def put_token(connection: Connection, token: TokenRecord) -> None:
    """Store a new token; from now on callers need one."""
    if not _PUT.rowcount(connection, {**vars(token), "rules": _rules_text(token.rules)}):
        raise StoreConflictError(NOT_NEW)
    _REQUIRE.rowcount(connection, {"id": 1, "since": token.created_at})


_BY_DIGEST: Final = PreparedStatement(select(*_TOKEN).where(tokens.c.digest == bindparam("of")))


def token_by_digest(connection: Connection, digest: str) -> TokenRecord | None:
    """The token of that hash."""
    row = _BY_DIGEST.first(connection, {"of": digest})
    return None if row is None else _token(row)


_ALL: Final = PreparedStatement(select(*_TOKEN).order_by(tokens.c.created_at, tokens.c.token_id))


def all_tokens(connection: Connection) -> list[TokenRecord]:
    """Every token, the oldest first."""
    return [_token(row) for row in _ALL.rows(connection, {})]


_REVOKE: Final = PreparedStatement(delete(tokens).where(tokens.c.token_id == bindparam("of")))


def revoke_token(connection: Connection, token_id: str) -> bool:
    """Delete a token; whether there was one."""
    return _REVOKE.rowcount(connection, {"of": token_id}) > 0


_SET_RULES: Final = PreparedStatement(
    update(tokens).where(tokens.c.token_id == bindparam("of")).values(rules=bindparam("new", type_=tokens.c.rules.type))
)


def set_token_rules(connection: Connection, token_id: str, rules: KeyRules | None) -> bool:
    """Replace the rules of a token; whether there was one."""
    return _SET_RULES.rowcount(connection, {"of": token_id, "new": _rules_text(rules)}) > 0


_WAS_USED: Final = PreparedStatement(select(literal(1)).select_from(token_use).limit(1))
_ANY: Final = PreparedStatement(select(literal(1)).select_from(tokens).limit(1))


def requires_tokens(connection: Connection) -> bool:
    """Whether any token was stored since the last `allow_open`, or exists now."""
    return any(each.first(connection, {}) is not None for each in (_WAS_USED, _ANY))


_ALLOW_OPEN: Final = PreparedStatement(delete(token_use))


def allow_open(connection: Connection) -> None:
    """Allow access without tokens again; raises a conflict while there are tokens."""
    if _ANY.first(connection, {}) is not None:
        raise StoreConflictError(HAS_TOKENS)
    _ALLOW_OPEN.rowcount(connection, {})


def _token(row: Row) -> TokenRecord:
    fields: dict[str, Any] = dict(zip(TokenRecord.model_fields, row, strict=True))
    rules: str | None = fields.pop("rules")
    try:
        return TokenRecord(**fields, rules=None if rules is None else KeyRules.parse(rules))
    except InvalidMessageError as error:
        # A newer version may have rules that this one cannot apply; without them the key would be allowed too much.
        raise StoreError(f"The rules of token {fields['token_id']} cannot be read: {error.message}") from error


def _rules_text(rules: KeyRules | None) -> str | None:
    return None if rules is None else rules.to_json()
