"""The ACP backend against a scripted program: answers, ends, failures, restarts, and requests of the agent."""

import asyncio
import json
import os
import sys
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from accord.backends.acp import AcpBackend, AgentPermissions
from accord.backends.acp.process import AgentTiming
from accord.core.output.agent_work import build_tool_call_event
from accord.errors import BackendError
from accord.wire.manifest import CapabilityManifest
from accord.wire.work import EndPiece, TextPiece, ThinkingPiece, WorkPiece
from tests.backends.acp.agents import agent, answer, order, text, within

IMAGE = {"type": "image", "media_type": "image/png", "data": "aGk="}


def failure(backend: AcpBackend, *parts: Any) -> BackendError:
    with pytest.raises(BackendError) as caught:
        within(lambda: answer(backend, order(*(parts or ("hi",)))))
    return caught.value


async def gone(pid: int) -> None:
    """Return when the process has ended."""
    with suppress(ProcessLookupError):
        while True:
            os.kill(pid, 0)
            await asyncio.sleep(0.01)


def _lines(notes: Path) -> list[str]:
    return notes.read_text().split() if notes.exists() else []


async def noted(notes: Path, count: int) -> None:
    """Return when the agent, another process, has left this many lines."""
    while len(_lines(notes)) < count:  # noqa: ASYNC110 - no event crosses processes
        await asyncio.sleep(0.01)


def test_plans_and_tool_calls_of_an_agent_are_work_pieces():
    assert within(lambda: answer(agent("works"))) == [
        ThinkingPiece(text="hm"),
        WorkPiece(event=build_tool_call_event("1", "Read a file", [], {})),
        WorkPiece(event=build_tool_call_event("1", "Read a file", [], {"status": "completed"})),
        TextPiece(text="Done."),
        EndPiece(usage={"context_tokens": 5, "context_size": 100}),
    ]


@pytest.mark.parametrize(
    ("stop_reason", "reason"),
    [
        ("end_turn", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("max_turn_requests", "max_tokens"),
        ("refusal", "refusal"),
    ],
)
def test_an_answer_has_the_stop_reason_of_the_turn(stop_reason: str, reason: str):
    end = within(lambda: answer(agent("works", stop_reason)))[-1]
    assert isinstance(end, EndPiece)
    assert end.reason == reason


@pytest.mark.parametrize(
    ("stop_reason", "sentence"),
    [("cancelled", "cancelled its turn without being asked"), ("tired", "without a stop reason of the protocol")],
)
def test_a_turn_without_a_proper_end_is_a_failure(stop_reason: str, sentence: str):
    assert sentence in failure(agent("works", stop_reason)).message


def test_garbage_on_stdout_is_ignored():
    assert text(within(lambda: answer(agent("garbage")))) == "Hello there. "


def test_huge_updates_arrive_whole():
    assert len(text(within(lambda: answer(agent("huge"))))) == 12_000_000


def test_one_process_gives_many_answers_and_sessions_are_closed_if_declared(tmp_path: Path):
    notes = tmp_path / "notes"

    async def twice() -> list[str]:
        backend = agent("closes", str(notes))
        written = [text(await answer(backend, order(word))) for word in ("one", "two")]
        await noted(notes, 2)
        await backend.aclose()
        return written

    assert within(twice) == ["one ", "two "]


def test_closing_an_answer_cancels_the_turn_and_keeps_the_agent(tmp_path: Path):
    notes = tmp_path / "notes"

    async def close_early() -> None:
        backend = agent("slow", str(notes))
        for count in (1, 2):
            async with aclosing(cast("Any", backend.answer(order("hi")))) as pieces:
                assert await anext(pieces) == TextPiece(text="begun ")
            await noted(notes, count)
        await backend.aclose()

    within(close_early)


def test_an_agent_that_does_not_stop_is_ended_and_another_one_answers():
    async def close_early() -> tuple[int, int]:
        backend = agent("deaf", timing=AgentTiming(cancel_s=0.1))
        pids: list[int] = []
        for _ in range(2):
            async with aclosing(cast("Any", backend.answer(order("hi")))) as pieces:
                pids.append(int((await anext(pieces)).text))
            await gone(pids[-1])
        await backend.aclose()
        return pids[0], pids[1]

    first, second = within(close_early)
    assert first != second


def test_a_crash_is_retryable_and_has_the_exit_status_and_the_log_has_the_stderr(caplog: pytest.LogCaptureFixture):
    backend = agent("crash_at_once")
    error = failure(backend)
    assert (error.message, error.retryable) == ("The agent ended with exit status 5 before it had answered", True)
    assert error.details == {}
    assert "the agent ended with status 5; its stderr:\ncannot find my configuration\n" in caplog.text


def test_a_crash_in_the_middle_comes_after_the_text_before_it(caplog: pytest.LogCaptureFixture):
    async def until_crash() -> list[str]:
        written: list[str] = []
        pieces = agent("crash_mid_stream").answer(order("hi"))
        written.append(cast("TextPiece", await anext(pieces)).text)
        with pytest.raises(BackendError, match="exit status 7"):
            await anext(pieces)
        return written

    assert within(until_crash) == ["so far "]
    assert "the disk is on fire" in caplog.text


def test_a_crashed_agent_is_started_again_after_pauses_that_double_up_to_a_limit():
    pauses: list[float] = []

    async def wait(seconds: float) -> None:
        pauses.append(seconds)

    async def crash_often() -> None:
        backend = agent("crash_at_once", timing=AgentTiming(wait=wait, clock=lambda: 0.0))
        for _ in range(9):
            with pytest.raises(BackendError, match="exit status 5"):
                await answer(backend)

    within(crash_often)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_an_answer_between_two_crashes_makes_the_pause_short_again():
    pauses: list[float] = []

    async def wait(seconds: float) -> None:
        pauses.append(seconds)

    async def crash_and_recover() -> None:
        backend = agent("crash_on_word", timing=AgentTiming(wait=wait, clock=lambda: 0.0))
        for word in ("crash", "crash", "hello", "crash", "hello"):
            with suppress(BackendError):
                await answer(backend, order(word))
        await backend.aclose()

    within(crash_and_recover)
    assert pauses == [0.5, 1, 0.5]


def test_a_missing_program_is_one_error():
    error = failure(AcpBackend("none", ["no-such-program-anywhere"]))
    assert (error.message, error.retryable) == ("The agent cannot be started", False)


@pytest.mark.parametrize(
    ("manner", "sentence", "retryable"),
    [
        (
            "wants_auth",
            "The agent requires authentication: sign in with its own tools, then try again (code -32000)",
            False,
        ),
        ("speaks_the_draft", "The agent speaks protocol version 2, not 1", False),
        ("silent", "The agent did not answer initialize within 0.2 s", True),
    ],
)
def test_each_failed_start_has_its_error(manner: str, sentence: str, retryable: bool):
    start_s = 0.2 if manner == "silent" else 20
    error = failure(agent(manner, timing=AgentTiming(start_s=start_s)))
    assert (error.message, error.retryable) == (sentence, retryable)


def test_refused_content_names_the_capability_without_the_agents_message():
    error = failure(agent("lies_about_images"), "look", IMAGE)
    assert (error.retryable, error.refused) == (False, "image_input")
    assert "/home/me" not in error.message


def test_content_that_was_not_declared_is_never_sent():
    assert "image_input" in failure(agent("echo"), "look", IMAGE).message


def test_the_manifest_is_the_agents_declaration_after_discovery():
    async def before_and_after() -> tuple[CapabilityManifest, CapabilityManifest]:
        backend = agent("image")
        before = backend.manifest
        await backend.discover()
        return before, backend.manifest

    before, after = within(before_and_after)
    assert [manifest["image_input"].kind for manifest in (before, after)] == ["unsupported", "native"]
    assert before["streaming"].kind == "native"


@pytest.mark.parametrize("name", ["image_input", "vision"])
def test_the_operators_declaration_counts_before_the_agents(name: str):
    declared = CapabilityManifest.model_validate({name: "native"})
    assert text(within(lambda: answer(agent("echo", declared=declared), order("see ", IMAGE)))) == "see <image> "


def test_a_backend_that_outlives_its_loop_answers_in_the_next_one():
    backend = agent("echo")
    assert [text(within(lambda: answer(backend))) for _ in range(2)] == ["Hello there. "] * 2


def test_an_agent_that_ignores_its_closed_input_is_ended_with_the_loop():
    backend = agent("stubborn")
    assert text(within(lambda: answer(backend))) == "Hello there. "


@pytest.mark.parametrize(
    ("permission", "offered", "outcome"),
    [
        ("deny", ("allow_once", "reject_always", "reject_once"), {"outcome": "selected", "optionId": "reject_once"}),
        ("deny", ("allow_once",), {"outcome": "cancelled"}),
        ("allow", ("allow_always", "allow_once", "reject_once"), {"outcome": "selected", "optionId": "allow_once"}),
        ("allow", ("reject_once",), {"outcome": "cancelled"}),
    ],
)
def test_permission_requests_are_answered_as_configured(
    permission: Any, offered: tuple[str, ...], outcome: dict[str, str]
):
    backend = agent("asks_permission", *offered, permissions=AgentPermissions(permission=permission))
    assert json.loads(text(within(lambda: answer(backend)))) == {"outcome": outcome}


def call_result(permissions: AgentPermissions, method: str, **params: Any) -> Any:
    wanted = json.dumps({"method": method, "params": params})
    return json.loads(text(within(lambda: answer(agent("asks", permissions=permissions), order(wanted)))))


def test_an_agent_reads_and_writes_no_files_by_default(tmp_path: Path):
    file = tmp_path / "a.txt"
    file.write_text("secret")
    reported = call_result(AgentPermissions(), "fs/read_text_file", path=str(file))
    assert reported == {"code": -32603, "message": "This client does not let the agent read that file"}
    reported = call_result(
        AgentPermissions(read_files=[str(tmp_path)]), "fs/write_text_file", path=str(file), content="x"
    )
    assert reported == {"code": -32603, "message": "This client does not let the agent write that file"}
    assert call_result(AgentPermissions(), "terminal/create", command="ls")["code"] == -32601
    assert file.read_text() == "secret"


def test_an_agent_reads_and_writes_in_allowed_folders(tmp_path: Path):
    allowed = AgentPermissions(read_files=[str(tmp_path)], write_files=[str(tmp_path)])
    file = tmp_path / "a.txt"
    assert call_result(allowed, "fs/write_text_file", path=str(file), content="a\nb\nc\n") == {}
    assert call_result(allowed, "fs/read_text_file", path=str(file), line=2, limit=1) == {"content": "b\n"}


def test_the_agent_gets_only_the_environment_that_it_is_given(caplog: pytest.LogCaptureFixture):
    script = "import os,sys; sys.stderr.write(','.join(sorted(os.environ)))"
    backend = AcpBackend("env", [sys.executable, "-S", "-c", script], environ={"ONLY": "1"})
    failure(backend)
    assert set(caplog.messages[0].partition("its stderr:\n")[2].split(",")) - {"LC_CTYPE"} == {"ONLY"}
