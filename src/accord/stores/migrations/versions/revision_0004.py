"""Remember that tokens were used, after the last of them is revoked."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table; a store that has tokens now has used them."""
    op.create_table(
        "token_use",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_token_use"),
    )
    op.execute("INSERT INTO token_use (id, since) SELECT 1, min(created_at) FROM tokens HAVING count(*) > 0")
