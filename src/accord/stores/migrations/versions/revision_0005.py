"""Packets as the agent made them: what each turn's client declared, no items; conversations across sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add columns and drop the items: an item is an event among the packets now.

    Packets of older turns were adapted before they were stored. Without a declaration they are read as they are.
    """
    op.add_column("turns", sa.Column("capabilities", sa.Text))
    op.add_column("turns", sa.Column("conversation_id", ID))
    op.add_column("messages", sa.Column("conversation_id", ID))
    op.add_column("messages", sa.Column("added_at", sa.BigInteger))
    is_named = sa.text("conversation_id IS NOT NULL")
    op.create_index(
        "ix_messages_conversation",
        "messages",
        ["conversation_id", "added_at"],
        sqlite_where=is_named,
        postgresql_where=is_named,
    )
    op.drop_table("items")
