"""`accord render`: what a client would get of a stream, and markdown as plain text."""

import json
import os
import subprocess
import sys
from base64 import b64encode
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

PACKETS = Path(__file__).parent.parent.parent / "docs" / "one-run.jsonl"


def render(*arguments: str, stdin: str | bytes) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "accord", "render", *arguments]
    raw = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(command, input=raw, capture_output=True, timeout=60, check=False)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    ("client", "there", "not_there"),
    [
        ("web", ["[citation_block]", "**grew by 12 %**", "[user_error]"], ["Sources:"]),
        (
            "cli",
            ["Sources:\n1. Annual report 2026", "[progress_indicator]", "```python"],
            ["[citation_block]", "thought"],
        ),
        (
            "voice",
            ["Sales grew by 12 %", "Region: North, Growth: 14 %.", "(Python code, 2 lines)"],
            ["**", "|", "https:"],
        ),
    ],
)
def test_each_client_gets_what_it_can_show(client: str, there: list[str], not_there: list[str]):
    done = render("--client", client, stdin=PACKETS.read_text(encoding="utf-8"))
    assert done.returncode == 0
    assert [text for text in there if text not in done.stdout] == []
    assert [text for text in not_there if text in done.stdout] == []


def test_the_report_counts_every_packet():
    done = render("--client", "voice", "--json", "--packets", stdin=PACKETS.read_text(encoding="utf-8"))
    lines, _, rest = done.stdout.partition("\n{\n")
    report = json.loads("{\n" + rest)
    assert sum(report["totals"].values()) == len(PACKETS.read_text(encoding="utf-8").splitlines())
    assert all(json.loads(line)["op"] != "event" for line in lines.splitlines())


def test_the_declaration_of_a_client_may_be_a_file(tmp_path: Path):
    (tmp_path / "c.json").write_text('{"supported_events": ["CITATION_BLOCK"], "prefers_markdown": false}')
    done = render("--client", str(tmp_path / "c.json"), "--report", stdin=PACKETS.read_text(encoding="utf-8"))
    assert "[citation_block]" in done.stdout
    assert "Adaptation report" in done.stdout


def test_inline_images_are_shrunk_unless_turned_off(tmp_path: Path):
    (tmp_path / "c.json").write_text('{"supported_events": ["MEDIA_CAROUSEL"], "image_resolution": "low"}')
    out = BytesIO()
    Image.effect_noise((900, 900), 50).save(out, "PNG")
    url = "data:image/png;base64," + b64encode(out.getvalue()).decode()
    packet = {
        "op": "event",
        "p": {"type": "media_carousel", "data": {"items": [{"url": url, "mime_type": "image/png"}]}},
    }
    outputs = [
        render("--client", str(tmp_path / "c.json"), "--packets", *flags, stdin=json.dumps(packet)).stdout
        for flags in ([], ["--images"], ["--no-images"])
    ]
    assert [url in text for text in outputs] == [False, False, True]
    assert "data:image/jpeg;base64," in outputs[0]


def test_a_bad_line_is_skipped_with_a_message():
    done = render(stdin='{"op":"delta","p":"a"}\nnonsense\n\n{"op":"delta","p":"b"}\n')
    assert done.stdout.strip() == "ab"
    assert done.stderr.startswith("accord: line 2: Not a valid StreamPacket")
    assert done.stderr.count("\n") == 1
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--client", "fridge"],
            "accord: --client fridge: expected web, cli, voice, or a file with ClientCapabilities",
        ),
        (["--speech"], "accord: --speech needs --text; for packets use --client voice"),
    ],
)
def test_a_wrong_flag_is_explained(arguments: list[str], message: str):
    done = render(*arguments, stdin="")
    assert done.returncode == 2
    assert done.stderr.strip() == message


@pytest.mark.parametrize(
    ("arguments", "markdown", "text"),
    [
        ([], "", ""),
        ([], "Hello **bold** `x` [link](https://example.com)\n", "Hello bold x link"),
        (["--speech"], "```python\na\nb\n```\n", "(Python code, 2 lines)"),
        ([], b"caf\xc3\xa9 \xff *x*", "café \ufffd x"),
    ],
)
def test_markdown_becomes_plain_text(arguments: list[str], markdown: str | bytes, text: str):
    done = render("--text", *arguments, stdin=markdown)
    assert done.returncode == 0
    assert done.stdout.strip() == text


def test_text_is_written_while_markdown_arrives():
    command = [sys.executable, "-m", "accord", "render", "--text"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"Hello, **dear** reader, this is ")
        process.stdin.flush()
        assert os.read(process.stdout.fileno(), 100).startswith(b"Hello,")
        process.stdin.close()
        process.wait(timeout=30)
