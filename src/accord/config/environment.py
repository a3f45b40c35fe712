"""What environment variables say about the configuration: one table. Secrets are read where they are used, not here.

Beside the table there are `ACCORD_CONFIG` (which file), `ACCORD_STATE_DIR` (where this user's state is kept),
`ACCORD_KEY_<BACKEND>` (a backend's key, over `key_env`) and `ACCORD_STORE_URL` (the store's address unless `url_env`
names another).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from accord.config.model import KEY_PREFIX
from accord.config.origin import Origin, OriginKind, Override
from accord.config.state import STATE_VARIABLE
from accord.core.suggest import closest
from accord.errors import Mistake

CONFIG_VARIABLE: Final = "ACCORD_CONFIG"
STORE_URL_VARIABLE: Final = "ACCORD_STORE_URL"
OTHERS: Final = (CONFIG_VARIABLE, STORE_URL_VARIABLE, STATE_VARIABLE)
"""Variables that set no key of the configuration."""
PREFIX: Final = "ACCORD_"
WORDS: Final = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _text(given: str) -> str:
    return given


def _word(given: str) -> bool:
    if given.lower() not in WORDS:
        raise ValueError
    return WORDS[given.lower()]


VARIABLES: Final[Mapping[str, tuple[tuple[str, ...], Callable[[str], Any], str]]] = {
    "ACCORD_POLICY": (("policy",), _text, "text"),
    "ACCORD_UNKNOWN": (("unknown",), _text, "text"),
    "ACCORD_DEFAULT_AGENT": (("default_agent",), _text, "text"),
    "ACCORD_RETENTION_DAYS": (("retention_days",), int, "a whole number"),
    "ACCORD_EMULATION_PRESET": (("emulation", "preset"), _word, "true or false"),
    "ACCORD_EMULATION_MAX_RETRIES": (("emulation", "max_retries"), int, "a whole number"),
    "ACCORD_EMULATION_DESCRIBE_IMAGES_WITH": (("emulation", "describe_images_with"), _text, "text"),
    "ACCORD_LIMITS_FIRST_PACKET_S": (("limits", "first_packet_s"), float, "a number"),
    "ACCORD_LIMITS_GAP_S": (("limits", "gap_s"), float, "a number"),
    "ACCORD_LIMITS_TURN_S": (("limits", "turn_s"), float, "a number"),
    "ACCORD_LIMITS_CONCURRENT_TURNS": (("limits", "concurrent_turns"), int, "a whole number"),
    "ACCORD_SERVER_HOST": (("server", "host"), _text, "text"),
    "ACCORD_SERVER_PORT": (("server", "port"), int, "a whole number"),
    "ACCORD_STORE_KIND": (("store", "kind"), _text, "text"),
    "ACCORD_STORE_PATH": (("store", "path"), _text, "text"),
}
"""Variable, the key that it sets, how its text is read, and what is expected there."""


def overrides_of(environ: Mapping[str, str]) -> tuple[list[Override], list[Mistake]]:
    """What the environment puts over the file, and what is wrong with it. An empty variable says nothing."""
    overrides: list[Override] = []
    mistakes: list[Mistake] = []
    for name, (path, read, kind) in VARIABLES.items():
        given = environ.get(name, "")
        if not given:
            continue
        origin = Origin(OriginKind.ENV, name)
        try:
            overrides.append(Override(path, read(given), origin))
        except ValueError:
            mistakes.append(Mistake(str(origin), ".".join(path), f"expected {kind}"))
    return overrides, mistakes


def unread_variables(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each `ACCORD_…` variable that looks like a misspelt one of the table."""
    told: list[str] = []
    for name in sorted(environ):
        known = name in VARIABLES or name in OTHERS or name.startswith(KEY_PREFIX)
        if known or not name.startswith(PREFIX):
            continue
        if near := closest(name.removeprefix(PREFIX), (each.removeprefix(PREFIX) for each in (*VARIABLES, *OTHERS))):
            told.append(f"env {name}: this variable is not used; did you mean {PREFIX}{near}?")
    return told
