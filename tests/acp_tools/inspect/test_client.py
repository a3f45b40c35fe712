"""What the inspector's client answers: files, terminals with real commands, and permissions."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from accord.acp_tools.inspect.client import Answer, InspectorClient, PermissionPolicy, RefusedRequest
from accord.acp_tools.inspect.connection import AgentConnection
from accord.acp_tools.inspect.terminals import cut_beginning
from accord.core.rpc import RpcRequest
from accord.errors import RpcCode
from accord.stdio import start_peer

ALL = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
LIMIT_S = 20


def offer_all(folder: Path, **members: Any) -> InspectorClient:
    return InspectorClient(ALL, folder=folder, **members)


def request(method: str, **params: Any) -> RpcRequest:
    return RpcRequest(1, method, json.dumps({"sessionId": "s", **params}).encode())


def ask(client: InspectorClient, method: str, **params: Any) -> Answer:
    async def run() -> Answer:
        try:
            return await asyncio.wait_for(client.answer(request(method, **params)), LIMIT_S)
        finally:
            await client.close()

    return asyncio.run(run())


def error_code(answer: Answer) -> int | None:
    return answer.code if isinstance(answer, RefusedRequest) else None


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({}, "one\ntwo\nthree"),
        ({"line": 1}, "one\ntwo\nthree"),
        ({"line": 2}, "two\nthree"),
        ({"line": 2, "limit": 1}, "two\n"),
        ({"limit": 2}, "one\ntwo\n"),
        ({"limit": 0}, ""),
        ({"line": 9}, ""),
    ],
)
def test_a_file_is_read_from_a_line_on_up_to_a_limit(tmp_path: Path, part: Mapping[str, int], text: str):
    (tmp_path / "a.txt").write_text("one\ntwo\nthree")
    assert ask(offer_all(tmp_path), "fs/read_text_file", path=str(tmp_path / "a.txt"), **part) == {"content": text}


def test_unsaved_text_is_read_instead_of_the_file_until_the_file_is_written(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("saved")
    client = offer_all(tmp_path, unsaved={str(path): "unsaved"})
    assert ask(client, "fs/read_text_file", path=str(path)) == {"content": "unsaved"}
    assert ask(client, "fs/write_text_file", path=str(path), content="new") == {}
    assert ask(client, "fs/read_text_file", path=str(path)) == {"content": "new"}


def test_a_new_file_is_written_with_its_folders(tmp_path: Path):
    assert ask(offer_all(tmp_path), "fs/write_text_file", path=str(tmp_path / "b/c.txt"), content="ü") == {}
    assert (tmp_path / "b/c.txt").read_text(encoding="utf-8") == "ü"


@pytest.mark.parametrize("method", ["fs/read_text_file", "fs/write_text_file"])
@pytest.mark.parametrize("path", ["outside.txt", "{folder}/../outside.txt", "{folder}/link/outside.txt", "a\0b"])
def test_files_outside_the_folder_are_neither_read_nor_written(tmp_path: Path, method: str, path: str):
    folder, outside = tmp_path / "inside", tmp_path / "outside.txt"
    folder.mkdir()
    outside.write_text("secret")
    (folder / "link").symlink_to(tmp_path)
    answer = ask(offer_all(folder), method, path=path.format(folder=folder), content="changed")
    assert error_code(answer) == RpcCode.INVALID_PARAMS
    assert outside.read_text() == "secret"


def test_a_missing_file_and_malformed_parameters_have_errors(tmp_path: Path):
    missing = ask(offer_all(tmp_path), "fs/read_text_file", path=str(tmp_path / "no.txt"))
    assert error_code(missing) == RpcCode.NOT_FOUND
    assert error_code(ask(offer_all(tmp_path), "fs/read_text_file", path=42)) == RpcCode.INVALID_PARAMS
    assert error_code(ask(offer_all(tmp_path), "fs/read_text_file", path=str(tmp_path))) == RpcCode.INTERNAL_ERROR


@pytest.mark.parametrize(
    ("capabilities", "method"),
    [
        ({}, "fs/read_text_file"),
        ({"fs": {"writeTextFile": True}}, "fs/read_text_file"),
        ({"fs": {"readTextFile": True}}, "fs/write_text_file"),
        ({"fs": {"readTextFile": True}, "terminal": False}, "terminal/create"),
        ({}, "terminal/output"),
        (ALL, "client/beep"),
    ],
)
def test_what_is_not_offered_is_an_unknown_method(tmp_path: Path, capabilities: Mapping[str, Any], method: str):
    client = InspectorClient(capabilities, folder=tmp_path)
    answer = ask(client, method, path=str(tmp_path / "a"), content="", command="true", terminalId="t")
    assert error_code(answer) == RpcCode.METHOD_NOT_FOUND
    assert [each.method for each in client.requests] == [method]


ONCE = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
ALWAYS = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_always", "reject_always")]


@pytest.mark.parametrize(
    ("policy", "options", "chosen"),
    [
        (PermissionPolicy.ALLOW, [*ALWAYS, *ONCE], "allow_once"),
        (PermissionPolicy.REJECT, [*ALWAYS, *ONCE], "reject_once"),
        (PermissionPolicy.ALLOW, ALWAYS, "allow_always"),
        (PermissionPolicy.REJECT, ALWAYS, "reject_always"),
        (PermissionPolicy.REJECT, ONCE[:1], None),
        (PermissionPolicy.ALLOW, [{"kind": "allow_once"}, "no object"], None),
        (PermissionPolicy.ALLOW, "no list", None),
    ],
)
def test_permissions_are_decided_by_the_policy_once_rather_than_always(
    policy: PermissionPolicy, options: Any, chosen: str | None
):
    answer = ask(InspectorClient(permissions=policy), "session/request_permission", options=options)
    selected = {"outcome": "selected", "optionId": chosen} if chosen else {"outcome": "cancelled"}
    assert answer == {"outcome": selected}


def test_a_held_permission_is_answered_as_cancelled_when_the_turn_is():
    async def run() -> Answer:
        client = InspectorClient(permissions=PermissionPolicy.HOLD)
        answering = asyncio.create_task(client.answer(request("session/request_permission", options=ONCE)))
        done, _ = await asyncio.wait({answering}, timeout=0.05)
        assert not done
        client.cancel_permissions()
        return await asyncio.wait_for(answering, LIMIT_S)

    assert asyncio.run(run()) == {"outcome": {"outcome": "cancelled"}}


def use_terminal(folder: Path, command: str, *methods: str, **params: Any) -> list[Any]:
    """The answers to `terminal/create` with this command and then to these methods, one after the other."""

    async def run() -> list[Answer]:
        client = offer_all(folder)
        try:
            created = await client.answer(request("terminal/create", command=command, **params))
            terminal = created["terminalId"] if isinstance(created, Mapping) else ""
            calls = [request(f"terminal/{method}", terminalId=terminal) for method in methods]
            return [created, *[await asyncio.wait_for(client.answer(call), LIMIT_S) for call in calls]]
        finally:
            await client.close()

    return asyncio.run(run())


def test_a_command_runs_in_its_folder_with_its_arguments_and_variables(tmp_path: Path):
    script = ["-c", 'echo "$GREETING $1"; pwd >&2; exit 3', "sh", "a b"]
    variables = [{"name": "GREETING", "value": "hello"}]
    _, waited, output = use_terminal(tmp_path, "sh", "wait_for_exit", "output", args=script, env=variables)
    assert waited == {"exitCode": 3, "signal": None}
    assert output == {"output": f"hello a b\n{tmp_path}\n", "truncated": False, "exitStatus": waited}


def test_a_command_line_without_arguments_is_run_by_a_shell(tmp_path: Path):
    assert use_terminal(tmp_path, "echo one; echo two", "wait_for_exit", "output")[2]["output"] == "one\ntwo\n"


@pytest.mark.parametrize(
    ("limit", "output"), [(0, ""), (1, ""), (2, "ü"), (3, "bü"), (4, "bü"), (5, "äbü"), (9, "äbü"), (None, "äbü")]
)
def test_output_is_cut_at_its_beginning_between_characters(tmp_path: Path, limit: int | None, output: str):
    result = use_terminal(tmp_path, "printf äbü", "wait_for_exit", "output", outputByteLimit=limit)[2]
    assert (result["output"], result["truncated"]) == (output, output != "äbü")


def test_a_killed_command_has_a_signal_until_its_terminal_is_released(tmp_path: Path):
    answers = use_terminal(tmp_path, "sleep 60", "kill", "wait_for_exit", "output", "release", "output")
    status = {"exitCode": None, "signal": "SIGKILL"}
    assert answers[1:5] == [{}, status, {"output": "", "truncated": False, "exitStatus": status}, {}]
    assert error_code(answers[5]) == RpcCode.NOT_FOUND


def test_a_running_command_has_no_exit_status(tmp_path: Path):
    assert use_terminal(tmp_path, "sleep 60", "output")[1] == {"output": "", "truncated": False}


@pytest.mark.parametrize("entry", ["a folder that may not be read", "a folder with a folder of that name"])
def test_a_program_that_does_not_exist_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str):
    folder = tmp_path / "bin"
    (folder / "no-such-program").mkdir(parents=True)
    folder.chmod(0o700 if "of that name" in entry else 0)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    answer = use_terminal(tmp_path, "no-such-program", args=["x"])[0]
    folder.chmod(0o700)  # so that pytest can remove it
    assert error_code(answer) == RpcCode.NOT_FOUND


@pytest.mark.parametrize(("word", "code"), [("accord-1", None), ("other", RpcCode.INVALID_PARAMS)])
def test_only_commands_with_the_given_text_are_run(tmp_path: Path, word: str, code: int | None):
    client = offer_all(tmp_path, command="echo accord-")
    assert error_code(ask(client, "terminal/create", command="sh", args=["-c", f"echo {word}"])) == code


def test_closing_ends_every_process_of_a_command_and_every_answer(tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def run() -> tuple[bytes, Answer]:
        client = offer_all(tmp_path)
        command = "exec 3> fifo; sleep 60 & echo up >&3; wait"
        created = await client.answer(request("terminal/create", command=command))
        assert isinstance(created, Mapping)
        assert client.terminals.unreleased == [created["terminalId"]]
        exit_request = request("terminal/wait_for_exit", terminalId=created["terminalId"])
        waiting = asyncio.create_task(client.answer(exit_request))
        with await asyncio.wait_for(asyncio.to_thread(fifo.open, "rb"), LIMIT_S) as pipe:
            await asyncio.wait_for(asyncio.to_thread(pipe.readline), LIMIT_S)
            await client.close()
            # The pipe ends when the last process that has it open has ended.
            rest = await asyncio.wait_for(asyncio.to_thread(pipe.read), LIMIT_S)
        return rest, await asyncio.wait_for(waiting, LIMIT_S)

    assert asyncio.run(run()) == (b"", {"exitCode": None, "signal": "SIGKILL"})


WAITING_AGENT = """import json
def call(number, method, **params):
    print(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": {"sessionId": "s", **params}}), flush=True)
call(1, "terminal/create", command="sleep 60")
call(2, "terminal/wait_for_exit", terminalId=json.loads(input())["result"]["terminalId"])
input()
"""


def test_an_agent_that_waits_for_a_command_can_be_ended(tmp_path: Path):
    async def run() -> list[str]:
        peer = await start_peer([sys.executable, "-c", WAITING_AGENT])
        client = offer_all(tmp_path)
        connection = AgentConnection(peer, 5, client)
        try:
            async with asyncio.timeout(LIMIT_S):
                while len(client.requests) < 2:
                    await connection.received_within(LIMIT_S)
        finally:
            await asyncio.wait_for(connection.end(), LIMIT_S)
        return [each.method for each in client.requests]

    assert asyncio.run(run()) == ["terminal/create", "terminal/wait_for_exit"]


@pytest.mark.parametrize(
    ("data", "limit", "kept"),
    [
        (b"abc", 3, b"abc"),
        (b"abcd", 3, b"bcd"),
        ("a€".encode(), 3, "€".encode()),
        ("€a".encode(), 3, b"a"),
        ("😀a".encode(), 2, b"a"),
        (b"\x80" * 9, 5, b"\x80" * 2),
    ],
)
def test_at_most_three_bytes_more_are_cut_to_reach_a_character(data: bytes, limit: int, kept: bytes):
    output = bytearray(data)
    assert cut_beginning(output, limit) is (len(data) > limit)
    assert bytes(output) == kept
