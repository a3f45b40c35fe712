"""Receipts without what is in their text as well; their text may be packed (`receipt_text.py`)."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Note the receipt of each turn, drop the columns. Texts stay as they are; SQLite copies the table to change it."""
    op.add_column("turns", sa.Column("receipt_position", sa.Integer))
    its_receipt = "SELECT position FROM receipts WHERE receipts.request_id = turns.request_id"
    op.execute(f"UPDATE turns SET receipt_position = ({its_receipt})")  # noqa: S608 - words of this file
    if op.get_bind().dialect.name == "sqlite":
        op.create_table(
            "new_receipts",
            sa.Column("session_id", ID, nullable=False),
            sa.Column("position", sa.Integer, autoincrement=False, nullable=False),
            sa.Column("body", sa.LargeBinary, nullable=False),
            sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name="fk_receipts", ondelete="CASCADE"),
            sa.PrimaryKeyConstraint("session_id", "position", name="pk_receipts"),
        )
        op.execute("INSERT INTO new_receipts SELECT session_id, position, CAST(body AS BLOB) FROM receipts")
        op.drop_table("receipts")
        op.rename_table("new_receipts", "receipts")
        return
    op.alter_column("receipts", "body", type_=sa.LargeBinary, postgresql_using="convert_to(body, 'UTF8')")
    for name in ("request_id", "hash", "previous_hash"):
        op.drop_column("receipts", name)
