"""Where each value of a configuration came from. What the value is and whether it is right is decided elsewhere."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path as FilePath
from typing import Any, Final

from accord.config.locate import KeyPath
from accord.config.model import Config


class OriginKind(StrEnum):
    """Who said it; the later wins."""

    DEFAULT = "default"
    FILE = "file"
    ENV = "env"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Origin:
    """Who said it, and where: `accord.toml:12`, the name of a variable, a flag."""

    kind: OriginKind
    where: str = ""

    def __str__(self) -> str:
        return self.where if self.kind is OriginKind.FILE else f"{self.kind} {self.where}".strip()


DEFAULT: Final = Origin(OriginKind.DEFAULT)


@dataclass(frozen=True, slots=True)
class Override:
    """A value from outside of the file, put over it."""

    path: KeyPath
    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """The effective configuration, and where it came from; `file` is None where there is none."""

    config: Config
    origins: Mapping[KeyPath, Origin]
    file: str | None = None
    is_named: bool = True
    """Whether somebody named the file; otherwise it was found in the working directory."""
    digest: str | None = None
    """The SHA-256 of the file's text, as it was read."""

    def origin(self, path: Iterable[str | int]) -> Origin:
        """Where the value at this path came from: its own origin, or that of the nearest table around it."""
        place = tuple(path)
        if not place:
            return DEFAULT
        return self.origins.get(place) or (self.origin(place[:-1]) if self._is_inside(place) else DEFAULT)

    def _is_inside(self, place: KeyPath) -> bool:
        """Whether this is a part of one value, such as an item of a preset: tables of settings have their own."""
        return place[:2] == ("emulation", "preset")

    def path_of(self, written: str) -> FilePath:
        """A path of the configuration: relative to its file, or to the working folder without one."""
        folder = FilePath() if self.file is None else FilePath(self.file).parent
        return folder / FilePath(written).expanduser()


def written(path: KeyPath) -> str:
    """A path as people read it: `backends[0].model`."""
    told = ""
    for part in path:
        told += f"[{part}]" if isinstance(part, int) else f".{part}"
    return told.removeprefix(".")
