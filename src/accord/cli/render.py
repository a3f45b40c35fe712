"""`accord render`: show what a client would get of a stream; with `--text`, strip markdown in a pipe.

Output is written as input arrives. A line that is not a packet is skipped with a message on standard error.
"""

import codecs
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Final, assert_never, cast

import typer

from accord.cli.receipt_view import print_adaptation
from accord.console import Console
from accord.core.output import ClientAdapter
from accord.core.output.markdown import Profile, TextStripper
from accord.core.output.profile import NAMED_CLIENTS
from accord.errors import InvalidMessageError, UsageError
from accord.files import path_exists, read_message
from accord.images import PillowImages, has_pillow
from accord.terminal import escape_line
from accord.wire.adaptation import AdaptationReport
from accord.wire.packet import AnyPacket, ClosePacket, DeltaPacket, ErrorPacket, EventPacket, StreamPacket
from accord.wire.request import ClientCapabilities

READ_BYTES: Final = 65_536


def render_command(  # noqa: PLR0913 - the command's own flags
    *,
    client: Annotated[str, typer.Option(help="web, cli, voice, or a file with ClientCapabilities.")] = "web",
    packets: Annotated[bool, typer.Option("--packets", help="Print packets as JSON lines instead of text.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Print the adaptation report, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the adaptation report as JSON.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Read markdown and print it as plain text.")] = False,
    speech: Annotated[bool, typer.Option("--speech", help="With --text: print it as text to be spoken.")] = False,
    images: Annotated[
        bool | None,
        typer.Option("--images/--no-images", help="Shrink inline images; by default if Pillow is installed."),
    ] = None,
) -> None:
    """Show what a client would get of a stream.

    Reads packets from standard input, one JSON object per line. Exit status 1 if a line is not a packet.

    Examples:
      accord render --client voice --report < packets.jsonl
      accord render --text < README.md
    """
    if speech and not text:
        raise UsageError("--speech needs --text; for packets use --client voice")
    if text:
        stripper = TextStripper(profile=Profile.SPEECH if speech else Profile.PLAIN)
        for chunk in _read_chunks():
            sys.stdout.write(stripper.feed(chunk))
            sys.stdout.flush()
        sys.stdout.write(stripper.close())
        return
    shrinks = has_pillow() if images is None else images
    adapter = ClientAdapter(read_client(client, "--client"), images=PillowImages() if shrinks else None)
    bad_lines = _render(adapter, as_packets=packets)
    if report or as_json:
        _print_report(adapter.report, as_json=as_json)
    if bad_lines:
        raise typer.Exit(1)


def _render(adapter: ClientAdapter, *, as_packets: bool) -> int:
    """Adapt every packet of standard input and print the result; return how many lines were not packets."""
    bad_lines = 0
    for number, line in enumerate(sys.stdin, start=1):
        if not line.strip():
            continue
        try:
            packet = StreamPacket.parse(line)
        except InvalidMessageError as error:
            bad_lines += 1
            print(f"accord: line {number}: {escape_line(error.message)}", file=sys.stderr)
            continue
        _print_packets(adapter.feed(packet), as_packets=as_packets)
        if isinstance(packet, ClosePacket):
            break
    _print_packets(adapter.close(), as_packets=as_packets)
    if not as_packets:
        print()
    return bad_lines


def _print_packets(packets: Iterable[StreamPacket], *, as_packets: bool) -> None:
    for packet in packets:
        if as_packets:
            print(packet.to_json())
        else:
            print(_format(cast("AnyPacket", packet)), end="")
    sys.stdout.flush()


def _format(packet: AnyPacket) -> str:
    match packet:
        case DeltaPacket():
            return packet.p
        case EventPacket():
            data = json.dumps(packet.p.get("data", packet.p), ensure_ascii=False)
            return f"\n[{packet.p.get('type', 'event')}] {data}\n"
        case ErrorPacket():
            return f"\n[error] {packet.p.code}: {packet.p.message}\n"
        case ClosePacket():
            return ""
        case _:
            assert_never(packet)


def _print_report(report: AdaptationReport, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report.dump(), indent=2, ensure_ascii=False))
        return
    print_adaptation(Console(), report)


def _read_chunks() -> Iterator[str]:
    """Yield the text of standard input as it arrives; bytes that are not UTF-8 become the replacement character."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while chunk := os.read(sys.stdin.fileno(), READ_BYTES):
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def read_client(value: str, option: str) -> ClientCapabilities | None:
    """Parse the capabilities of a client: `web` (which declares nothing), `cli`, `voice`, or a file with them."""
    if value in NAMED_CLIENTS:
        return NAMED_CLIENTS[value]
    if not path_exists(value):
        raise UsageError(f"{option} {value}: expected {', '.join(NAMED_CLIENTS)}, or a file with ClientCapabilities")
    return read_message(value, ClientCapabilities)
