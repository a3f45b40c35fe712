"""What the operator chose: `accord.toml`, the environment, the command line; checked, and each value with its origin.

Only `find.py`, `state.py` and `trust.py` touch the disk. Nothing here knows a concrete backend, store or server.
"""

from accord.config.model import (
    BackendConfig,
    Config,
    EmulationChoices,
    LimitsConfig,
    OidcConfig,
    ServerConfig,
    StoreConfig,
    StoreKind,
    UnreadPolicy,
)
from accord.config.origin import LoadedConfig, Origin, OriginKind
from accord.config.read import find_config, load_config, read_config

__all__ = [
    "BackendConfig",
    "Config",
    "EmulationChoices",
    "LimitsConfig",
    "LoadedConfig",
    "OidcConfig",
    "Origin",
    "OriginKind",
    "ServerConfig",
    "StoreConfig",
    "StoreKind",
    "UnreadPolicy",
    "find_config",
    "load_config",
    "read_config",
]
