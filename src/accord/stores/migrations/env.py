"""Alembic's entry: runs the revisions on the connection, and in the transaction, that `migrate.py` hands over."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
