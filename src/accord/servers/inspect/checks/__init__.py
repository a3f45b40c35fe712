"""Every check, in the order in which they run; each file holds those of one kind."""

from typing import Final

from accord.servers.inspect.check import Check
from accord.servers.inspect.checks.content import CONTENT
from accord.servers.inspect.checks.handshake import HANDSHAKE
from accord.servers.inspect.checks.life import LIFE
from accord.servers.inspect.checks.lines import LINES

CHECKS: Final[tuple[Check, ...]] = (*HANDSHAKE, *CONTENT, *LINES, *LIFE)
