"""`accord inspect` in a process: exit status, report, JSON, XML and annotations."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from accord.wire.inspection import InspectionReport
from tests.cli.live_terminal import accord_on_terminal
from tests.cli.on_terminal import run_on_terminal

MISBEHAVING_AGENT = str(Path(__file__).parent.parent / "acp_tools/inspect/misbehaving_agent.py")
AGENT = ("--", sys.executable, MISBEHAVING_AGENT)


BUILD_VARIABLES = ("CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")


def accord(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command outside CI, unless these variables say otherwise."""
    command = [sys.executable, "-m", "accord", "inspect", *arguments]
    outside = {name: value for name, value in os.environ.items() if name not in BUILD_VARIABLES}
    environ = {**outside, "COLUMNS": "200", **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environ)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--only", "undeclared-image", *AGENT), 0),
        (("--only", "undeclared-image", "--protocol", "2", *AGENT, "draft", "accepts-undeclared"), 1),
        (("--only", "garbage-error", *AGENT, "silent-on-garbage"), 0),
        (("--only", "text", *AGENT, "needs-auth"), 0),
        (("--only", "handshake", "--protocol", "2", *AGENT, "draft"), 0),
    ],
)
def test_the_exit_status_is_1_if_a_mandatory_check_fails(arguments: tuple[str, ...], status: int):
    assert accord(*arguments).returncode == status


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "accord: The command of the agent is missing; give it after --"),
        (("--", "no-such-agent"), "accord: no-such-agent cannot be started: No such file or directory"),
        (("--only", "nonsense", *AGENT), "accord: --only nonsense: unknown check; use one of handshake, "),
        (("--require", "sessions", *AGENT), 'accord: --require: unknown group "sessions"; use handshake, '),
        (("--require", "session,", *AGENT), 'accord: --require: unknown group ""; use handshake, '),
        (("--only", "text", "--require", "session", *AGENT), "accord: --require session: no check of this group would"),
        (("--baseline", "no-such-file.json", *AGENT), "accord: no-such-file.json: No such file or directory"),
        (("--env", "NOVALUE", *AGENT), "accord: --env NOVALUE: expected NAME=VALUE"),
        (("--cwd", "no-such-folder", *AGENT), "accord: --cwd no-such-folder: is not a folder"),
        (("--only", "handshake", "--json", "no/such/folder.json", *AGENT), "no/such/folder.json cannot be written"),
    ],
)
def test_a_wrong_call_gives_exit_status_2_and_a_message(arguments: tuple[str, ...], message: str):
    done = accord(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_report_shows_failures_flags_and_a_summary():
    done = accord("--only", "agent-info", "--only", "capabilities", *AGENT, "malformed-flag")
    assert done.stdout.startswith("Failed shoulds: 1 (editors will have problems with it)\n\n  capabilities: ")
    assert 'promptCapabilities.audio = "true": malformed: should be true or false' in done.stdout
    summary = "misbehaving 1.0: 1 failed (1 should), 1 passed, 0 not judged, 0 not applicable in "
    assert done.stdout.splitlines()[-1].startswith(summary)
    assert done.stdout.splitlines()[-1].endswith(" s — keeps its contract")
    progress = [line.partition(" ") for line in done.stderr.splitlines()]
    assert [count for count, _, _ in progress] == ["[1/2]", "[2/2]"]
    assert {text for _, _, text in progress} == {"capabilities: failed", "agent-info: passed"}


def test_failures_only_leaves_out_everything_else():
    done = accord("--only", "agent-info", "--only", "capabilities", "--failures-only", *AGENT, "malformed-flag")
    assert "capabilities: every declared flag is well formed" in done.stdout
    assert "Passed" not in done.stdout
    assert "Declared capabilities" not in done.stdout


UNJUDGED = ("--only", "text", *AGENT, "needs-auth")


@pytest.mark.parametrize(
    ("flags", "variables", "status"),
    [
        ((), {}, 0),
        ((), {"CI": "true"}, 3),
        ((), {"CI": "1"}, 3),
        ((), {"CI": "false"}, 0),
        (("--allow-unjudged",), {"CI": "true"}, 0),
        (("--require", "content"), {}, 1),
        (("--require", "all"), {}, 1),
        (("--require", "all", "--allow-unjudged"), {"CI": "true"}, 1),
    ],
)
def test_what_cannot_be_judged_is_never_green_and_fails_in_ci_or_if_required(
    flags: tuple[str, ...], variables: dict[str, str], status: int
):
    done = accord(*flags, *UNJUDGED, **variables)
    assert done.returncode == status
    assert done.stdout.splitlines()[-1].endswith("— not judged: 1 mandatory check of content")


def test_known_failures_do_not_count_and_new_ones_do(tmp_path: Path):
    file = str(tmp_path / "baseline.json")
    broken = ("--protocol", "2", "--only", "undeclared-image", "--only", "undeclared-audio")
    agent = (*AGENT, "draft", "accepts-undeclared")
    assert accord(*broken, "--json", file, *agent).returncode == 1
    known = accord(*broken, "--baseline", file, *agent)
    assert known.returncode == 0
    assert "Known failures, in the baseline too: 2" in known.stdout
    assert known.stdout.splitlines()[-1].endswith("— breaks its contract, as in the baseline")
    fixed = accord(*broken, "--baseline", file, *AGENT, "draft")
    assert "Failed in the baseline, but not now: undeclared-image, undeclared-audio" in fixed.stdout
    new = accord(*broken, "--only", "undeclared-resource", "--baseline", file, *agent)
    assert new.returncode == 1
    assert "Failed musts: 1 " in new.stdout
    lost = accord(*broken, "--baseline", file, *AGENT, "draft", "needs-auth")
    assert lost.returncode == 1
    assert "Judged in the baseline, but not now: 2" in lost.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; expected JSON"),
        ("{", "expected JSON"),
        ("[]", "is not a report of this version of Accord; write one with accord inspect --json"),
        ('{"program": "a", "agent": {}, "counts": {"skipped": 1}, "keeps_contract": true}', "write one with"),
    ],
)
def test_a_baseline_that_is_no_report_is_a_wrong_call(tmp_path: Path, content: str, message: str):
    file = tmp_path / "baseline.json"
    file.write_text(content, encoding="utf-8")
    done = accord("--baseline", str(file), *AGENT)
    assert (done.returncode, done.stdout) == (2, "")
    assert str(file) in done.stderr
    assert message in done.stderr


def test_a_baseline_of_another_protocol_is_a_wrong_call(tmp_path: Path):
    file = str(tmp_path / "baseline.json")
    assert accord("--only", "handshake", "--json", file, *AGENT).returncode == 0
    done = accord("--only", "handshake", "--protocol", "2", "--baseline", file, *AGENT)
    assert done.returncode == 2
    assert "was made with --protocol 1, this is --protocol 2" in done.stderr


def test_the_checks_are_listed_without_an_agent():
    done = accord("--list")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  handshake (must): initialize is answered\n    ACP: Initialization\n" in done.stdout
    listed = json.loads(accord("--list", "--json", "-").stdout)
    assert done.stdout.splitlines()[-1] == f"{len(listed)} checks"
    assert listed[0] == {
        "check": "handshake",
        "group": "handshake",
        "level": "must",
        "title": "initialize is answered",
        "clause": "ACP: Initialization",
    }
    assert [row["check"] for row in json.loads(accord("--list", "--only", "text", "--json", "-").stdout)] == ["text"]
    levels = [
        json.loads(accord("--list", "--only", "undeclared-image", "--protocol", version, "--json", "-").stdout)[0][
            "level"
        ]
        for version in ("1", "2")
    ]
    assert levels == ["should", "must"]
    quick = json.loads(accord("--list", "--quick", "--json", "-").stdout)
    assert 0 < len(quick) < len(listed)


def test_github_gets_annotations_and_a_summary(tmp_path: Path):
    page = tmp_path / "summary.md"
    failing = ("--only", "capabilities", *AGENT, "malformed-flag")
    done = accord(*failing, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(page))
    assert done.stdout.splitlines()[-1].startswith("::warning title=accord inspect%3A capabilities::Malformed")
    assert page.read_text(encoding="utf-8").startswith("### accord inspect: misbehaving 1.0\n")
    assert "::warning" not in accord("--no-annotations", *failing, GITHUB_ACTIONS="true").stdout
    assert "::warning" in accord("--annotations", *failing).stdout
    assert "::warning" not in accord(*failing).stdout


def test_a_terminal_of_40_columns_shows_progress_and_the_whole_report(tmp_path: Path):
    arguments = ("inspect", "--only", "capabilities", *AGENT, "malformed-flag")
    screens = [
        run_on_terminal(*arguments, cwd=tmp_path, environ={"COLUMNS": "40", "CI": "", **more})
        for more in ({}, {"NO_COLOR": "1"})
    ]
    assert [screen.status for screen in screens] == [0, 0]
    for screen in screens:
        assert "—keepsitscontract" in "".join(screen.received.split()).replace("\x1b[0m", "").replace("\x1b[1;32m", "")
    colour = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7])m")
    assert [bool(colour.search(screen.received)) for screen in screens] == [True, False]


NEEDS_LOGIN = """
import json, sys
is_known = False
for line in sys.stdin:
    call = json.loads(line)
    reply = {"result": {"protocolVersion": 1} if call["method"] == "initialize" else {"sessionId": "s"}}
    if call["method"] == "authenticate":
        is_known, reply = call["params"] == {"methodId": "api-key"}, {"result": {}}
    elif call["method"] == "session/new" and not is_known:
        reply = {"error": {"code": -32000, "message": "Authentication required"}}
    print(json.dumps({"jsonrpc": "2.0", "id": call["id"], **reply}), flush=True)
"""


@pytest.mark.parametrize(("flags", "result"), [((), "not_judged"), (("--authenticate", "api-key"), "pass")])
def test_an_agent_can_be_authenticated_after_the_handshake(flags: tuple[str, ...], result: str):
    done = accord(*flags, "--only", "session-new", "--json", "-", "--", sys.executable, "-c", NEEDS_LOGIN)
    assert [found["result"] for found in json.loads(done.stdout)["findings"]] == [result]


def test_a_failed_handshake_is_reported_and_counted_even_if_it_was_not_chosen():
    done = accord("--only", "text", "--", "cat")
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["[1/2] handshake: failed", "[2/2] text: not judged"]


def test_a_program_that_is_not_an_agent_is_named_as_such():
    done = accord("--only", "handshake", "--", "cat")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "cat: is not an ACP agent: the program echoes its input"


def test_json_and_junit_read_back(tmp_path: Path):
    written, xml = tmp_path / "report.json", tmp_path / "report.xml"
    done = accord("--only", "handshake", "--only", "agent-info", "--json", str(written), "--junit", str(xml), *AGENT)
    assert done.returncode == 0
    report = InspectionReport.parse(written.read_bytes())
    assert [(found.check, str(found.result)) for found in report.findings] == [
        ("handshake", "pass"),
        ("agent-info", "pass"),
    ]
    assert ET.parse(xml).getroot().get("tests") == "2"  # noqa: S314 - written by Accord


def test_standard_output_has_the_json_alone():
    done = accord("--only", "handshake", "--json", "-", *AGENT)
    assert json.loads(done.stdout)["keeps_contract"] is True


def test_values_of_env_are_never_printed():
    echo = "import os,sys; print(os.environ['ACCORD_TEST_WORD'], flush=True)"
    done = accord("--env", "ACCORD_TEST_WORD=mellon-mellon", "--json", "-", "--", sys.executable, "-c", echo)
    assert done.returncode == 1
    assert "mellon" not in done.stdout + done.stderr
    assert "[hidden]" in done.stdout


@pytest.mark.parametrize(("which", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_agent_without_a_message(tmp_path: Path, which: signal.Signals, status: int):
    note = tmp_path / "pid"
    agent = f"import os,pathlib,time; pathlib.Path({str(note)!r}).write_text(str(os.getpid())); time.sleep(60)"
    command = [sys.executable, "-m", "accord", "inspect", "--", sys.executable, "-c", agent]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 20
        while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        running.send_signal(which)
        _, errors = running.communicate(timeout=20)
    assert running.returncode == status
    assert "Traceback" not in errors
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


DEAF_TO_PROMPTS = """
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    result = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}.get(call["method"])
    if result:
        print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}), flush=True)
"""


def test_the_terminal_shows_the_running_checks_and_is_empty_after_ctrl_c(tmp_path: Path):
    chosen = ("--only", "text", "--only", "resource-link", "--timeout", "60")
    agent = ("--", sys.executable, "-c", DEAF_TO_PROMPTS)
    with accord_on_terminal("inspect", *chosen, *agent, cwd=tmp_path) as (terminal, process):
        shown = terminal.wait_for("0/2 text")
        assert len(shown.strip().splitlines()) == 1
        terminal.press_until("\x03", None)
        assert process.wait(20) == 130
    assert terminal.shown.strip() in ("", "^C")
