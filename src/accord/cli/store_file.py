"""Where SQLite's file is, and that nobody else can read it: it holds what users and models said, and token hashes."""

import os
import sys
from pathlib import Path
from typing import Final

from accord.config import Loaded
from accord.config.state import PRIVATE_FILE, make_state_folder, state_folder
from accord.core.terminal import make_line
from accord.errors import UsageError

FILE_NAME: Final = "accord.db"
COMPANIONS: Final = ("", "-wal", "-shm")
"""What SQLite appends to the name of a file for its log and its index; they get the mode of the file itself."""


def store_path(loaded: Loaded) -> Path:
    """Where SQLite's file is: as configured, else in the user's state folder."""
    written = loaded.config.store.path
    return state_folder(os.environ) / FILE_NAME if written is None else loaded.path_of(written)


def prepare_store_file(loaded: Loaded, *, create: bool) -> Path:
    """The path of the store's file, which is made for its owner alone if it is not there and may be."""
    is_ours, path = loaded.config.store.path is None, store_path(loaded)
    if is_ours:
        _tell_of_older(loaded.path_of(FILE_NAME), path)
        if create:
            make_state_folder(os.environ)
    if path.exists():
        _close_to_others(path, is_ours=is_ours)
    elif create and path.parent.is_dir():
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, PRIVATE_FILE))
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
    return path


def _tell_of_older(older: Path, path: Path) -> None:
    """Say where sessions are now, if an earlier version kept some beside the configuration or in this folder."""
    if older.is_file():
        told = f"accord: sessions are kept in {path} now, and {older} is not used; --store {older} uses it"
        print(make_line(told), file=sys.stderr)


def _close_to_others(path: Path, *, is_ours: bool) -> None:
    if os.name != "posix" or not path.is_file() or not path.stat().st_mode & 0o077:
        return
    if not is_ours:  # whoever chose the place may have chosen the readers, too
        told = f"accord: {path} can be read by other users of this machine; `chmod 600 {path}` changes that"
        print(make_line(told), file=sys.stderr)
        return
    for companion in COMPANIONS:
        file = path.with_name(path.name + companion)
        if file.exists():
            file.chmod(PRIVATE_FILE)
