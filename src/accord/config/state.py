"""The folder in which Accord keeps what belongs to this user: sessions, and which configurations are trusted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import platformdirs

from accord.errors import UsageError

STATE_VARIABLE: Final = "ACCORD_STATE_DIR"
PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder that the environment names, else the platform's own place for a user's state."""
    if named := environ.get(STATE_VARIABLE):
        return Path(named).expanduser().absolute()
    return platformdirs.user_state_path("accord", appauthor=False)


def make_state_folder(environ: Mapping[str, str]) -> Path:
    """The same folder, there and closed to other users."""
    folder = state_folder(environ)
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            folder.chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}; set {STATE_VARIABLE} to a folder of your own") from error
    return folder
