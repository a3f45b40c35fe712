"""Prompts as they were sent, for clients that load a conversation; and long messages that refer to their text."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the table and the columns; earlier turns have no prompt, and earlier messages have their own text."""
    op.create_table(
        "prompts",
        sa.Column("request_id", ID, nullable=False),
        sa.Column("part", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(["request_id"], ["turns.request_id"], name="fk_prompts", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("request_id", "part", name="pk_prompts"),
    )
    op.add_column("turns", sa.Column("prompt_bytes", sa.Integer, nullable=False, server_default="0"))
    op.add_column("messages", sa.Column("request_id", ID))
    op.add_column("messages", sa.Column("text_in", sa.Text))
