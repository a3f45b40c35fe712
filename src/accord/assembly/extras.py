"""Which optional packages a configuration needs, and whether they are installed."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from accord.config import LoadedConfig, OriginKind, QueueKind, StoreKind
from accord.extras import EXTRAS, has_modules, install_command


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of the package, and a function that returns the key of a configuration that needs it."""

    name: str
    needed_by: Callable[[LoadedConfig], str | None]


def _is_set(*keys: tuple[str, ...]) -> Callable[[LoadedConfig], str | None]:
    """Make the function that returns the first of these keys that is set, even to its default."""

    def needed_by(loaded: LoadedConfig) -> str | None:
        return next((".".join(key) for key in keys if loaded.origin(key).kind is not OriginKind.DEFAULT), None)

    return needed_by


CONFIGURED: Final = (
    Extra(
        "postgres",
        lambda loaded: "store.kind" if loaded.config.store.kind is StoreKind.POSTGRES else None,
    ),
    Extra("nats", lambda loaded: "queue.kind" if loaded.config.queue.kind is QueueKind.NATS else None),
    Extra("oidc", lambda loaded: "server.oidc" if loaded.config.server.oidc else None),
    Extra("signing", lambda loaded: "signing_key" if loaded.config.signing_key else None),
    Extra("images", _is_set(("limits", "max_image_pixels"), ("limits", "concurrent_images"))),
)

TRACING: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
"""Variables that turn traces on. They may be meant for other programs, so a missing extra is only a note."""


def missing_extras(loaded: LoadedConfig) -> Iterator[tuple[str, str]]:
    """Yield each key that needs an extra that is not installed, with a message that has the command to install it."""
    for extra in CONFIGURED:
        key = extra.needed_by(loaded)
        if key is not None and not has_modules(EXTRAS[extra.name]):
            yield key, f"needs an extra that is not installed: {install_command(extra.name)}"


def tracing_note(environ: Mapping[str, str]) -> str | None:
    """Return a message if traces are turned on and their extra is not installed."""
    variable = next((name for name in TRACING if environ.get(name)), None)
    if variable is None or has_modules(EXTRAS["otel"]):
        return None
    return f"env {variable} is set, but traces need an extra that is not installed: {install_command('otel')}"
