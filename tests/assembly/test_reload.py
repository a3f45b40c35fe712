"""SIGHUP to a real `accord serve`: new backends for new requests, none is lost, and a broken file changes nothing."""

import asyncio
import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from accord.assembly.reload import RELOADED, ReloadSummary, summarise_reload
from accord.config import Config, read_config
from tests.servers.model_endpoint import BACKEND, SLOW, endpoint
from tests.servers.process import ServedProcess, accord_serve

LIMIT_S = 40
STORE = '\n[store]\npath = "accord.db"\n'


def assist(query: str) -> dict[str, Any]:
    context = {"session_id": str(uuid4()), "user": {"id": "u", "name": "U"}}
    return {"request_id": str(uuid4()), "context": context, "payload": {"query": query}}


async def ask(client: aiohttp.ClientSession, kind: str) -> str:
    """The text of one answer, as an agent's turn or as a chat completion; fails for any other status than 200."""
    if kind == "turn":
        async with client.post("/v1/assist", json=assist("hi")) as response:
            assert response.status == 200, await response.text()
            return json.dumps((await response.json())["output"])
    message = {"role": "user", "content": "hi"}
    body = {"model": "auto", "messages": [message], "stream": kind == "stream"}
    async with client.post("/v1/chat/completions", json=body) as response:
        assert response.status == 200, await response.text()
        return await response.text()


async def reload(served: ServedProcess, config: str, says: str, *, count: int = 1) -> str:
    (served.folder / "accord.toml").write_text(config + STORE)
    served.process.send_signal(signal.SIGHUP)
    return await served.until_logged(says, count=count)


def test_under_load_a_reload_loses_no_request_and_closes_the_old_backends_after_their_last_one(tmp_path: Path):
    async def run() -> None:
        async with (
            asyncio.timeout(LIMIT_S),
            endpoint("old") as old,
            endpoint("new") as new,
            accord_serve(tmp_path, "relay", "--log-json", config=BACKEND.format(name="old", url=old.url)) as served,
            aiohttp.ClientSession(served.address) as client,
        ):
            by: Counter[str] = Counter()
            enough = {name: asyncio.Event() for name in ("old", "new")}

            async def load(kind: str) -> None:
                while not enough["new"].is_set():
                    text = await ask(client, kind)
                    name = "old" if '"old' in text else "new"
                    assert '"old' in text or '"new' in text
                    by[name] += 1
                    if by[name] == 30:
                        enough[name].set()

            slow_turn = assist(SLOW)
            slow = asyncio.create_task(_read(client, slow_turn))
            await old.is_slow.wait()
            workers = [asyncio.create_task(load(kind)) for kind in ("turn", "turn", "whole", "stream")]
            await enough["old"].wait()
            logged = await reload(served, BACKEND.format(name="new", url=new.url), "Reloaded the configuration")
            assert json.loads(logged)["fields"] == {"added": ["new"], "removed": ["old"]}
            await enough["new"].wait()
            await asyncio.gather(*workers)
            answered = old.answered
            assert "new" in await ask(client, "turn")

            # What began before the reload goes on with the old backend, which is therefore still open.
            assert not slow.done()
            assert old.connections >= 1
            assert not any("Closed the backends" in line for line in served.log_lines)
            old.release.set()
            assert "old begins and ends" in await slow
            await served.until_logged("Closed the backends of the earlier configuration")
            while old.connections:  # noqa: ASYNC110 - closed by another process, of which nothing tells this one
                await asyncio.sleep(0.01)
            assert old.answered == answered
            async with client.get(f"/v1/requests/{slow_turn['request_id']}/receipt") as response:
                assert (await response.json())["work"][0]["backend"]["name"] == "old"

    asyncio.run(run())


async def _read(client: aiohttp.ClientSession, request: dict[str, Any]) -> str:
    async with client.post("/v1/assist", json=request) as response:
        assert response.status == 200
        return await response.text()


async def described(client: aiohttp.ClientSession) -> dict[str, tuple[str, dict[str, str]]]:
    """The model of each backend, and the source of each of its capabilities that the operator declares."""
    async with client.get("/v1/capabilities") as response:
        backends = (await response.json())["backends"]
    return {
        backend["name"]: (
            backend["model"],
            {name: each["source"] for name, each in backend["evidence"].items() if each["source"] == "operator"},
        )
        for backend in backends
    }


def test_a_reload_changes_groups_health_and_capabilities(tmp_path: Path):
    async def run() -> None:
        async with (
            asyncio.timeout(LIMIT_S),
            endpoint("a") as first,
            endpoint("b") as second,
            accord_serve(tmp_path, config=BACKEND.format(name="a", url=first.url)) as served,
            aiohttp.ClientSession(served.address) as client,
        ):
            assert await described(client) == {"a": ("m-a", {"streaming": "operator"})}
            body = {"model": "pair", "messages": [{"role": "user", "content": "hi"}]}
            async with client.post("/v1/chat/completions", json=body) as response:
                assert response.status == 404
            tools = BACKEND.replace('streaming = "native"', 'streaming = "native", tool_use = "native"')
            both = tools.format(name="a", url=first.url) + BACKEND.format(name="b", url=second.url)
            group = '[groups.pair]\nbackends = ["b", "a"]\n[emulation]\npreset = { json_mode = true }\n'
            await reload(served, both + group, "Reloaded the configuration")
            async with client.post("/v1/chat/completions", json=body) as response:
                assert (response.status, response.headers["accord-served-by"]) == (200, "b; model=m-b")
            async with client.get("/v1/capabilities") as response:
                told = await response.json()
            assert "json_mode" in told["emulations"]
            assert await described(client) == {
                "a": ("m-a", {"streaming": "operator", "tool_use": "operator"}),
                "b": ("m-b", {"streaming": "operator"}),
            }
            async with client.get("/health") as response:
                assert (await response.json())["status"] == "ok"
            await reload(served, "", "Reloaded the configuration", count=2)
            async with client.get("/v1/models") as response:
                assert [each["id"] for each in (await response.json())["data"]] == ["demo-text", "demo-vision", "auto"]

    asyncio.run(run())


def test_a_reload_changes_how_many_calls_of_a_backend_may_run_at_once(tmp_path: Path):
    async def run() -> None:
        async with asyncio.timeout(LIMIT_S), endpoint("a") as model:
            free = BACKEND.format(name="a", url=model.url) + "[limits]\nslot_wait_s = 0.1\n"
            limited = free.replace("[[backends]]", "[[backends]]\nconcurrent = 1")
            async with (
                accord_serve(tmp_path, config=free) as served,
                aiohttp.ClientSession(served.address) as client,
            ):
                await reload(served, limited, "Reloaded the configuration")
                chat = {"model": "a", "messages": [{"role": "user", "content": SLOW}], "stream": True}
                async with client.post("/v1/chat/completions", json=chat) as held:
                    await model.is_slow.wait()
                    await reload(served, limited, "Reloaded the configuration", count=2)
                    async with client.post("/v1/chat/completions", json=chat) as response:
                        assert response.status == 503, "a call that began before the reload still counts"
                    await reload(served, free, "Reloaded the configuration", count=3)
                    async with client.post("/v1/chat/completions", json=chat) as response:
                        assert response.status == 200
                    model.release.set()
                    assert "ends" in await held.text()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("config", "problems"),
    [
        ("policy = 7\nbackend = []", ["policy: expected one of", "backend: unknown key; did you mean backends?"]),
        ("policy =", ["expected TOML"]),
        ('[[backends]]\nname = "x"\nkind = "nothing"', ["backends.x: kind should be one of"]),
        ('[[backends]]\nname = "x"\nkind = "acp"\noptions = { command = ["/no/such/program"] }', ["backends.x: "]),
    ],
    ids=["two mistakes", "no TOML", "no such kind", "cannot be started"],
)
def test_a_configuration_that_cannot_be_used_changes_nothing_and_every_problem_is_logged(
    tmp_path: Path, config: str, problems: list[str]
):
    async def run() -> None:
        async with (
            asyncio.timeout(LIMIT_S),
            endpoint("old") as old,
            accord_serve(tmp_path, "relay", config=BACKEND.format(name="old", url=old.url)) as served,
            aiohttp.ClientSession(served.address) as client,
        ):
            await reload(served, config, "was not reloaded", count=len(problems))
            logged = [line for line in served.log_lines if "was not reloaded" in line]
            for problem in problems:
                assert any(problem in line for line in logged), logged
            assert "old" in await ask(client, "turn")
            assert "old" in await ask(client, "whole")
            await reload(served, BACKEND.format(name="renamed", url=old.url), "Reloaded the configuration")
            assert "old" in await ask(client, "turn")

    asyncio.run(run())


def test_what_needs_a_restart_is_logged_by_its_key(tmp_path: Path):
    async def run() -> list[str]:
        async with asyncio.timeout(LIMIT_S), accord_serve(tmp_path) as served:
            (tmp_path / "accord.toml").write_text(
                'retention_days = 3\n[limits]\nturn_s = 9\n[server]\nport = 1\n[store]\npath = "other.db"\n'
            )
            served.process.send_signal(signal.SIGHUP)
            await served.until_logged("restart the service", count=4)
            return [line.split(" has changed")[0].split()[-1] for line in served.log_lines if "has changed" in line]

    assert asyncio.run(run()) == ["retention_days", "limits.turn_s", "store.path", "server.port"]


A, B, OTHER_A = ('[[backends]]\nname = "a"\nkind = "echo"\n', '[[backends]]\nname = "b"\nkind = "echo"\n',
                 '[[backends]]\nname = "a"\nkind = "scripted"\n')  # fmt: skip


@pytest.mark.parametrize(
    ("started_with", "before", "after", "summary"),
    [
        ("", "", "", ReloadSummary()),
        ("", A, A + B, ReloadSummary(added=("b",), kept=("a",))),
        ("", A + B, B, ReloadSummary(removed=("a",), kept=("b",))),
        ("", A, OTHER_A, ReloadSummary(changed=("a",))),
        ("", "", 'policy = "strict"\nunknown = "try"\n[emulation]\npreset = true\n[circuit]\nfailures = 1', ReloadSummary()),
        # A setting that was changed before and still waits for its restart is named again.
        ("", "[limits]\nturn_s = 3", "[limits]\nturn_s = 3", ReloadSummary(needs_restart=("limits.turn_s",))),
        ("[limits]\nturn_s = 3", "", "[limits]\nturn_s = 3", ReloadSummary()),
        ("", "", '[agents]\nx = "y:z"', ReloadSummary(needs_restart=("agents",))),
    ],
)  # fmt: skip
def test_a_summary_says_what_is_new_and_what_needs_a_restart(
    started_with: str, before: str, after: str, summary: ReloadSummary
):
    assert summarise_reload(*(read_config(text).config for text in (started_with, before, after))) == summary


def test_every_key_that_is_reloaded_is_one_of_the_configuration():
    assert set(Config.model_fields) >= RELOADED
    assert ReloadSummary(added=("a",)).dump() == {"added": ["a"]}
