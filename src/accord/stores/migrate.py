"""Upgrade the schema of a database when it is opened. Alembic is loaded only if there is something to do.

Runs inside the caller's transaction. Of several processes at the same time, SQLite's write lock or an advisory lock of
PostgreSQL lets one upgrade; the others wait and find it done.
"""

import logging
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

from accord.errors import StoreError
from accord.stores.schema import METADATA

HEAD: Final = "0011"
LOGGER: Final = logging.getLogger("accord.stores")
FOLDER: Final = Path(__file__).parent / "migrations"

_LOCK: Final = 0x41_43_43_4F_52_44  # "ACCORD" in ASCII; no other program uses this advisory lock


def migrate(connection: Connection) -> None:
    """Run the revisions that are missing; the log announces an upgrade that may take long."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    is_new = not inspect(connection).has_table("alembic_version")
    found = None if is_new else _revision(connection)
    if found != HEAD:
        _upgrade(connection, found)


def check_schema(connection: Connection) -> None:
    """Raise `StoreError` if a newer version has upgraded the store meanwhile, and this one cannot go on with it.

    It can if every column that it uses is still there, and none that it does not know needs a value.
    """
    if (found := _revision(connection)) == HEAD:
        return
    inspector = inspect(connection)
    for table in METADATA.tables.values():
        exists = inspector.has_table(table.name)
        columns = {each["name"]: each for each in inspector.get_columns(table.name)} if exists else {}
        needed = {name for name, each in columns.items() if not each["nullable"] and each["default"] is None}
        ours = {column.name for column in table.columns}
        if changed := sorted((ours - columns.keys()) | (needed - ours)):
            names = ", ".join(f"{table.name}.{name}" for name in changed)
            problem = f"A newer version of Accord has upgraded the store to schema {found}, which changes {names}"
            raise StoreError(f"{problem}; stop this process and start that version")


def _revision(connection: Connection) -> str | None:
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _upgrade(connection: Connection, found: str | None) -> None:
    from alembic import command  # noqa: PLC0415 - a tenth of a second that only a new or old database pays
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        unknown = f"The store has schema {found}, which this version of Accord does not know"
        raise StoreError(f"{unknown}; use the version that wrote it")
    if found is not None:
        LOGGER.warning("Upgrading the session store; with much data this takes minutes, once")
    command.upgrade(config, HEAD)
