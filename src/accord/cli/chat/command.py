"""`accord chat`: its options, and how its parts are put together."""

import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from functools import partial
from getpass import getpass
from typing import IO, Annotated, Final, TypedDict, cast
from uuid import uuid4

import typer

from accord.assembly.local_service import open_local_service
from accord.assembly.parts import build_engine
from accord.cli.chat.connection import Connection
from accord.cli.chat.graphics import find_protocol
from accord.cli.chat.plain import PlainOutput
from accord.cli.chat.prompt import LineEditor, read_input_line
from accord.cli.chat.screen import ScreenOutput
from accord.cli.chat.session import COMMANDS, Chat, ChatState, DeclaredClient, read_declared_client
from accord.cli.chat.turn import Output, TurnRunner
from accord.cli.configuration import load
from accord.cli.options import AgentArgument, ConfigOption, LogLevelOption, StoreOption, TrustOption
from accord.client import AsyncClient
from accord.client.settings import Wait
from accord.config import LimitsConfig, LoadedConfig, StoreKind
from accord.console import Console
from accord.core.output.profile import NAMED_CLIENTS
from accord.errors import AccordError, ErrorCode, UsageError
from accord.run import Engine
from accord.servers.http.serve import ExitDeadline
from accord.servers.observability import set_up_logging
from accord.wire.event import PresentationEventType
from accord.wire.request import ClientCapabilities, TextProfile

TOKEN_VARIABLE: Final = "ACCORD_TOKEN"  # noqa: S105 - a name
EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130
ANSWER_S: Final = 30.0
"""How long the service may take to answer anything but a turn."""
LEAVE_S: Final = 5.0
"""How long the command may take to end, whatever an agent in this process does."""
PIPE: Final = DeclaredClient(
    "pipe", ClientCapabilities(supported_events=[], prefers_markdown=False, text_profile=TextProfile.PLAIN)
)
"""A pipe shows no markdown and no events."""


def chat_command(  # noqa: PLR0913 - one flag each
    agent: AgentArgument = None,
    *,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Chat with a service; AGENT is then one that it has.")
    ] = None,
    client: Annotated[
        str | None, typer.Option("--as", metavar="CLIENT", help="web, cli, voice, or a file with ClientCapabilities.")
    ] = None,
    user: Annotated[str, typer.Option(metavar="NAME", help="User of the requests; that of the token, if any.")] = "me",
    log_level: LogLevelOption = "error",
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Chat with an agent in the terminal.

    The agent runs in this process, as `accord serve` finds it, or at the --url of a service, whose token is read from
    ACCORD_TOKEN or asked for. With a pipe, each line is a prompt and standard output gets the answers as plain text;
    exit status 1 if a turn was refused or failed.

    Examples:
      accord chat my_agent.py
      accord chat --url http://127.0.0.1:8000 --as voice
      echo "Hello" | accord chat
    """
    if url is not None and (config is not None or store is not None):
        raise UsageError("--config and --store are for an agent in this process; leave them out, or --url")
    screen = _open_screen()
    declared = screen.declared if client is None else read_declared_client(client, "--as")
    runner = TurnRunner(screen.output)
    options: ClientOptions = {"user": user, "session_id": f"chat-{uuid4()}", "wait": runner.wait, "timeout_s": ANSWER_S}
    if url is None:
        with redirect_stderr(cast("IO[str]", runner.printed)):  # log lines, too, are shown above an answer
            set_up_logging(log_level, as_json=False)
        loaded = load(config, trusted=trust, store=store or StoreKind.MEMORY)
        engine = build_engine(loaded, agent=agent)
        target = ChatTarget("in this process", lambda _: _open_local(loaded, engine, options), loaded.config.limits)
    else:
        target = ChatTarget(f"at {url}", partial(_open_remote, url, agent, options), LimitsConfig(), agent)
    raise typer.Exit(_chat(target, screen, runner, declared))


class ClientOptions(TypedDict):
    """The options of the client, in this process and over HTTP."""

    user: str
    session_id: str
    wait: Wait
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ChatTarget:
    """What the user chats with: where it is, and how a client for it is opened with a token."""

    place: str
    open_client: Callable[[str | None], AbstractAsyncContextManager[AsyncClient]]
    limits: LimitsConfig
    agent: str | None = None
    """The agent of the service that must answer, if it is named."""


@dataclass(frozen=True, slots=True)
class ChatScreen:
    """Where prompts come from and answers go."""

    output: Output
    console: Console
    """For the output of commands."""
    declared: DeclaredClient
    """What can be shown here."""
    is_typed: bool
    is_drawn: bool


def _chat(target: ChatTarget, screen: ChatScreen, runner: TurnRunner, declared: DeclaredClient) -> int:
    """Chat until the user leaves; return the exit status."""
    if screen.is_typed:
        # A shell without job control has turned Ctrl-C off for what it starts in the background.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    token = os.environ.get(TOKEN_VARIABLE) or None
    with ExitDeadline() as deadline:
        while True:
            with Connection(partial(target.open_client, token)) as connection:
                chat = Chat(
                    connection,
                    runner,
                    screen.output,
                    screen.console,
                    ChatState(declared),
                    agent=target.agent,
                    max_block_bytes=target.limits.max_block_bytes,
                )
                try:
                    if screen.is_typed and (entered := _greet(chat, screen.output, target.place)):
                        token = entered
                        continue
                    status = _run(chat, screen)
                except KeyboardInterrupt:
                    status = EXIT_INTERRUPTED
                deadline.set(LEAVE_S, status)
            return status


def _open_screen() -> ChatScreen:
    console, is_typed = Console(), sys.stdin.isatty()
    if not (is_typed and console.is_terminal and not console.is_dumb_terminal):
        return ChatScreen(PlainOutput(), Console(stderr=True), PIPE, is_typed, is_drawn=False)
    protocol, shown = find_protocol(os.environ), NAMED_CLIENTS["cli"]
    if protocol is not None and shown is not None:
        events = [*shown.supported_events, PresentationEventType.MEDIA_CAROUSEL]
        shown = shown.model_copy(update={"supported_events": events})
    name = "cli" if protocol is None else "cli with images"
    return ChatScreen(ScreenOutput(console, protocol), console, DeclaredClient(name, shown), is_typed, is_drawn=True)


@asynccontextmanager
async def _open_local(loaded: LoadedConfig, engine: Engine, options: ClientOptions) -> AsyncGenerator[AsyncClient]:
    async with (
        open_local_service(loaded, engine, options["user"]) as service,
        AsyncClient(service.address, token=service.token, use_proxy=False, **options) as client,
    ):
        yield client


@asynccontextmanager
async def _open_remote(
    url: str, agent: str | None, options: ClientOptions, token: str | None
) -> AsyncGenerator[AsyncClient]:
    async with AsyncClient(url, agent=agent, token=token, **options) as client:
        yield client


def _greet(chat: Chat, output: Output, place: str) -> str | None:
    """Say what the user chats with; return the token that the user has entered because the service requires one."""
    try:
        party = chat.fetch_agent()
    except AccordError as error:
        chat.show_error(error)
        with suppress(EOFError):
            return getpass("Token: ").strip() if error.code is ErrorCode.UNAUTHENTICATED else None
        return None
    output.note(
        f"{party.name} {place}, accepts {', '.join(party.accepts)}. Shown as {chat.state.declared.name}. "
        "/help lists the commands, Ctrl-D leaves."
    )
    return None


def _run(chat: Chat, screen: ChatScreen) -> int:
    if not screen.is_typed:
        return 0 if chat.run_lines(read_input_line) else EXIT_FAILED
    if screen.is_drawn:
        editor = LineEditor(COMMANDS)
        chat.run_terminal(editor.read_line, editor.remember)
    else:
        chat.run_terminal(read_input_line)
    return 0
