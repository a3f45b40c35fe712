"""Reads the `options` table of a backend in the configuration; each mistake is one sentence that names the option."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from accord.config import BackendConfig
from accord.core.vocabulary import unknown_name
from accord.errors import UsageError


class BackendOptions:
    """The options of one backend. Every method raises `UsageError` if the option does not have the right form."""

    def __init__(self, config: BackendConfig) -> None:
        self.backend: Final = config.name
        self._values: Final = config.options

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def check_names(self, known: Sequence[str]) -> None:
        """Raise `UsageError` if an option has another name than these."""
        for name in sorted(set(self._values) - set(known)):
            raise UsageError(f"backends.{self.backend}: {unknown_name('option', name, known)}")

    def seconds(self, name: str, default: float = 0.0) -> float:
        """Return a duration above 0."""
        value = self._values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise self.error(name, f"should be a number of seconds above 0, not {value!r}")
        return float(value)

    def integer(self, name: str, default: int, maximum: int) -> int:
        """Return a whole number from 0 to the maximum."""
        value = self._values.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= maximum:
            raise self.error(name, f"should be a whole number from 0 to {maximum}, not {value!r}")
        return value

    def choice(self, name: str, words: Sequence[str]) -> str:
        """Return one of these words; the first if the option is not given."""
        value = self._values.get(name, words[0])
        if value not in words:
            raise self.error(name, f"should be one of {', '.join(words)}, not {value!r}")
        return value

    def strings(self, name: str) -> list[str]:
        """Return a list of strings; empty if the option is not given."""
        value = self._values.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[Any]", value)):
            raise self.error(name, "should be a list of strings")
        return cast("list[str]", value)

    def string_table(self, name: str) -> dict[str, str]:
        """Return a table of strings; empty if the option is not given."""
        value = self._values.get(name, {})
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in cast("dict[str, Any]", value).values()):
            raise self.error(name, "should be a table of strings")
        return cast("dict[str, str]", value)

    def absolute_paths(self, name: str) -> list[str]:
        """Return a list of absolute paths; empty if the option is not given."""
        paths = self.strings(name)
        for path in paths:
            if not Path(path).is_absolute():
                raise self.error(name, f"should be a list of absolute paths; {path!r} is a relative one")
        return paths

    def existing_path(self, name: str, *, is_folder: bool) -> str | None:
        """Return the absolute path of a file or folder; None if the option is not given."""
        value = self._values.get(name)
        if value is None:
            return None
        path = Path(value) if isinstance(value, str) else None
        if path is None or not path.is_absolute() or not (path.is_dir() if is_folder else path.is_file()):
            what = "a folder" if is_folder else "a file"
            raise self.error(name, f"should be the absolute path of {what} that exists, not {value!r}")
        return str(path)

    def typed(self, name: str, kind: Any) -> Any:
        """Return an option whose type is that of a parameter."""
        adapter: TypeAdapter[Any] = TypeAdapter(kind, config=ConfigDict(strict=True, arbitrary_types_allowed=True))
        try:
            return adapter.validate_python(self._values[name])
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            raise self.error(name, f"has the wrong type or value: {problem['msg']}") from None

    def error(self, name: str, problem: str) -> UsageError:
        """Return the error for one option."""
        return UsageError(f"backends.{self.backend}: options.{name} {problem}")
