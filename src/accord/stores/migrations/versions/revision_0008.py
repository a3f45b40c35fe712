"""Slots of backends: which of their calls run and which wait, over all processes."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "slots",
        sa.Column("backend", ID, nullable=False),
        sa.Column("slot_id", ID, nullable=False),
        sa.Column("holder", ID, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("taken_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("backend", "slot_id", name="pk_slots"),
        sqlite_with_rowid=False,
    )
