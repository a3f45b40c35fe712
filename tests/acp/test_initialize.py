"""What real agents declared, and how the handshake is read when part of it is wrong."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from accord.acp import schema_v2
from accord.acp.jsonrpc import SuccessResponse
from accord.acp.schema_v1 import InitializeRequest, InitializeResponse
from accord.errors import InvalidMessageError
from accord.wire.message import Message

PEERS: Final = Path(__file__).parent / "peers"

DECLARED: Final[list[tuple[str, bool, bool, bool]]] = [
    # file, image, audio, embedded context
    ("auggie", True, False, False),
    ("claude-agent-acp-0.99", True, False, True),
    ("claude-agent-acp-0.99.v2", True, False, True),
    ("claude-code-acp", True, False, True),
    ("cline", True, False, False),
    ("droid", True, False, True),
    ("fast-agent", True, False, True),
    ("minion-code", False, False, False),
    ("openhands", True, False, True),
    ("pydantic-acp", False, False, False),
    ("qodercli", True, False, True),
]


def answer_of(peer: str) -> InitializeResponse | schema_v2.InitializeResponse:
    result = SuccessResponse.parse((PEERS / f"{peer}.json").read_bytes()).result
    model = schema_v2.InitializeResponse if result["protocolVersion"] == 2 else InitializeResponse
    return model.parse(json.dumps(result))


@pytest.mark.parametrize(("peer", "image", "audio", "embedded"), DECLARED)
def test_a_real_agents_declaration_is_read(peer: str, image: bool, audio: bool, embedded: bool) -> None:
    match answer_of(peer):
        case InitializeResponse() as answer:
            prompt = answer.agent_capabilities.prompt_capabilities
            assert (prompt.image, prompt.audio, prompt.embedded_context) == (image, audio, embedded)
            assert answer.agent_info is not None
        case schema_v2.InitializeResponse() as answer:
            assert answer.capabilities.session is not None
            objects = answer.capabilities.session.prompt
            assert objects is not None
            declared = [part is not None for part in (objects.image, objects.audio, objects.embedded_context)]
            assert declared == [image, audio, embedded]
            assert answer.info.version == "0.99.1"


@pytest.mark.parametrize("peer", [peer for peer, *_ in DECLARED])
def test_a_real_agents_response_is_kept_completely(peer: str) -> None:
    sent = json.loads((PEERS / f"{peer}.json").read_bytes())["result"]
    assert kept(sent, answer_of(peer).dump())


def kept(sent: Any, read: Any) -> bool:
    if isinstance(sent, dict):
        return all(key in read and kept(value, read[key]) for key, value in sent.items())  # pyright: ignore[reportUnknownVariableType]
    if isinstance(sent, list):
        return len(sent) == len(read) and all(map(kept, sent, read))  # pyright: ignore[reportUnknownArgumentType]
    return bool(sent == read)


def test_every_recorded_response_is_in_the_table() -> None:
    assert sorted(path.stem for path in PEERS.iterdir()) == sorted(peer for peer, *_ in DECLARED)


@pytest.mark.parametrize(
    ("model", "least"),
    [
        (InitializeRequest, {"protocolVersion": 1}),
        (InitializeResponse, {"protocolVersion": 1}),
        (schema_v2.InitializeRequest, {"protocolVersion": 2, "info": {"name": "n", "version": "v"}}),
        (schema_v2.InitializeResponse, {"protocolVersion": 2, "info": {"name": "n", "version": "v"}}),
    ],
)
@pytest.mark.parametrize("wrong", [None, 7, "wrong", [], True])
def test_malformed_optional_parts_count_as_absent(model: type[Message], least: dict[str, Any], wrong: Any) -> None:
    optional = ["clientCapabilities", "agentCapabilities", "capabilities", "clientInfo", "agentInfo"]
    known = {field.alias for field in model.model_fields.values()}
    sent = {**least, **{key: wrong for key in optional if key in known}}
    assert model.parse(json.dumps(sent)) == model.parse(json.dumps(least))


@pytest.mark.parametrize("version", ["1", 1.5, -1, 65536, None, True, {}])
def test_a_version_that_is_not_a_small_whole_number_is_refused(version: Any) -> None:
    for model in (InitializeRequest, InitializeResponse):
        with pytest.raises(InvalidMessageError, match="protocolVersion"):
            model.parse(json.dumps({"protocolVersion": version}))


def test_a_malformed_authentication_method_is_skipped_and_the_others_stay() -> None:
    read = InitializeResponse.parse('{"protocolVersion":1,"authMethods":[{"id":1},{"id":"a","name":"A","x":1},7]}')
    assert read.dump()["authMethods"] == [{"id": "a", "name": "A", "x": 1}]


def test_the_draft_requires_the_name_of_the_peer() -> None:
    for model in (schema_v2.InitializeRequest, schema_v2.InitializeResponse):
        with pytest.raises(InvalidMessageError, match="info"):
            model.parse('{"protocolVersion":2}')
