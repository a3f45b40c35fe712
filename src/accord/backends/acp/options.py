"""Builds a backend of kind `acp` from its options.

`command` is a list of strings, `cwd` the agent's working folder, `environ` names variables that the agent gets beside
`ALWAYS_GIVEN`, `permission` is "deny" or "allow", `read_files` and `write_files` are folders. Paths are absolute.
"""

import os
from collections.abc import Mapping
from typing import Final, Literal, cast

from accord.backends.acp import AcpBackend, AgentPermissions
from accord.backends.options import BackendOptions
from accord.config import BackendConfig
from accord.wire.manifest import CapabilityManifest

OPTIONS: Final = ("command", "cwd", "environ", "permission", "read_files", "write_files")
ALWAYS_GIVEN: Final = (
    "HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "SYSTEMROOT", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER",
)  # fmt: skip
"""Variables that any program needs to run. An agent gets no others, so that it sees no keys it was not given."""


def acp_backend(
    config: BackendConfig, manifest: CapabilityManifest, environ: Mapping[str, str] | None = None
) -> AcpBackend:
    """Return the backend that the configuration describes."""
    options = BackendOptions(config)
    options.check_names(OPTIONS)
    command = options.strings("command")
    if not command or not command[0]:
        raise options.error("command", 'should be a list of strings, such as ["my-agent", "--acp"]')
    variables = os.environ if environ is None else environ
    names = (*ALWAYS_GIVEN, *options.strings("environ"))
    permission = cast("Literal['deny', 'allow']", options.choice("permission", ("deny", "allow")))
    return AcpBackend(
        config.name,
        command,
        environ={name: variables[name] for name in names if name in variables},
        cwd=options.existing_path("cwd", is_folder=True),
        permissions=AgentPermissions(
            permission, options.absolute_paths("read_files"), options.absolute_paths("write_files")
        ),
        declared=manifest,
    )
