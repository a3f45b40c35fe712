"""Reads the options of a backend of kind `acp`, and says in one sentence what is wrong with them.

Options: `command` (a list of texts), `cwd` (where it works), `environ` (names of variables that it is given beside
those that every program needs), `permission` ("deny" or "allow"), `read_files` and `write_files` (folders). Folders are
absolute paths.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, cast

from accord.backends.acp import AcpBackend, AgentPermissions
from accord.config import BackendConfig
from accord.errors import UsageError
from accord.wire.manifest import CapabilityManifest

OPTIONS: Final = ("command", "cwd", "environ", "permission", "read_files", "write_files")
PERMISSIONS: Final = ("deny", "allow")
ALWAYS_GIVEN: Final = (
    "HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "SYSTEMROOT", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER",
)  # fmt: skip
"""What a program needs to run at all. Keys and the like are given by name only."""


def acp_backend(
    config: BackendConfig, manifest: CapabilityManifest, environ: Mapping[str, str] | None = None
) -> AcpBackend:
    """The backend that these options describe."""
    options = _Options(config)
    given = os.environ if environ is None else environ
    names = (*ALWAYS_GIVEN, *options.texts("environ"))
    return AcpBackend(
        config.name,
        options.command(),
        environ={name: given[name] for name in names if name in given},
        cwd=options.cwd(),
        permissions=AgentPermissions(
            options.permission(), options.folders("read_files"), options.folders("write_files")
        ),
        declared=manifest,
    )


class _Options:
    """The options of one backend, each checked when it is asked for."""

    def __init__(self, config: BackendConfig) -> None:
        self._name: Final = config.name
        self._options: Final[Mapping[str, Any]] = config.options
        unknown = sorted(set(self._options) - set(OPTIONS))
        if unknown:
            raise self._wrong(unknown[0], f"is not known; there are {', '.join(OPTIONS)}")

    def command(self) -> list[str]:
        """The program and its arguments."""
        command = self.texts("command")
        if not command or not command[0]:
            raise self._wrong("command", 'should be a list of texts, such as ["my-agent", "--acp"]')
        return command

    def cwd(self) -> str | None:
        """Where the agent works, if that is said."""
        if "cwd" not in self._options:
            return None
        cwd = self._options["cwd"]
        if not isinstance(cwd, str) or not Path(cwd).is_absolute() or not Path(cwd).is_dir():
            raise self._wrong("cwd", "should be an absolute path of a folder")
        return cwd

    def permission(self) -> Literal["deny", "allow"]:
        """What an agent is told that asks for permission."""
        said = self._options.get("permission", "deny")
        if said not in PERMISSIONS:
            raise self._wrong("permission", f"should be one of {', '.join(PERMISSIONS)}")
        return said

    def folders(self, key: str) -> list[str]:
        """Absolute paths."""
        folders = self.texts(key)
        if not all(Path(folder).is_absolute() for folder in folders):
            raise self._wrong(key, "should be a list of absolute paths")
        return folders

    def texts(self, key: str) -> list[str]:
        """A list of texts; empty if it is not given."""
        said = self._options.get(key, [])
        texts: list[Any] = cast("list[Any]", said) if isinstance(said, list) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise self._wrong(key, "should be a list of texts")
        return texts

    def _wrong(self, key: str, told: str) -> UsageError:
        return UsageError(f"backends.{self._name}: options.{key} {told}")
