"""Which optional packages a configuration needs, and whether they are installed."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from accord.config import LoadedConfig, OriginKind, StoreKind


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of the package: the modules that it installs, and the key that needs it, if the configuration has it."""

    name: str
    modules: tuple[str, ...]
    needed_by: Callable[[LoadedConfig], str | None]


def _is_set(*keys: tuple[str, ...]) -> Callable[[LoadedConfig], str | None]:
    """Which of these keys someone set, be it to its default."""

    def needed_by(loaded: LoadedConfig) -> str | None:
        return next((".".join(key) for key in keys if loaded.origin(key).kind is not OriginKind.DEFAULT), None)

    return needed_by


EXTRAS: Final = (
    Extra(
        "postgres",
        ("asyncpg", "greenlet"),
        lambda loaded: "store.kind" if loaded.config.store.kind is StoreKind.POSTGRES else None,
    ),
    Extra("oidc", ("jwt", "cryptography"), lambda loaded: "server.oidc" if loaded.config.server.oidc else None),
    Extra("signing", ("cryptography",), lambda loaded: "signing_key" if loaded.config.signing_key else None),
    Extra("images", ("PIL",), _is_set(("limits", "max_image_pixels"), ("limits", "concurrent_images"))),
)

TRACING: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
"""Variables by which traces are asked for. They may be meant for other programs, so this is no mistake."""


def missing_extras(loaded: LoadedConfig) -> Iterator[tuple[str, str]]:
    """The keys that need a package that is not installed, each with a sentence that names the command to install it."""
    for extra in EXTRAS:
        key = extra.needed_by(loaded)
        if key is not None and not _has(extra.modules):
            yield key, f"needs an extra that is not installed: {install_command(extra.name)}"


def tracing_note(environ: Mapping[str, str]) -> str | None:
    """A sentence for an operator who set up traces that nothing will write."""
    variable = next((name for name in TRACING if environ.get(name)), None)
    if variable is None or _has(("opentelemetry",)):
        return None
    return f"env {variable} is set, and traces need an extra that is not installed: {install_command('otel')}"


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'accord-agents[{extra}]'"


def _has(modules: tuple[str, ...]) -> bool:
    return all(find_spec(module) is not None for module in modules)
