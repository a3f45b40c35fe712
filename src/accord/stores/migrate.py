"""Brings a database up to date when it is opened, or finds that it is. Alembic is loaded only if there is work.

Runs inside the caller's transaction. Several processes may come at once: SQLite's write lock, or an advisory lock on
PostgreSQL, lets one in, and the others then find the work done.
"""

import logging
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

from accord.errors import StoreError

HEAD: Final = "0004"
LOGGER: Final = logging.getLogger("accord.stores")
FOLDER: Final = Path(__file__).parent / "migrations"

_LOCK: Final = 0x41_43_43_4F_52_44  # "ACCORD", a number of our own among a database's advisory locks


def migrate(connection: Connection) -> None:
    """Run what is missing of the revisions, if anything is; what has to be copied is announced in the log."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    if (found := _revision(connection)) != HEAD:
        if found is not None:
            LOGGER.warning("Upgrading the session store; with much data this takes minutes, once")
        _upgrade(connection, found)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _upgrade(connection: Connection, found: str | None) -> None:
    from alembic import command  # noqa: PLC0415 - a tenth of a second that only a new or old database pays
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    try:
        command.upgrade(config, HEAD)
    except CommandError:
        raise StoreError(f"The store has schema {found}, which this version of Accord does not know") from None
