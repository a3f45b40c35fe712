"""The ACP backend with the Python SDK's agent, and behind the engine."""

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from accord.backends.acp import AcpBackend
from accord.backends.scripted import ScriptedBackend
from accord.ports import Backend
from accord.wire.packet import ErrorPacket, StreamPacket
from tests.backends.acp.agents import agent, answer, order, text, within
from tests.run.playing import IMAGE, asking, engine, played, relay, said

SDK_AGENT = Path(__file__).with_name("sdk_agent.py")


def packets(*backends: Backend, **payload: Any) -> list[StreamPacket]:
    return played(engine(relay, *backends, accepts={"image": True}).begin(asking(**payload)))


def test_the_python_sdks_agent_answers():
    backend = AcpBackend("sdk", [sys.executable, str(SDK_AGENT)])
    assert text(within(lambda: answer(backend, order("Hello there.")))) == "Hello there."


def test_a_turn_is_answered_by_an_agent_behind_the_engine():
    assert said(packets(agent("echo"), query="hi there")).strip() == "hi there"


def test_the_next_backend_answers_if_an_agent_ends_before_its_first_piece():
    other = ScriptedBackend("other", [["from the other"]], {"streaming": "native"})
    assert said(packets(agent("crash_on_prompt"), other)) == "from the other"


def test_an_image_for_an_agent_that_declares_none_is_refused_before_anything_is_started(
    caplog: pytest.LogCaptureFixture,
):
    backend = agent("crash_at_once")
    told = [packet for packet in packets(backend, content=[IMAGE]) if isinstance(packet, ErrorPacket)]
    assert [packet.p.code for packet in told] == ["CAPABILITY_UNSUPPORTED"]
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_agents_stderr_reaches_no_client():
    told = packets(agent("crash_mid_stream"))
    assert "exit status 7" in "".join(packet.to_json() for packet in told)
    assert "on fire" not in "".join(packet.to_json() for packet in told)
