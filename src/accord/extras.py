"""The optional parts of the package: which extra brings each library, and one error that names the missing one.

`pip install accord-agents` brings what decisions, agents and the engine need. Every other library belongs to an extra
(`[project.optional-dependencies]` of pyproject.toml; a test compares the two).
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from accord.errors import MissingExtraError

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "cli": ("platformdirs", "rich", "typer"),
    "serve": (
        "aiohappyeyeballs",
        "aiohttp",
        "alembic",
        "httptools",
        "prometheus_client",
        "sqlalchemy",
        "starlette",
        "uvicorn",
        "uvloop",
        "websockets",
    ),
    "images": ("PIL",),
    "nats": ("nats",),
    "oidc": ("jwt",),
    "otel": ("opentelemetry",),
    "postgres": ("asyncpg", "greenlet"),
    "signing": ("cryptography",),
}
"""The modules that each extra installs, besides those of the extras that it includes."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'accord-agents[{extra}]'"


def has_modules(modules: tuple[str, ...]) -> bool:
    """Whether all these modules are installed."""
    return all(find_spec(module) is not None for module in modules)


@contextmanager
def naming_extra(user: str) -> Generator[None]:
    """Within the block, importing a module of a missing extra raises `MissingExtraError`.

    Its sentence begins with `user`, which is what needs the module, and has the command that installs the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        for extra, modules in EXTRAS.items():
            if module in modules:
                sentence = f"{user} needs {module}, which is not installed: {install_command(extra)}"
                raise MissingExtraError(sentence) from error
        raise
