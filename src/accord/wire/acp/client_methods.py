"""The files and terminals of a client, which an agent of version 1 may use if the client declares them."""

from pydantic import Field

from accord.wire.acp.base import AcpMessage, Count, NullIsEmpty
from accord.wire.acp.session import EnvVariable, SessionRequest


class ReadTextFileRequest(SessionRequest, frozen=True):
    """Read a text file, or a part of it; `line` counts from 1."""

    path: str
    line: Count | None = None
    limit: Count | None = None


class WriteTextFileRequest(SessionRequest, frozen=True):
    """Write a text file."""

    path: str
    content: str


class CreateTerminalRequest(SessionRequest, frozen=True):
    """Run a command in a new terminal."""

    command: str
    args: NullIsEmpty[str] = Field(default_factory=list[str])
    env: NullIsEmpty[EnvVariable] = Field(default_factory=list[EnvVariable])
    cwd: str | None = None
    output_byte_limit: Count | None = None


class TerminalRequest(SessionRequest, frozen=True):
    """Get the output of a terminal, wait for its command, end the command, or release the terminal."""

    terminal_id: str


class AuthenticateResponse(AcpMessage, frozen=True):
    """The client is authenticated."""


class LogoutResponse(AcpMessage, frozen=True):
    """The client is logged out."""
