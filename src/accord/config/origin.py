"""A configuration together with where each of its values came from. It neither reads nor validates one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path as FilePath
from typing import Any, Final

from accord.config.locate import KeyPath
from accord.config.model import Config


class OriginKind(StrEnum):
    """What set a value; a later kind overrides an earlier one."""

    DEFAULT = "default"
    FILE = "file"
    ENV = "env"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Origin:
    """What set a value, and where: `accord.toml:12`, the name of a variable, a flag."""

    kind: OriginKind
    where: str = ""

    def __str__(self) -> str:
        return self.where if self.kind is OriginKind.FILE else f"{self.kind} {self.where}".strip()


DEFAULT: Final = Origin(OriginKind.DEFAULT)


@dataclass(frozen=True, slots=True)
class Override:
    """A value of an environment variable or a flag, which replaces that of the file."""

    path: KeyPath
    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """The effective configuration with its origins; `file` is None if none was read."""

    config: Config
    origins: Mapping[KeyPath, Origin]
    file: str | None = None
    is_named: bool = True
    """Whether the user named the file; otherwise it was found in the working directory."""
    digest: str | None = None
    """The SHA-256 of the file's text, as it was read."""

    def origin(self, path: Iterable[str | int]) -> Origin:
        """Return where the value at this path came from."""
        place = tuple(path)
        # `preset = true` sets all of its members at once, so that they have the origin of the preset.
        while place not in self.origins and place[:2] == ("emulation", "preset"):
            place = place[:-1]
        return self.origins.get(place, DEFAULT)

    def path_of(self, name: str) -> FilePath:
        """Resolve a path of the configuration: relative to its file, or to the working directory if there is none."""
        folder = FilePath() if self.file is None else FilePath(self.file).parent
        return folder / FilePath(name).expanduser()


def format_key(path: KeyPath) -> str:
    """Write a key path as `backends[0].model`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
