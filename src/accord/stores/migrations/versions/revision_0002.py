"""What processes that share a database tell each other of a running turn: its lease, its readers, a cancellation."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add three columns to the turns; a turn that runs now keeps its beginning as the start of its lease."""
    op.add_column("turns", sa.Column("leased_at", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("turns", sa.Column("read_at", sa.BigInteger))
    op.add_column("turns", sa.Column("cancel_requested", sa.Integer, nullable=False, server_default="0"))
    op.execute("UPDATE turns SET leased_at = created_at WHERE state = 'running'")
