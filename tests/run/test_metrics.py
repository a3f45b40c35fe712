"""The metrics of a whole answer: which backend answered, which failed before, what was emulated or lost."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import EchoBackend, ScriptedBackend, ScriptedFault
from accord.core.work.emulation.choose import preset_config
from accord.core.work.plan import PlanConfig
from accord.errors import AccordError, BackendError, RefusedError
from accord.ports import Backend
from accord.run import Dispatcher, Engine, Sessions
from accord.stores.sqlite import SqliteStore
from accord.wire.plan import UnknownPolicy
from accord.wire.request import ServiceRequest, ServiceResponse
from accord.wire.work import EndPiece
from tests.run.playing import respond

STREAMS = {"streaming": "native"}
SANDBOX = {"restricted": {"reason": "sandbox"}}


def request(**payload: Any) -> ServiceRequest:
    return ServiceRequest.model_validate(
        {
            "request_id": str(UUID(int=1)),
            "context": {"session_id": "s", "user": {"id": "u", "name": "U"}},
            "payload": {"query": "hi", **payload},
        }
    )


def requiring(*names: str) -> dict[str, Any]:
    return {"requirements": {"required": [{"capability": name, "min_support": "emulated"} for name in names]}}


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    async for text in turn.ask():
        yield text


async def careful(turn: Turn) -> AsyncIterator[Yielded]:
    """Asks twice; a question that fails is not the end of its turn."""
    for question in ("first", "second"):
        try:
            async for text in turn.ask(question):
                yield text
        except (BackendError, RefusedError):
            yield "failed. "


def metrics_of(tmp_path: Path, asked: ServiceRequest, *backends: Backend, run: Any = relay, **config: Any) -> Any:
    """`metrics` of this request: live, from the store of the same process, and from another process's."""

    async def ask() -> list[ServiceResponse]:
        answers: list[ServiceResponse] = []
        for _ in range(2):
            store = SqliteStore(tmp_path / "accord.db")
            await store.open()
            sessions = Sessions(Engine(Agent(run), Dispatcher(backends, config=PlanConfig(**config))), store)
            answers += [await respond(sessions, asked), await respond(sessions, asked)]
            await sessions.drain(1)
            await store.close()
        return answers

    first, *others = asyncio.run(asyncio.wait_for(ask(), 30))
    assert [other.dump() for other in others] == [first.dump()] * 3
    assert ServiceResponse.parse(first.to_json()).to_json() == first.to_json()
    assert first.metrics is not None
    assert set(first.metrics) - {"tokens"} == {"duration_ms", "adaptation", "work"}
    return first.metrics


def work_of(tmp_path: Path, asked: ServiceRequest, *backends: Backend, run: Any = relay, **config: Any) -> Any:
    """`metrics.work` of this request, without what the backends used."""
    metrics = metrics_of(tmp_path, asked, *backends, run=run, **config)
    return [{name: value for name, value in each.items() if name != "usage"} for each in metrics["work"]]


def test_the_backend_that_answered_is_named(tmp_path: Path):
    assert work_of(tmp_path, request(), ScriptedBackend("a", [["Hello"]], STREAMS)) == [{"backend": "a"}]


def test_backends_that_failed_before_are_named_in_order(tmp_path: Path):
    backends = [
        ScriptedBackend("a", [[ScriptedFault("gone")]], STREAMS),
        ScriptedBackend("b", [[ScriptedFault("gone, too")]], STREAMS),
        ScriptedBackend("c", [["Hello"]], STREAMS),
    ]
    failed = [{"backend": "a", "code": "backend_failed"}, {"backend": "b", "code": "backend_failed"}]
    assert work_of(tmp_path, request(), *backends) == [{"backend": "c", "fallbacks": failed}]


def test_emulations_say_who_performs_them_and_are_those_of_the_backend_that_answered(tmp_path: Path):
    able = {**STREAMS, "extended_thinking": "native", "tool_bash": "native"}
    backends = [
        ScriptedBackend("able", [[ScriptedFault("gone")]], able),
        ScriptedBackend("limited", [["Hello"]], {**STREAMS, "tool_bash": SANDBOX}),
    ]
    (work,) = work_of(tmp_path, request(**requiring("extended_thinking", "tool_bash")), *backends)
    assert work["backend"] == "limited"
    assert work["emulated"] == [
        {
            "capability": "extended_thinking",
            "by": "accord",
            "strategy": "system_prompt_injection",
            "reason": "not declared",
        },
        {"capability": "tool_bash", "by": "backend", "strategy": "restricted: sandbox"},
    ]


def test_what_was_lost_or_only_tried_is_named(tmp_path: Path):
    async def stops(turn: Turn) -> AsyncIterator[Yielded]:
        async for text in turn.ask(stop=["END"], parameters={"temperature": 0.1}):
            yield text

    backend = ScriptedBackend("a", [["one END two"]], {**STREAMS, "temperature": "unsupported"})
    asked, emulation = request(), preset_config()
    (work,) = work_of(tmp_path, asked, backend, run=stops, emulation=emulation)
    assert work["lost"] == [
        {"capability": "temperature", "reason": "declared unsupported"},
        {"capability": "stop_sequences", "reason": "text_after_stop", "count": 4},
    ]


def test_what_a_manifest_is_silent_about_is_named_as_tried(tmp_path: Path):
    backend = ScriptedBackend("a", [["Hello"]], STREAMS)
    (work,) = work_of(tmp_path, request(**requiring("logprobs")), backend, unknown=UnknownPolicy.TRY)
    assert work == {"backend": "a", "tried": ["logprobs"]}


@pytest.mark.parametrize(
    "script", [[ScriptedFault("gone")], ["so far", ScriptedFault("gone")]], ids=["at once", "in the middle"]
)
def test_a_question_without_an_answer_names_no_backend(tmp_path: Path, script: list[Any]):
    backend = ScriptedBackend("a", [script, ["Hello"]], STREAMS)
    first, second = work_of(tmp_path, request(), backend, run=careful)
    assert first == {"fallbacks": [{"backend": "a", "code": "backend_failed"}]}
    assert second == {"backend": "a"}


def test_an_agent_without_questions_has_no_work(tmp_path: Path):
    async def alone(turn: Turn) -> AsyncIterator[Yielded]:
        yield turn.text

    assert work_of(tmp_path, request(), run=alone) == []


# --- tokens ---

AGE = {"type": "object", "required": ["age"]}


def used(tokens: int) -> EndPiece:
    return EndPiece(usage={"input_tokens": tokens - 1, "output_tokens": 1})


async def structured(turn: Turn) -> AsyncIterator[Yielded]:
    try:
        yield await turn.ask(schema=AGE).text()
    except AccordError:
        yield "failed"


STRUCTURED = {**STREAMS, "structured_output_json_schema": "native"}
GOOD, BAD = '{"age": 7}', "seven"

# What each backend declares and answers, attempt by attempt, the agent, and the tokens of the turn.
TOKENS: dict[str, tuple[list[tuple[dict[str, str], list[list[Any]]]], Any, int | None]] = {
    "one answer": ([(STREAMS, [["Hello", used(120)]])], relay, 120),
    "two questions": ([(STREAMS, [["a", used(120)], ["b", used(30)]])], careful, 150),
    "one of two reports it": ([(STREAMS, [["a", used(120)], ["b", EndPiece()]])], careful, 127),
    "none is reported": ([(STREAMS, [["Hello", EndPiece()]])], relay, 7),
    "only the total is reported": ([(STREAMS, [["Hello", EndPiece(usage={"total_tokens": 9})]])], relay, 7),
    "an estimate in words": ([(STREAMS, [["Hello", " there"]])], relay, 3),
    "a backend that failed at once": ([(STREAMS, [[ScriptedFault()]]), (STREAMS, [["b", used(30)]])], relay, 30),
    "a failed attempt of an emulation": ([(STREAMS, [[BAD, used(120)], [GOOD, used(30)]])], structured, 150),
    "an emulation that failed": ([(STREAMS, [[BAD, used(10)]])], structured, 30),
    "a backend that contradicted its manifest": (
        [(STRUCTURED, [[BAD, used(10)]]), (STRUCTURED, [[GOOD, used(5)]])], structured, 35,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOKENS)
def test_the_tokens_of_all_attempts_are_counted(tmp_path: Path, name: str):
    scripts, run, tokens = TOKENS[name]
    backends = [ScriptedBackend(f"b{index}", each, declared) for index, (declared, each) in enumerate(scripts)]
    metrics = metrics_of(tmp_path, request(), *backends, run=run)
    assert metrics.get("tokens") == tokens


def test_the_echo_estimates_its_tokens_in_words(tmp_path: Path):
    metrics = metrics_of(tmp_path, request(query="three words here"), EchoBackend())
    assert metrics["tokens"] == 6
    assert metrics["work"] == [{"backend": "echo", "usage": {"input_tokens": 3, "output_tokens": 3}}]
