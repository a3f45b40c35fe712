"""The loop of `accord chat`: a line is a prompt or a command, and whatever fails, the next line is read."""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final
from uuid import UUID, uuid4

from rich.table import Table

from accord.acp.schema_parts import ContentBlock
from accord.cli.attachments import read_attachment
from accord.cli.chat.connection import Connection, ResultT, Work
from accord.cli.chat.events import error_lines
from accord.cli.chat.prompt import ReadLine, read_prompt
from accord.cli.chat.turn import OpenStream, Output, TurnResult, TurnRunner
from accord.cli.receipt_view import account, format_totals, print_receipt
from accord.cli.render import read_client
from accord.console import Console
from accord.core.output.profile import NAMED_CLIENTS, TextForm, profile_client
from accord.core.receipt import has_valid_hash
from accord.core.vocabulary import unknown_name
from accord.errors import AccordError, ErrorCode, RefusedError, UsageError
from accord.files import parse_message, path_exists
from accord.wire.adaptation import Rung
from accord.wire.receipt import AgentParty, OutcomeStatus
from accord.wire.request import ClientCapabilities
from accord.wire.routes import CAPABILITIES_PATH
from accord.wire.service import ServiceCapabilities

_COMMAND: Final = re.compile(r"/([a-z]*)(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DeclaredClient:
    """The capabilities that the chat declares, and what it calls them. None: those of the standard client."""

    name: str
    capabilities: ClientCapabilities | None

    @property
    def is_markdown(self) -> bool:
        """Whether text for this client is markdown."""
        return profile_client(self.capabilities).text is TextForm.MARKDOWN

    def __str__(self) -> str:
        declared = "nothing, as the standard client" if self.capabilities is None else self.capabilities.to_json()
        return f"{self.name}: declares {declared}"


def read_declared_client(value: str, option: str) -> DeclaredClient:
    """Parse what `--as` and `/caps` take: the name of a client, a file, or JSON."""
    if not value.startswith("{"):
        return DeclaredClient(value, read_client(value, option))
    try:
        members = json.loads(value)
    except ValueError as error:
        raise UsageError(f"{option}: expected JSON: {error}") from None
    return DeclaredClient("as given", parse_message(members, ClientCapabilities, option))


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is sent: a text and its attachments."""

    text: str
    content: tuple[ContentBlock, ...] = ()


@dataclass(slots=True)
class ChatState:
    """What the next turn depends on, and what the commands refer to."""

    declared: DeclaredClient
    conversation: UUID = field(default_factory=uuid4)
    attached: list[tuple[str, ContentBlock]] = field(default_factory=list[tuple[str, ContentBlock]])
    last_prompt: Prompt | None = None
    last_request: UUID | None = None


class Chat:
    """One chat with one service."""

    def __init__(  # noqa: PLR0913 - the parts that are handed in
        self,
        connection: Connection,
        runner: TurnRunner,
        output: Output,
        console: Console,
        state: ChatState,
        *,
        agent: str | None,
        max_block_bytes: int,
    ) -> None:
        self._connection: Final = connection
        self._runner: Final = runner
        self._output: Final = output
        self._console: Final = console
        """For the output of commands."""
        self.state: Final = state
        self._agent: Final = agent
        self._max_block_bytes: Final = max_block_bytes

    def run_lines(self, read_line: ReadLine) -> bool:
        """Take each line of a pipe, up to the first turn that fails; return whether none did."""
        while (line := read_prompt(read_line)) is not None:
            end = self.take(line)
            if end is None:
                return True
            if end.is_stopped:
                raise KeyboardInterrupt
            if end.error is not None:
                return False
        return True

    def run_terminal(self, read_line: ReadLine, remember: Callable[[str], None] = lambda _: None) -> None:
        """Take each line that is typed, until the user leaves; Ctrl-C twice raises `KeyboardInterrupt`."""
        interrupts = 0
        while True:
            self._console.print()
            try:
                line = read_prompt(read_line)
            except KeyboardInterrupt:
                interrupts += 1
                if interrupts > 1:
                    raise
                self._console.print()
                self._output.note("Ctrl-C again or Ctrl-D leaves")
                continue
            interrupts = 0
            if line is None:
                return
            if line.strip():
                remember(line)
            if self.take(line) is None:
                return

    def take(self, line: str) -> TurnResult | None:
        """Send a line as a prompt or run it as a command; None if the user leaves."""
        line = line.strip()
        if line.startswith("//"):
            return self._send(Prompt(line[1:]))
        found = _COMMAND.fullmatch(line)
        if found is None:
            return self._send(Prompt(line)) if line else TurnResult()
        name, argument = f"/{found[1]}", (found[2] or "").strip()
        try:
            if name not in COMMANDS:
                raise UsageError(unknown_name("command", name, COMMANDS))
            return COMMANDS[name].run(self, argument)
        except AccordError as error:
            self.show_error(error)
            return TurnResult(error)

    def fetch_agent(self) -> AgentParty:
        """Ask the service for the agent and what it accepts."""
        members = self._fetch(lambda client: client.capabilities())
        found = parse_message(members, ServiceCapabilities, CAPABILITIES_PATH)
        if self._agent is None:
            return found.agent
        if self._agent not in found.agents:
            known = ", ".join(found.agents) or found.agent.name
            raise RefusedError(f"There is no agent {self._agent}; the service has {known}", ErrorCode.NOT_FOUND, {})
        return found.agents[self._agent]

    def attach(self, argument: str) -> TurnResult:
        """Attach a file to the next prompt, if the agent accepts its kind."""
        if not argument:
            names = ", ".join(name for name, _ in self.state.attached)
            self._output.note(f"Attached to the next prompt: {names or 'nothing'}; /attach FILE attaches a file")
            return TurnResult()
        name = _file_name(argument)
        block, party = read_attachment(name, self._max_block_bytes), self.fetch_agent()
        if block.type not in party.accepts:
            raise UsageError(
                f"{name} is content of the type {block.type}, and the agent {party.name} accepts "
                f"{', '.join(party.accepts)}; it was not attached"
            )
        self.state.attached.append((name, block))
        self._output.note(f"Attached {name} ({block.type}) to the next prompt")
        return TurnResult()

    def explain(self, argument: str) -> TurnResult:
        """Print the receipt of the last turn."""
        del argument
        request_id = self._last_request()
        receipt = self._fetch(lambda client: client.receipt(request_id))
        print_receipt(self._console, receipt, is_intact=has_valid_hash(receipt.dump()))
        return TurnResult()

    def declare(self, argument: str) -> TurnResult:
        """Show the declared capabilities, or declare others and show the last turn again as they have it."""
        if argument:
            self.state.declared = read_declared_client(argument, "/caps")
        declared, request_id = self.state.declared, self.state.last_request
        self._output.note(str(declared))
        if not argument or request_id is None:
            return TurnResult()
        # A declaration of nothing is given by its name: without any, the turn is read as it was sent.
        read_as = "web" if declared.capabilities is None else declared.capabilities
        return self._run(request_id, lambda client: client.resume(request_id, capabilities=read_as))

    def start_conversation(self, argument: str) -> TurnResult:
        """Start a conversation."""
        del argument
        self.state.conversation, self.state.attached = uuid4(), []
        self._output.note("A new conversation; the agent sees nothing of the last one")
        return TurnResult()

    def retry(self, argument: str) -> TurnResult:
        """Send the last prompt again."""
        del argument
        if self.state.last_prompt is None:
            raise UsageError("There is no prompt to send again yet; type one")
        return self._send(self.state.last_prompt)

    def show_help(self, argument: str) -> TurnResult:
        """Print the commands."""
        del argument
        commands = Table.grid(padding=(0, 2))
        for command in COMMANDS.values():
            commands.add_row(command.usage, command.summary)
        self._console.print(commands)
        self._output.note("A line that ends with \\ goes on in the next one; // begins a prompt with a slash.", "")
        self._output.note("Ctrl-C stops a turn, twice it leaves, and so does Ctrl-D.", "")
        return TurnResult()

    def _send(self, prompt: Prompt) -> TurnResult:
        state = self.state
        if state.attached:
            prompt = Prompt(prompt.text, tuple(block for _, block in state.attached))
            state.attached = []
        request_id = uuid4()
        state.last_prompt, state.last_request = prompt, request_id
        end = self._run(
            request_id,
            lambda client: client.stream(
                prompt.text,
                content=list(prompt.content) or None,
                conversation_id=str(state.conversation),
                capabilities=state.declared.capabilities,
                request_id=request_id,
            ),
        )
        if end.has_ended:
            self._show_account(request_id)
        return end

    def _run(self, request_id: UUID, open_stream: OpenStream) -> TurnResult:
        is_markdown = self.state.declared.is_markdown
        end = self._runner.run(self._connection, request_id, open_stream, is_markdown=is_markdown)
        if end.note:
            self._output.note(end.note, "yellow")
        elif isinstance(end.error, AccordError):  # an error packet is shown by itself
            self.show_error(end.error)
        return end

    def _show_account(self, request_id: UUID) -> None:
        """Print what was emulated, lost or adapted in a turn, in a line each."""
        try:
            receipt = self._fetch(lambda client: client.receipt(request_id))
        except AccordError:  # the turn has not ended, or the service cannot be reached, which was shown
            return
        lines = list(account(receipt))
        if receipt.outcome.status is not OutcomeStatus.DONE:
            lines.pop()  # it was shown as the end of the turn
        if receipt.adaptation is not None and (totals := format_totals(receipt.adaptation, without=Rung.NATIVE)):
            lines.append(f"adapted: {totals} (/why)")
        for line in lines:
            self._output.note(line, "dim yellow")

    def show_error(self, error: AccordError) -> None:
        """Print an error, and what to do about it."""
        lines = [error.message] if isinstance(error, UsageError) else error_lines(error)
        for line in lines:
            self._output.note(line, "red")

    def _fetch(self, work: Work[ResultT]) -> ResultT:
        """Ask the service outside of a turn; Ctrl-C stops waiting for it."""
        try:
            return self._connection.call(work)
        except KeyboardInterrupt:
            raise UsageError("Stopped waiting for the service") from None

    def _last_request(self) -> UUID:
        if self.state.last_request is None:
            raise UsageError("There was no turn yet; type a prompt")
        return self.state.last_request


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """A command: how it is written, what it does, and the method."""

    usage: str
    summary: str
    run: Callable[[Chat, str], TurnResult | None]


COMMANDS: Final[Mapping[str, ChatCommand]] = MappingProxyType(
    {
        "/attach": ChatCommand("/attach FILE", "attach a file to the next prompt", Chat.attach),
        "/why": ChatCommand("/why", "show the receipt of the last turn", Chat.explain),
        "/caps": ChatCommand(
            "/caps [CLIENT]", f"show or change what is declared: {', '.join(NAMED_CLIENTS)}, FILE or JSON", Chat.declare
        ),
        "/new": ChatCommand("/new", "start a conversation", Chat.start_conversation),
        "/retry": ChatCommand("/retry", "send the last prompt again", Chat.retry),
        "/help": ChatCommand("/help", "show the commands", Chat.show_help),
        "/quit": ChatCommand("/quit", "leave", lambda _chat, _argument: None),
    }
)


def _file_name(argument: str) -> str:
    """The file that is meant: as it was typed, or as a shell or the dragging of a file writes it."""
    if path_exists(argument):
        return argument
    try:
        words = shlex.split(argument)
    except ValueError:
        return argument
    return str(Path(words[0]).expanduser()) if len(words) == 1 else argument
