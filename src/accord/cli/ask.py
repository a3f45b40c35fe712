"""`accord ask`: run one turn from the shell. The answer goes to standard output, everything else to standard error."""

import base64
import json
import mimetypes
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, assert_never, cast
from urllib.parse import quote
from uuid import uuid4

import typer

from accord.agents.relay import relay_with
from accord.assembly.loop import run_async
from accord.assembly.parts import build_engine, find_backend, session_rules
from accord.assembly.signing import make_signer
from accord.assembly.store import open_store_and_backends
from accord.cli.options import ConfigOption, JsonOption, RequireOption, TrustOption, load, read_requirements
from accord.config import LoadedConfig
from accord.console import Console
from accord.core.summarise import summarise_work
from accord.core.vocabulary import unknown_name_warnings
from accord.engine import Engine, Sessions
from accord.errors import RefusedError, UsageError
from accord.files import STDIN, read_json, read_text
from accord.terminal import escape_line, warn
from accord.wire.acp.content import AudioBlock, BlobResource, ContentBlock, ImageBlock, ResourceBlock, TextResource
from accord.wire.event import PresentationEventType
from accord.wire.packet import AnyPacket, ClosePacket, DeltaPacket, ErrorPacket, EventPacket, StreamPacket
from accord.wire.problem import stream_error
from accord.wire.receipt import OutcomeStatus, Receipt
from accord.wire.request import ClientCapabilities, ServiceRequest

IMAGE_STARTS: Final[Mapping[str, tuple[bytes, ...]]] = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}
"""The first bytes of each image type; the name of a file may be wrong."""
BINARY: Final = "application/octet-stream"

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
    # One turn needs no file: its session ends with this command.
    memory_store = (("store", "kind"), "memory", "accord ask")
    loaded = load(config, trusted=trust, flags=[memory_store])
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


def read_attachments(images: Sequence[str], files: Sequence[str], max_bytes: int) -> list[ContentBlock]:
    """Read these images and files as content blocks; an error names the file and what was expected."""
    blocks: list[ContentBlock] = []
    for name in images:
        data = _read_bytes(name, max_bytes)
        kind = image_type(data)
        if kind is None:
            raise UsageError(f"{name}: expected an image (PNG, JPEG, GIF or WebP); use --file for other files")
        blocks.append(ImageBlock(data=_base64(data), mime_type=kind))
    return [*blocks, *(_file_block(name, _read_bytes(name, max_bytes)) for name in files)]


def image_type(data: bytes) -> str | None:
    """Return the media type of an image that models read, or None."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for kind, starts in IMAGE_STARTS.items() if data.startswith(starts)), None)


def _file_block(name: str, data: bytes) -> ContentBlock:
    kind = mimetypes.guess_type(name)[0]
    if kind is not None and kind.startswith("audio/"):
        return AudioBlock(data=_base64(data), mime_type=kind)
    # Without its folder: the model needs no path of this machine.
    uri = f"file:///{quote(Path(name).name)}"
    try:
        if data.startswith(b"%PDF-"):
            return ResourceBlock(resource=BlobResource(uri=uri, blob=_base64(data), mime_type="application/pdf"))
        return ResourceBlock(resource=TextResource(uri=uri, text=data.decode(), mime_type=kind or "text/plain"))
    except UnicodeDecodeError:
        return ResourceBlock(resource=BlobResource(uri=uri, blob=_base64(data), mime_type=kind or BINARY))


def _read_bytes(name: str, max_bytes: int) -> bytes:
    path = Path(name)
    try:
        if path.is_file() and path.stat().st_size * 4 // 3 > max_bytes:
            raise UsageError(f"{name}: is too large; limits.max_block_bytes allows {max_bytes} bytes of base64")
        data = path.read_bytes()
    except IsADirectoryError:
        raise UsageError(f"{name}: is a directory; give a file") from None
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
    if not data:
        raise UsageError(f"{name}: is empty; give a file with content")
    return data


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def _run_turn(
    loaded: LoadedConfig, engine: Engine, request: ServiceRequest, printer: "_PacketPrinter"
) -> Receipt:
    async with open_store_and_backends(loaded, engine) as store:
        # This command is the only reader: when it is interrupted, the work of the endpoint must stop as well.
        sessions = Sessions(
            engine, store, session_rules(loaded.config, stop_unread_after_s=0), sign=make_signer(loaded)
        )
        try:
            turn = await sessions.begin(request)
            async with aclosing(sessions.read(turn)) as batches:
                async for batch in batches:
                    for stored in batch.packets:
                        printer.print(cast("AnyPacket", StreamPacket.parse(stored.body)))
        except RefusedError as error:  # it has a receipt, too
            printer.print(ErrorPacket(p=stream_error(error)))
        finally:
            await sessions.drain(0)
        return await sessions.receipt(str(request.request_id))


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


def account(receipt: Receipt) -> Iterator[str]:
    """Yield a line for each thing that the user should know: failures, emulations, losses, a bad outcome."""
    outcome = receipt.outcome
    for work in receipt.work:
        for failed in work.fallbacks:
            if failed.message != outcome.message:  # otherwise it is printed as the outcome
                yield f"{'skipped' if failed.skipped else 'failed'}: {failed.message or failed.code}"
            if failed.endpoint_message:
                yield f"{failed.backend} says: {failed.endpoint_message}"
        yield from _compromises(summarise_work(work.dump()))
    if outcome.status is not OutcomeStatus.DONE:
        yield f"{outcome.status}: {outcome.message or outcome.code}"


def _compromises(summary: Mapping[str, Any]) -> Iterator[str]:
    for each in summary.get("emulated", ()):
        how = each["reason"] if each["by"] == "accord" else f"by {summary['backend']}: {each['strategy']}"
        yield f"emulated: {each['capability']} ({how})"
    for tried in summary.get("tried", ()):
        yield f"tried: {tried} (no source says whether {summary['backend']} supports it)"
    for lost in summary.get("lost", ()):
        count = f", {lost['count']}" if "count" in lost else ""
        yield f"lost: {lost['capability']} ({lost['reason']}{count})"


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
