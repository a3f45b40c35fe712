"""The operator's choices from `accord.toml`, the environment and the command line, validated, each with its origin.

No module here depends on a concrete backend, store or server.
"""

from accord.config.model import (
    BackendConfig,
    CircuitConfig,
    Config,
    EmulationChoices,
    GroupConfig,
    LimitsConfig,
    OidcConfig,
    QueueConfig,
    QueueKind,
    ServerConfig,
    StoreConfig,
    StoreKind,
    UnreadPolicy,
)
from accord.config.origin import LoadedConfig, Origin, OriginKind
from accord.config.read import find_config, load_config, read_config

__all__ = [
    "BackendConfig",
    "CircuitConfig",
    "Config",
    "EmulationChoices",
    "GroupConfig",
    "LimitsConfig",
    "LoadedConfig",
    "OidcConfig",
    "Origin",
    "OriginKind",
    "QueueConfig",
    "QueueKind",
    "ServerConfig",
    "StoreConfig",
    "StoreKind",
    "UnreadPolicy",
    "find_config",
    "load_config",
    "read_config",
]
