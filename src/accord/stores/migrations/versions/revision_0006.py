"""Rules of tokens, which make them virtual keys; and usage by key, user, backend, model and day."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
KEY = ("key_id", "user", "backend", "model")
COUNTS = ("requests", "failed", "input_tokens", "output_tokens", "cached_input_tokens", "cost_micro", "priced")


def upgrade() -> None:
    """Add the column and the table; a token without rules may do what it could do before."""
    op.add_column("tokens", sa.Column("rules", sa.Text))
    op.create_table(
        "model_usage",
        *(sa.Column(name, ID, nullable=False) for name in KEY),
        sa.Column("day", sa.Text, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in COUNTS),
        sa.PrimaryKeyConstraint(*KEY, "day", name="pk_model_usage"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_model_usage_user", "model_usage", ["user"])
