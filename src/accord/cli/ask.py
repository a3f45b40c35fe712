"""`accord ask`: run one turn from the shell. The answer goes to standard output, everything else to standard error."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any, Final, assert_never, cast
from uuid import uuid4

import typer

from accord.acp.schema_parts import ContentBlock
from accord.agents.relay import relay_with
from accord.assembly.loop import run_async
from accord.assembly.parts import build_engine, find_backend
from accord.assembly.signing import make_signer
from accord.assembly.store import open_backends
from accord.cli.attachments import read_attachments
from accord.cli.configuration import load
from accord.cli.options import ConfigOption, JsonOption, RequireOption, TrustOption, read_requirements
from accord.cli.receipt_view import account
from accord.config import LoadedConfig
from accord.console import Console
from accord.core.receipt import seal_members
from accord.core.summarise import summarise_work
from accord.core.vocabulary import unknown_name_warnings
from accord.errors import UsageError
from accord.files import STDIN, read_json, read_text
from accord.run import Engine
from accord.stores.memory_slots import MemorySlots
from accord.terminal import escape_line, warn
from accord.wire.event import PresentationEventType
from accord.wire.packet import AnyPacket, ClosePacket, DeltaPacket, ErrorPacket, EventPacket
from accord.wire.receipt import OutcomeStatus, Receipt
from accord.wire.request import ClientCapabilities, ServiceRequest

PRINTED_EVENTS: Final = (PresentationEventType.THOUGHT_TRACE, PresentationEventType.USER_ERROR)
"""Events that are printed to standard error, so that standard output has the answer and nothing else."""

ECHO: Final = "No backend is configured: the built-in echo is used. `accord backends` shows how to add one"


def ask_command(  # noqa: PLR0913 - the command's own flags
    prompt: Annotated[str, typer.Argument(help="The prompt; - reads it from standard input.")],
    *,
    backend: Annotated[
        str | None, typer.Option(metavar="NAME", help="Use only this backend of the configuration.")
    ] = None,
    image: Annotated[list[str] | None, typer.Option(metavar="FILE", help="Image to attach; repeatable.")] = None,
    file: Annotated[list[str] | None, typer.Option(metavar="FILE", help="Other file to attach; repeatable.")] = None,
    schema: Annotated[str | None, typer.Option(metavar="FILE", help="JSON Schema that the answer must match.")] = None,
    require: RequireOption = None,
    system: Annotated[str | None, typer.Option(help="System prompt.")] = None,
    receipt: Annotated[bool, typer.Option("--receipt", help="Print the receipt to standard error.")] = False,
    as_json: JsonOption = False,
    stream: Annotated[
        bool, typer.Option("--stream/--no-stream", help="Print the answer as it arrives, or when it is complete.")
    ] = True,
    config: ConfigOption = None,
    trust: TrustOption = False,
) -> None:
    """Run one turn and print the answer.

    What was emulated or lost, and why a backend failed, is printed to standard error. Exit status 1 if the turn was
    refused or failed.

    Examples:
      accord ask "What is in this picture?" --image photo.png
      git diff | accord ask - --system "Review this change."
    """
    loaded = load(config, trusted=trust)
    text = read_text(STDIN) if prompt == STDIN else prompt
    content = read_attachments(image or (), file or (), loaded.config.limits.max_block_bytes)
    if not text.strip() and not content:
        raise UsageError('The prompt is empty; give a text, as in: accord ask "What is an adapter?"')
    request = make_request(text, content, require or ())
    json_schema = None if schema is None else read_json(schema)
    if not isinstance(json_schema, dict | None):
        raise UsageError(f"--schema {schema}: expected a JSON Schema, which is a JSON object")
    agent = relay_with(schema=cast("dict[str, Any] | None", json_schema), system=system)
    if backend is not None:
        only = [find_backend(backend, loaded).config]
        loaded = replace(loaded, config=loaded.config.model_copy(update={"backends": only}))
    streams = stream and not as_json
    printer = _PacketPrinter(streams=streams)
    turn_receipt = run_async(_run_turn(loaded, build_engine(loaded, agent=agent), request, printer))
    answer = "".join(printer.texts)
    if as_json:
        print(json.dumps(_to_json(answer, turn_receipt, with_receipt=receipt), indent=2, ensure_ascii=False))
    elif not streams:
        print(answer)
    notes = [*([] if loaded.config.backends else [ECHO]), *account(turn_receipt), *printer.remedies]
    _print_notes(notes)
    if receipt and not as_json:
        print(turn_receipt.to_json(), file=sys.stderr)
    if turn_receipt.outcome.status is not OutcomeStatus.DONE:
        raise typer.Exit(1)


def _print_notes(notes: Iterable[str]) -> None:
    errors = Console(stderr=True)
    for line in notes:
        errors.print(escape_line(line), soft_wrap=True, style="yellow")


def make_request(prompt: str, content: Sequence[ContentBlock], requirements: Sequence[str]) -> ServiceRequest:
    """Make the request for the engine, in a session of its own."""
    needs = read_requirements(requirements)
    warn(unknown_name_warnings(need.capability for need in needs.required))
    return ServiceRequest.model_validate(
        {
            "request_id": uuid4(),
            "context": {"session_id": f"ask-{uuid4()}", "user": {"id": "local", "name": "local"}},
            "payload": {
                "query": prompt,
                "content": content or None,
                "requirements": needs,
                "capabilities": ClientCapabilities(supported_events=list(PRINTED_EVENTS), prefers_markdown=True),
            },
        }
    )


async def _run_turn(
    loaded: LoadedConfig, engine: Engine, request: ServiceRequest, printer: "_PacketPrinter"
) -> Receipt:
    # One turn needs no store: its session ends with this command, and with it the run, if it is interrupted.
    async with open_backends(loaded, engine, MemorySlots()):
        run, view = engine.begin(request), engine.new_view(request.payload.capabilities)
        async with aclosing(engine.play(run, view)) as packets:
            async for packet in packets:
                printer.print(cast("AnyPacket", packet))
        content = engine.receipt(run, view)
    return Receipt.parse(seal_members(content.encoded, make_signer(loaded)).json)


class _PacketPrinter:
    """Prints packets as they arrive: text of the answer to standard output, all else to standard error."""

    def __init__(self, *, streams: bool) -> None:
        self.texts: Final[list[str]] = []
        self.remedies: list[str] = []
        """What would make refused work possible; printed after the refusal itself."""
        self._streams: Final = streams
        self._is_thinking = False

    def print(self, packet: AnyPacket) -> None:
        """Print this packet."""
        # Thoughts arrive in pieces of one line, which any other packet ends.
        data: Mapping[str, Any] = (packet.p.get("data") or {}) if isinstance(packet, EventPacket) else {}
        thought = str(data.get("thought") or "")
        print(thought, end="\n" if self._is_thinking and not thought else "", file=sys.stderr, flush=True)
        self._is_thinking = bool(thought)
        match packet:
            case DeltaPacket():
                self.texts.append(packet.p)
                if self._streams:
                    print(packet.p, end="", flush=True)
            case EventPacket():
                if message := data.get("message"):
                    print(message, file=sys.stderr, flush=True)
            case ErrorPacket():
                remedies = cast("list[Any]", (packet.p.details or {}).get("remedies") or ())
                self.remedies = [f"would help: {remedy['change']}" for remedy in remedies]
            case ClosePacket():
                if self._streams and self.texts:
                    print(flush=True)
            case _:
                assert_never(packet)


def _to_json(text: str, receipt: Receipt, *, with_receipt: bool) -> dict[str, Any]:
    work = [summarise_work(each.dump()) for each in receipt.work]
    last = work[-1] if work else {}
    outcome = receipt.outcome
    members: dict[str, Any] = {
        "status": outcome.status.value,
        "text": text,
        "backend": last.get("backend"),
        "model": last.get("model"),
        "usage": last.get("usage"),
        "error": None if outcome.code is None else {"code": outcome.code, "message": outcome.message},
        "work": work,
        "account": list(account(receipt)),
    }
    return members | ({"receipt": receipt.dump()} if with_receipt else {})
