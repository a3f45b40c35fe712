"""`accord ask`: run one turn from the shell. The answer goes to standard output, everything else to standard error."""

import base64
import json
import mimetypes
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, assert_never, cast
from urllib.parse import quote
from uuid import uuid4

import typer

from accord.agents.relay import relay_with
from accord.assembly.loop import run_async
from accord.assembly.opening import open_store_and_backends
from accord.assembly.parts import build_engine, find_backend, session_rules
from accord.assembly.signing import signer
from accord.cli.options import ConfigOption, TrustOption, load, parse_requirements
from accord.config import LoadedConfig
from accord.core.summarise import summarise_work
from accord.core.vocabulary import unknown_name_warnings
from accord.engine import Engine, Sessions
from accord.errors import UsageError
from accord.files import STDIN, read_json, read_text
from accord.terminal import Console, escape_line, warn
from accord.wire.acp.content import AudioBlock, BlobResource, ContentBlock, ImageBlock, ResourceBlock, TextResource
from accord.wire.event import PresentationEventType
from accord.wire.packet import AnyPacket, ClosePacket, DeltaPacket, ErrorPacket, EventPacket, StreamPacket
from accord.wire.receipt import OutcomeStatus, Receipt
from accord.wire.request import ClientCapabilities, ServiceRequest

# Reads the files that go with a question, as content blocks. Errors name the file and what was expected of it.

PICTURES: Final[Mapping[str, tuple[bytes, ...]]] = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}
"""How a file of each kind begins: its name may say anything."""
BYTES: Final = "application/octet-stream"


def attached(images: Sequence[str], files: Sequence[str], max_bytes: int) -> list[ContentBlock]:
    """The blocks of these pictures and files."""
    return [*(_picture(name, max_bytes) for name in images), *(_document(name, max_bytes) for name in files)]


def picture_type(data: bytes) -> str | None:
    """Which kind of picture this is, if it is one that models read."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for kind, starts in PICTURES.items() if data.startswith(starts)), None)


def _picture(name: str, max_bytes: int) -> ContentBlock:
    data = _read(name, max_bytes)
    kind = picture_type(data)
    if kind is None:
        raise UsageError(f"{name}: expected a picture: PNG, JPEG, GIF or WebP; other files go with --file")
    return ImageBlock(data=_base64(data), mime_type=kind)


def _document(name: str, max_bytes: int) -> ContentBlock:
    data = _read(name, max_bytes)
    kind = mimetypes.guess_type(name)[0]
    if kind is not None and kind.startswith("audio/"):
        return AudioBlock(data=_base64(data), mime_type=kind)
    # The model has no use for where it lies on this machine.
    uri = f"file:///{quote(Path(name).name)}"
    try:
        if data.startswith(b"%PDF-"):
            return ResourceBlock(resource=BlobResource(uri=uri, blob=_base64(data), mime_type="application/pdf"))
        return ResourceBlock(resource=TextResource(uri=uri, text=data.decode(), mime_type=kind or "text/plain"))
    except UnicodeDecodeError:
        return ResourceBlock(resource=BlobResource(uri=uri, blob=_base64(data), mime_type=kind or BYTES))


def _read(name: str, max_bytes: int) -> bytes:
    path = Path(name)
    try:
        if path.is_file() and path.stat().st_size * 4 // 3 > max_bytes:
            raise UsageError(f"{name}: is too large; limits.max_block_bytes is {max_bytes} bytes, in base64")
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


# Runs the turn of `accord ask`: the answer to standard output, what became of the question to standard error.

SHOWN: Final = (PresentationEventType.THOUGHT_TRACE, PresentationEventType.USER_ERROR)
"""What goes to standard error as it is, so that standard output has the answer and nothing else."""

ECHO: Final = "No backend is configured: this is the built-in echo. `accord backends` tells how to add one"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks."""

    prompt: str
    content: Sequence[ContentBlock] = ()
    schema: Any = None
    requirements: Sequence[str] = ()
    system: str | None = None
    backend: str | None = None

    def request(self) -> ServiceRequest:
        """The same as a request to the engine."""
        needs = parse_requirements(self.requirements)
        warn(unknown_name_warnings(need.capability for need in needs.required))
        payload = {"query": self.prompt, "content": self.content or None, "requirements": needs}
        shows = ClientCapabilities(supported_events=list(SHOWN), prefers_markdown=True)
        user = {"id": "local", "name": "local"}
        return ServiceRequest.model_validate(
            {
                "request_id": uuid4(),
                "context": {"session_id": f"ask-{uuid4()}", "user": user},
                "payload": {**payload, "capabilities": shows},
            }
        )


def answer(loaded: LoadedConfig, asked: Asked, *, streams: bool, as_json: bool, with_receipt: bool) -> bool:
    """Run the turn and show it; gives whether it was answered."""
    if not asked.prompt.strip() and not asked.content:
        raise UsageError("There is nothing to ask: the prompt is empty")
    schema = asked.schema
    if schema is not None and not isinstance(schema, dict):
        raise UsageError("--schema: expected a JSON Schema, which is an object")
    request = asked.request()
    agent = relay_with(schema=cast("dict[str, Any] | None", schema), system=asked.system)
    engine = build_engine(_only(loaded, asked.backend), agent=agent)
    text, receipt = run_async(_run(loaded, engine, request, streams=streams))
    if as_json:
        print(json.dumps(_told(text, receipt, with_receipt=with_receipt), indent=2, ensure_ascii=False))
    elif not streams:
        print(text)
    errors = Console(stderr=True)
    if not loaded.config.backends:
        errors.print(ECHO, soft_wrap=True, style="yellow")
    for line in account(receipt):
        errors.print(escape_line(line), soft_wrap=True, style="yellow")
    if with_receipt and not as_json:
        print(receipt.to_json(), file=sys.stderr)
    return receipt.outcome.status is OutcomeStatus.DONE


def account(receipt: Receipt) -> Iterator[str]:
    """What became of the question, a line each: who failed, what was emulated, what was lost, how it ended."""
    outcome = receipt.outcome
    for work in receipt.work:
        for failed in work.fallbacks:
            if failed.message != outcome.message:  # the last one is how it ended
                yield f"failed: {failed.message or failed.code}"
            if failed.endpoint_message:
                yield f"{failed.backend} says: {failed.endpoint_message}"
        yield from _compromises(summarise_work(work.dump()))
    if outcome.status is not OutcomeStatus.DONE:
        yield f"{outcome.status}: {outcome.message or outcome.code}"


def _compromises(summary: Mapping[str, Any]) -> Iterator[str]:
    for each in summary.get("emulated", ()):
        why = each["reason"] if each["by"] == "accord" else f"by {summary['backend']}: {each['strategy']}"
        yield f"emulated: {each['capability']} ({why})"
    for tried in summary.get("tried", ()):
        yield f"tried: {tried} (nobody says whether {summary['backend']} has it)"
    for lost in summary.get("lost", ()):
        count = f", {lost['count']}" if "count" in lost else ""
        yield f"lost: {lost['capability']} ({lost['reason']}{count})"


async def _run(loaded: LoadedConfig, engine: Engine, request: ServiceRequest, *, streams: bool) -> tuple[str, Receipt]:
    display = _Display(streams=streams)
    async with open_store_and_backends(loaded, engine) as store:
        # Nobody else reads this turn: when the command is stopped, so is the endpoint's work.
        rules = session_rules(loaded.config, stop_unread_after_s=0)
        sessions = Sessions(engine, store, rules, sign=signer(loaded))
        try:
            turn = await sessions.begin(request)
            async with aclosing(turn.batches()) as batches:
                async for batch in batches:
                    for stored in batch:
                        display.show(cast("AnyPacket", StreamPacket.parse(stored.body)))
        finally:
            await sessions.drain(0)
        return "".join(display.said), await sessions.receipt(str(request.request_id))


class _Display:
    """Shows packets as they come: text of the answer to standard output, all else to standard error."""

    def __init__(self, *, streams: bool) -> None:
        self.said: Final[list[str]] = []
        self._streams: Final = streams
        self._is_thinking = False

    def show(self, packet: AnyPacket) -> None:
        """Show this packet."""
        match packet:
            case DeltaPacket():
                self._think("")
                self.said.append(packet.p)
                if self._streams:
                    print(packet.p, end="", flush=True)
            case EventPacket():
                self._tell(packet.p.get("data") or {})
            case ErrorPacket():
                self._think("")
                for remedy in cast("list[Any]", (packet.p.details or {}).get("remedies") or ()):
                    print(f"would help: {remedy['change']}", file=sys.stderr)
            case ClosePacket():
                self._think("")
                if self._streams and self.said:
                    print(flush=True)
            case _:
                assert_never(packet)

    def _tell(self, data: Mapping[str, Any]) -> None:
        self._think(str(data.get("thought") or ""))
        if message := data.get("message"):
            print(message, file=sys.stderr, flush=True)

    def _think(self, thought: str) -> None:
        """Thoughts come in pieces that belong together; something else ends their line."""
        ended = "" if thought or not self._is_thinking else "\n"
        self._is_thinking = bool(thought)
        print(thought, end=ended, file=sys.stderr, flush=True)


def _only(loaded: LoadedConfig, name: str | None) -> LoadedConfig:
    if name is None:
        return loaded
    chosen = find_backend(name, loaded).config
    return replace(loaded, config=loaded.config.model_copy(update={"backends": [chosen]}))


def _told(text: str, receipt: Receipt, *, with_receipt: bool) -> dict[str, Any]:
    work = [summarise_work(each.dump()) for each in receipt.work]
    last = work[-1] if work else {}
    outcome = receipt.outcome
    told: dict[str, Any] = {
        "status": outcome.status.value,
        "text": text,
        "backend": last.get("backend"),
        "model": last.get("model"),
        "usage": last.get("usage"),
        "error": None if outcome.code is None else {"code": outcome.code.value, "message": outcome.message},
        "work": work,
        "account": list(account(receipt)),
    }
    return told | ({"receipt": receipt.dump()} if with_receipt else {})


# `accord ask`: one turn from the shell, through the same engine as everybody's. The flags; the rest is loaded on use.
#
# The answer goes to standard output as it comes, everything else to standard error. Exit status: 0 answered, 1
# refused or failed, 2 the call or a file has to be put right.


def ask_command(  # noqa: PLR0913 - the command's own flags
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads it from standard input.")],
    *,
    backend: Annotated[str | None, typer.Option(help="Ask this backend and no other.")] = None,
    image: Annotated[list[str] | None, typer.Option(help="A picture's file; may be repeated.")] = None,
    file: Annotated[list[str] | None, typer.Option(help="A document, sound or other file; may be repeated.")] = None,
    schema: Annotated[str | None, typer.Option(help="A JSON Schema's file: the answer must fit it.")] = None,
    require: Annotated[list[str] | None, typer.Option(help="CAPABILITY or CAPABILITY=native; may be repeated.")] = None,
    system: Annotated[str | None, typer.Option(help="Instructions that stand apart from the question.")] = None,
    receipt: Annotated[bool, typer.Option("--receipt", help="Print the turn's receipt to standard error.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer and its account for a program.")] = False,
    stream: Annotated[
        bool, typer.Option("--stream/--no-stream", help="Print the answer as it comes, or at once.")
    ] = True,
    config: ConfigOption = None,
    trust: TrustOption = False,
) -> None:
    """Ask a model one question, and hear what had to be emulated or was lost."""
    memory = (("store", "kind"), "memory", "accord ask")  # one turn is not worth a file
    loaded = load(config, trusts=trust, flags=[memory])
    asked = Asked(
        prompt=read_text(STDIN) if prompt == STDIN else prompt,
        content=attached(image or (), file or (), loaded.config.limits.max_block_bytes),
        schema=None if schema is None else read_json(schema),
        requirements=require or (),
        system=system,
        backend=backend,
    )
    if not answer(loaded, asked, streams=stream and not as_json, as_json=as_json, with_receipt=receipt):
        raise typer.Exit(1)
