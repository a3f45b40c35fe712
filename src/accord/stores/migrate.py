"""Upgrade the schema of a database when it is opened. Alembic is loaded only if there is something to do.

Runs inside the caller's transaction. Of several processes at the same time, SQLite's write lock or an advisory lock of
PostgreSQL lets one upgrade; the others wait and find it done.
"""

import logging
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

from accord.errors import StoreError

HEAD: Final = "0009"
LOGGER: Final = logging.getLogger("accord.stores")
FOLDER: Final = Path(__file__).parent / "migrations"

_LOCK: Final = 0x41_43_43_4F_52_44  # "ACCORD" in ASCII; no other program uses this advisory lock


def migrate(connection: Connection) -> None:
    """Run the revisions that are missing; the log announces an upgrade that may take long."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    is_new = not inspect(connection).has_table("alembic_version")
    found = None if is_new else connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if found != HEAD:
        if found is not None:
            LOGGER.warning("Upgrading the session store; with much data this takes minutes, once")
        _upgrade(connection, found)


def _upgrade(connection: Connection, found: str | None) -> None:
    from alembic import command  # noqa: PLC0415 - a tenth of a second that only a new or old database pays
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    try:
        command.upgrade(config, HEAD)
    except CommandError:
        unknown = f"The store has schema {found}, which this version of Accord does not know"
        raise StoreError(f"{unknown}; use the version that wrote it") from None
