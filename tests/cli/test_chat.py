"""`accord chat` on a real terminal and in pipes, in process and over HTTP: the same tests for both."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.cli import chat_agent
from tests.cli.live_terminal import WAIT_S, LiveTerminal, accord_on_terminal
from tests.cli.test_chat_parts import OURS, a_png
from tests.cli.test_terminal import FORBIDDEN, HOSTILE, PAYLOADS

AGENT = str(Path(chat_agent.__file__))
Process = subprocess.Popen[bytes]
Terminal = tuple[LiveTerminal, Process]
OpenChat = Callable[..., AbstractContextManager[Terminal]]
COLOUR = re.compile(rb"\x1b\[(?:\d+;)*(?:3[0-7]|38|9[0-7])[;m]")


@contextmanager
def serving(folder: Path, *arguments: str) -> Generator[str]:
    """The address of a service of the agent, with a store in this folder."""
    command = [sys.executable, "-m", "accord", "serve", AGENT, "--port", "0", "--store", "accord.db", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://[\d.:]+", server.stdout.readline())
            assert found
            yield found[0]
        finally:
            server.kill()
            server.communicate(timeout=WAIT_S)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a service of the agent, and its folder."""
    folder = tmp_path_factory.mktemp("service")
    with serving(folder) as address:
        yield address, folder


@pytest.fixture(params=["in process", "over HTTP"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[list[str], Path]:
    """The arguments of `accord chat`, and the folder in which the agent runs."""
    if request.param == "in process":
        return [AGENT], tmp_path
    address, folder = request.getfixturevalue("service")
    for name in ("gate", "stopped"):
        (folder / name).unlink(missing_ok=True)
    return ["--url", address], folder


@pytest.fixture
def open_chat(place: tuple[list[str], Path]) -> OpenChat:
    """Opens a chat on a terminal."""
    arguments, folder = place
    return partial(accord_on_terminal, "chat", *arguments, cwd=folder)


def ask(terminal: LiveTerminal, *lines: str, after: int = 1) -> str:
    """Type each line and wait for the prompt after its answer; return the screen."""
    terminal.wait_for_prompt(count=after)
    for number, line in enumerate(lines, after + 1):
        terminal.type(f"{line}\r")
        terminal.wait_for_prompt(count=number)
    return terminal.shown


def answer_to(shown: str, line: str) -> str:
    """What is on the screen between this line and the next prompt."""
    return shown.partition(f"> {line}\n")[2].partition("\n\n>")[0]


ANSWER = """\
Title

Some bold words and code.

 • one
 • two

```py
x = 1
```

 a  b
 ────
 1  2"""


@pytest.mark.parametrize("columns", [80, 40])
def test_markdown_is_drawn_on_the_screen(open_chat: OpenChat, columns: int):
    with open_chat(columns=columns) as (terminal, process):
        shown = ask(terminal, "markdown")
        assert answer_to(shown, "markdown") == ANSWER
        assert COLOUR.search(terminal.received)
        terminal.type("\x04")
        terminal.read_to_end()
        assert process.wait(WAIT_S) == 0


def test_no_color_leaves_out_the_colours(open_chat: OpenChat):
    with open_chat(environ={"NO_COLOR": "1"}) as (terminal, _):
        assert answer_to(ask(terminal, "markdown"), "markdown") == ANSWER
        assert not COLOUR.search(terminal.received)


AT_GATE = "one row of the terminal, ━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ 25% Waiting at the gate"
"""The end of the block that grows, and the progress below it."""


def test_a_block_is_drawn_again_at_the_new_width_while_it_grows(open_chat: OpenChat, place: tuple[list[str], Path]):
    with open_chat() as (terminal, _):
        terminal.wait_for_prompt(count=1)
        terminal.type("gate\r")
        terminal.wait_for(AT_GATE)
        terminal.resize(40)
        terminal.wait_for("25% Waiting at th…")  # which is cut off at the new width
        (place[1] / "gate").touch()
        shown = terminal.wait_for_prompt(count=2)
        text = answer_to(shown, "gate")
        assert " ".join(text.split()) == (
            "Before the gate, which is a paragraph that needs more than one row of the terminal, and after the gate."
        )
        assert max(map(len, text.split("\n"))) < 40


def test_ctrl_c_stops_the_turn_at_the_service_and_the_prompt_comes_back(
    open_chat: OpenChat, place: tuple[list[str], Path]
):
    with open_chat() as (terminal, process):
        terminal.wait_for_prompt(count=1)
        terminal.type("wait\r")
        terminal.wait_for("Begun.")
        terminal.type("\x03")
        assert answer_to(terminal.wait_for_prompt(count=2), "wait") == "Begun.\nStopped."
        assert (place[1] / "stopped").exists()
        assert re.search("outcome +cancelled", ask(terminal, "/why", after=2))
        assert "You said hello" in ask(terminal, "hello", after=3)
        # CPython loses a Ctrl-C that comes while readline is about to wait, until the next key.
        terminal.press_until("\x03", "Ctrl-C again or Ctrl-D leaves")
        terminal.press_until("\x03", None)
        assert process.wait(WAIT_S) == 130
        assert b"Traceback" not in terminal.received


@pytest.mark.parametrize("is_remote", [False, True], ids=["in process", "over HTTP"])
def test_ctrl_c_twice_leaves_even_if_the_agent_does_not_stop(tmp_path: Path, is_remote: bool):
    with serving(tmp_path) if is_remote else nullcontext() as address:
        arguments = [AGENT] if address is None else ["--url", address]
        with accord_on_terminal("chat", *arguments, cwd=tmp_path) as (terminal, process):
            terminal.wait_for_prompt(count=1)
            terminal.type("block\r")
            terminal.wait_until((tmp_path / "blocked").exists)
            terminal.type("\x03")
            terminal.wait_for("Stopping; Ctrl-C again leaves")
            terminal.type("\x03")
            terminal.read_to_end()
            assert process.wait(WAIT_S) == 130


def test_after_a_pause_the_block_is_drawn_below_what_was_written_meanwhile(
    open_chat: OpenChat, place: tuple[list[str], Path]
):
    with open_chat() as (terminal, process):
        terminal.wait_for_prompt(count=1)
        terminal.type("gate\r")
        terminal.wait_for(AT_GATE)
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGCONT)
        terminal.wait_for("25% Waiting at the gate Before the gate,")
        (place[1] / "gate").touch()
        shown = terminal.wait_for_prompt(count=2)
        assert " ".join(shown.split()).count("Before the gate,") == 2


def test_ctrl_c_leaves_also_if_the_starting_shell_has_turned_it_off(open_chat: OpenChat):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited by what is started
    try:
        with open_chat() as (terminal, process):
            terminal.wait_for_prompt(count=1)
            terminal.press_until("\x03", "Ctrl-C again or Ctrl-D leaves")
            terminal.press_until("\x03", None)
            assert process.wait(WAIT_S) == 130
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_is_typed_during_a_turn_is_not_echoed_into_it(open_chat: OpenChat, place: tuple[list[str], Path]):
    with open_chat() as (terminal, _):
        terminal.wait_for_prompt(count=1)
        terminal.type("gate\r")
        terminal.wait_for("25% Waiting at the gate")
        terminal.type("typed early\r")
        (place[1] / "gate").touch()
        assert "You said typed early" in terminal.wait_for_prompt(count=3)
        assert terminal.received.index(b"typed early") > terminal.received.index(b"and after the gate.")


def test_the_commands(open_chat: OpenChat, tmp_path: Path):
    (tmp_path / "image.png").write_bytes(a_png())
    (tmp_path / "notes.txt").write_text("some notes")
    with open_chat(columns=100, lines=200) as (terminal, process):
        shown = ask(
            terminal,
            "/why",
            "/retry",
            "/hepl",
            "/help",
            "//etc is a folder",
            "/etc/hosts is a file",
            f"/attach {tmp_path}/none.png",
            f"/attach {tmp_path}/notes.txt",
            f"/attach '{tmp_path}/image.png'",
            "/attach",
            "content first",
            "/retry",
            "content again",
            "/new",
            "content new",
            "/caps",
            "/caps nonsense",
            '/caps {"prefers_markdown": "maybe"}',
        )
        for line, expected in {
            "/why": "There was no turn yet; type a prompt",
            "/retry": "There is no prompt to send again yet; type one",
            "/hepl": 'unknown command "/hepl"; did you mean /help?',
            "//etc is a folder": "You said /etc is a folder",
            "/etc/hosts is a file": "You said /etc/hosts is a file",
            f"/attach {tmp_path}/none.png": f"{tmp_path}/none.png: No such file or directory",
            f"/attach {tmp_path}/notes.txt": f"{tmp_path}/notes.txt is content of the type resource, and the agent "
            "tester accepts text, resource_link, image; it was not attached",
            f"/attach '{tmp_path}/image.png'": f"Attached {tmp_path}/image.png (image) to the next prompt",
            "content first": "content: ['image'], history: 4",
            "content again": "content: [], history: 8",
            "/new": "A new conversation; the agent sees nothing of the last one",
            "content new": "content: [], history: 0",
            "/caps nonsense": "/caps nonsense: expected web, cli, voice, or a file with ClientCapabilities",
            '/caps {"prefers_markdown": "maybe"}': "/caps: expected ClientCapabilities: prefers_markdown: "
            "Input should be a valid boolean",
        }.items():
            assert answer_to(shown, line).replace("\n", " ") == expected
        assert "content: ['image'], history: 6" in shown  # /retry
        assert "/attach FILE" in answer_to(shown, "/help")
        assert answer_to(shown, "/caps").replace("\n", " ").startswith('cli: declares {"supported_events":["PROGRESS')
        terminal.type("/quit\r")
        terminal.read_to_end()
        assert process.wait(WAIT_S) == 0


EVENTS: dict[str, list[str]] = {
    "cli": ["A first paragraph.", "Sources:", " 1 A source: https://a.example/x", "Image: A pixel (PNG)", "Error 7: The tool failed", "The end.", "adapted: 3 described, 1 dropped (/why)"],
    "web": ["Thought: I think about it.", "A first paragraph.", "Sources:", "1. A source: https://a.example/x", "Image: A pixel (PNG)", "Error 7: The tool failed", "The end."],
    "voice": ["A first paragraph.", "Source: A source.", "Image: A pixel.", "Error: The tool failed.", "The end.", "adapted: 3 described, 2 dropped (/why)"],
    "file.json": ["A first paragraph.", "Sources:", "1. A source: https://a.example/x", "Image: A pixel (PNG)", "Error 7: The tool failed", "The end.", "adapted: 2 described, 2 dropped (/why)"],
}  # fmt: skip
"""What each client gets of the same events."""


def lines_of(answer: str) -> list[str]:
    return [line for line in answer.split("\n") if line]


@pytest.mark.parametrize("client", EVENTS)
def test_the_answer_is_that_for_the_declared_client(open_chat: OpenChat, tmp_path: Path, client: str):
    (tmp_path / "file.json").write_text('{"supported_events": ["CITATION_BLOCK"]}')
    declared = str(tmp_path / client) if client.endswith(".json") else client
    with open_chat("--as", declared, lines=100) as (terminal, _):
        assert lines_of(answer_to(ask(terminal, "events"), "events")) == EVENTS[client]


def test_a_finished_turn_is_shown_again_as_another_client_gets_it(open_chat: OpenChat):
    with open_chat(lines=100) as (terminal, _):
        shown = ask(terminal, "events", "/caps voice", "/caps web")
        for client in ("voice", "web"):
            declared, *lines = lines_of(answer_to(shown, f"/caps {client}"))
            assert declared.startswith(f"{client}: declares")
            assert lines == [line for line in EVENTS[client] if not line.startswith("adapted")]


def test_why_explains_the_last_turn(open_chat: OpenChat):
    with open_chat(columns=100, lines=100) as (terminal, _):
        receipt = answer_to(ask(terminal, "events", "/why"), "/why")
        assert re.search(r"seal +intact", receipt)
        assert re.search(r"agent +tester, accepts text, resource_link, image", receipt)
        assert re.search(r"time +plan [\d.]+ ms, first packet after [\d.]+ ms, total [\d.]+ ms", receipt)
        assert re.search(r"citation_block +│ described +│ not_declared", receipt)


def test_no_escape_sequence_of_the_agent_reaches_the_terminal(open_chat: OpenChat):
    with open_chat(columns=200) as (terminal, _):
        terminal.wait_for_prompt(count=1)
        before = len(terminal.received)
        shown = ask(terminal, f"say {json.dumps(HOSTILE)}")
        received = terminal.received[before:].decode()
        assert "MARK" in shown
        assert "\\u001b]0;owned\\u0007" in shown
        assert PAYLOADS["colour"] not in received
        readline = re.compile(r"\x1b\[\?2004[lh]|\x1b\[K|\x08|\r(?!\n)")
        assert FORBIDDEN.search(readline.sub("", OURS.sub("", received))) is None


def test_the_bytes_that_the_terminal_gets_grow_as_the_answer_does(open_chat: OpenChat):
    with open_chat() as (terminal, _):
        sizes = list[int]()
        for number, count in enumerate((50, 2_000, 4_000), start=1):
            before = len(terminal.received)
            shown = ask(terminal, f"words {count}", after=number)
            sizes.append(len(terminal.received) - before)
            assert f"w{count - 1}" in shown
        assert sizes[2] < 2.3 * sizes[1]
        assert [int(word[1:]) for word in re.findall(r"\bw\d+", terminal.scrolled)][-4_000:] == [*range(4_000)]


def test_an_image_is_drawn_in_a_terminal_that_can_do_that(open_chat: OpenChat):
    with open_chat(environ={"TERM": "xterm-kitty"}) as (terminal, _):
        terminal.wait_for("Shown as cli with images.")
        terminal.wait_for_prompt(count=1)
        terminal.type("events\r")
        terminal.wait_for("Image: A pixel (PNG)")
        terminal.wait_for("adapted: 2 described, 1 dropped (/why)")
        assert b"\x1b_Ga=T,f=100,q=2,c=1,m=0;" in terminal.received


def test_what_an_agent_prints_is_shown_beside_its_answer(tmp_path: Path):
    with accord_on_terminal("chat", AGENT, cwd=tmp_path) as (terminal, _):
        answer = answer_to(ask(terminal, "prints"), "prints")
        assert sorted(answer.split("\n")) == ["One paragraph.", "and as an error", "printed by the agent"]


def test_a_turn_that_fails_is_explained_and_the_prompt_comes_back(open_chat: OpenChat):
    with open_chat(lines=60) as (terminal, _):
        shown = ask(terminal, "fail", "hello")
        assert "agent_failed: The agent failed (ValueError)" in shown
        assert "You said hello" in shown


def test_the_history_is_kept_for_the_next_time(open_chat: OpenChat, tmp_path: Path):
    environ = {"ACCORD_STATE_DIR": str(tmp_path / "state")}
    with open_chat(environ=environ) as (terminal, _):
        ask(terminal, "first", "second")
    with open_chat(environ=environ) as (terminal, _):
        terminal.wait_for_prompt(count=1)
        terminal.type("\x1b[A\x1b[A!\r")
        assert "You said first!" in terminal.wait_for_prompt(count=2)


def test_pasted_lines_and_continued_lines_are_one_prompt(open_chat: OpenChat):
    with open_chat() as (terminal, _):
        terminal.wait_for_prompt(count=1)
        assert b"\x1b[?2004h" in terminal.received  # the terminal marks what is pasted
        terminal.type("\x1b[200~two\rlines\x1b[201~ of text\r")
        terminal.wait_for("You said two lines of text")
        terminal.type("one\\\rtwo\r")
        terminal.wait_for("You said one two")


def test_tab_completes_commands_and_files(tmp_path: Path):
    (tmp_path / "image.png").write_bytes(a_png())
    with accord_on_terminal("chat", AGENT, cwd=tmp_path) as (terminal, _):
        terminal.wait_for_prompt(count=1)
        terminal.type("/at\tim\t\r")
        terminal.wait_for("Attached image.png (image)")


def piped(arguments: list[str], stdin: str, cwd: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "accord", "chat", *arguments]
    env = {**os.environ, **environ}
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=60, check=False, cwd=cwd, env=env
    )


@dataclass(frozen=True)
class Piped:
    """What is piped in, and what is expected."""

    stdin: str
    arguments: list[str]
    stdout: str
    stderr: str
    status: int


PIPES = [
    Piped("markdown\n", [], "Title\n\nSome bold words and code.\n\none\ntwo\n\nx = 1\n\na, b\n1, 2\n", "adapted:", 0),
    Piped("one\n\ntwo\\\nlines\ncontent", [], "You said one\nYou said two\nlines\ncontent: [], history: 4\n", "", 0),
    Piped('say "**a** _b_"', ["--as", "cli"], "**a** _b_\n", "", 0),
    Piped("events", ["--as", "web"], "A first paragraph.\n\nSources:\n1. A source: https://a.example/x\nImage: A pixel (PNG)\nError 7: The tool failed\nThe end.\n", "Thought: I think about it.", 0),
    Piped("fail\nhello\n", [], "Soon it fails.\n", "agent_failed: The agent failed (ValueError)", 1),
    Piped("/nonsense\nhello\n", [], "", 'unknown command "/nonsense"', 1),
    Piped("hello\n/why\n/quit\nmore\n", [], "You said hello\n", "intact", 0),
    Piped("", [], "", "", 0),
]  # fmt: skip


@pytest.mark.parametrize("row", PIPES)
def test_with_a_pipe_every_line_is_a_prompt_and_standard_output_has_the_answers(
    place: tuple[list[str], Path], row: Piped
):
    done = piped([*place[0], *row.arguments], row.stdin, place[1])
    assert (done.stdout, done.returncode) == (row.stdout, row.status)
    assert row.stderr in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_a_user_who_types_into_a_pipe_gets_the_prompt_on_standard_error(tmp_path: Path):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "accord", "chat", AGENT]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as chat:
        os.close(theirs)
        os.write(ours, b'say "**hello**"\n\x04')
        out, err = chat.communicate(timeout=WAIT_S)
        os.close(ours)
    assert (out, chat.returncode) == (b"hello\n", 0)
    assert err.count(b"> ") == 2


def test_an_agent_in_this_process_is_reached_without_the_proxy_of_the_environment(tmp_path: Path):
    assert piped([AGENT], "hello", tmp_path, http_proxy="http://127.0.0.1:1").stdout == "You said hello\n"


def test_sessions_are_kept_in_a_store_that_is_named(tmp_path: Path):
    assert piped([AGENT, "--store", "kept.db", "--user", "ann"], "hello", tmp_path).returncode == 0
    command = [sys.executable, "-m", "accord", "sessions", "list", "ann", "--store", "kept.db"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    assert "chat-" in done.stdout
