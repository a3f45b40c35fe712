"""What the operator chose: `accord.toml`, the environment, the command line; checked, and each value with its origin.

    find.py ──> text ──> read.py: parse, override, check ──> Loaded(config, origins) ──> translate.py: what `core` takes

Only `find.py`, `state.py` and `trust.py` touch the disk. Nothing here knows a concrete backend, store or server.
"""

from accord.config.find import find_config, load_config
from accord.config.model import (
    BackendConfig,
    Config,
    EmulationChoices,
    LimitsConfig,
    OidcConfig,
    ServerConfig,
    StoreConfig,
    StoreKind,
    Unread,
)
from accord.config.origin import Loaded, Origin, OriginKind
from accord.config.read import read_config
from accord.config.translate import content_limits, emulation_settings, plan_config

__all__ = [
    "BackendConfig",
    "Config",
    "EmulationChoices",
    "LimitsConfig",
    "Loaded",
    "OidcConfig",
    "Origin",
    "OriginKind",
    "ServerConfig",
    "StoreConfig",
    "StoreKind",
    "Unread",
    "content_limits",
    "emulation_settings",
    "find_config",
    "load_config",
    "plan_config",
    "read_config",
]
