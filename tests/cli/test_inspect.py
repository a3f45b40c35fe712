"""`accord inspect` in a process: exit status, tables, JSON and XML."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from accord.wire.inspection import InspectionReport

MISBEHAVING_AGENT = str(Path(__file__).parent.parent / "acp_tools/inspect/misbehaving_agent.py")
AGENT = ("--", sys.executable, MISBEHAVING_AGENT)


def accord(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "accord", "inspect", *arguments]
    environ = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environ)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--only", "undeclared-image", *AGENT), 0),
        (("--only", "undeclared-image", *AGENT, "accepts-undeclared"), 1),
        (("--only", "garbage-told", *AGENT, "silent-on-garbage"), 0),
        (("--only", "text", *AGENT, "needs-auth"), 0),
        (("--only", "handshake", "--protocol", "2", *AGENT, "draft"), 0),
    ],
)
def test_the_exit_status_is_1_if_a_mandatory_check_fails(arguments: tuple[str, ...], status: int):
    assert accord(*arguments).returncode == status


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument"),
        (("--", "no-such-agent"), "accord: no-such-agent cannot be started: No such file or directory"),
        (("--only", "nonsense", *AGENT), "accord: --only nonsense: unknown check; use one of handshake, "),
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


def test_the_tables_show_flags_checks_and_a_summary():
    done = accord(
        "--only", "undeclared-image", "--only", "capabilities", *AGENT, "malformed-flag", "accepts-undeclared"
    )
    assert "promptCapabilities.audio" in done.stdout
    assert "malformed: should be true or false" in done.stdout
    assert "An image was accepted or silently dropped" in done.stdout
    assert done.stdout.splitlines()[-1] == (
        "misbehaving 1.0: must 0 passed 1 failed, should 0 passed 1 failed, may 0 passed 0 failed, 0 skipped "
        "— breaks its contract"
    )
    assert done.stderr.splitlines() == ["[1/2] capabilities: fail", "[2/2] undeclared-image: fail"]


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
