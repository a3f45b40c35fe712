"""`GET /v1/models`, `/v1/models/{id}` and `/v1/model/info`: every name that a client may use, and what it can do."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from accord.backends.prices import ModelPrice, TokenPrice
from accord.backends.scripted import ScriptedBackend
from accord.core.work.emulation.choose import preset_config
from accord.core.work.groups import BackendGroup
from accord.errors import ErrorCode, RefusedError
from accord.ports import EvidenceSource
from accord.servers.service import Caller, Headers
from accord.wire.disposition import Api
from accord.wire.emulation import EmulationConfig
from accord.wire.keys import KeyRules
from accord.wire.session import TokenRecord
from tests.servers.model_apis.in_process import model_application
from tests.servers.transports import Answered, InMemory, within


@dataclass(slots=True)
class NamedModel(ScriptedBackend):
    """A script that has a model and speaks an API."""

    model: str | None = None
    api_name: str = Api.CHAT

    @property
    def evidence(self) -> Mapping[str, EvidenceSource]:
        return {}


class FixedKey:
    """Every caller has this key; without one, none is let in."""

    def __init__(self, rules: KeyRules | None) -> None:
        members = {"token_id": "k", "user": "u", "digest": "0" * 64, "created_at": datetime(2026, 1, 1, tzinfo=UTC)}
        self._key = TokenRecord.model_validate({**members, "rules": rules})

    async def authenticate(self, headers: Headers) -> Caller:
        if b"authorization" not in headers:
            raise RefusedError("No token", ErrorCode.UNAUTHENTICATED, {})
        return Caller("u", self._key)

    async def count_request(self, caller: Caller, address: str) -> None: ...

    async def count_key_request(self, caller: Caller) -> None: ...


SEEING: Final = {"image_input": "native", "tool_use": "unsupported", "temperature": "native", "streaming": "native"}
CALLING: Final = {"tool_use": "native", "image_input": "unsupported", "top_k": "native", "audio": "emulated"}
GROUPS: Final = {"acme/any": BackendGroup(("seeing", "calling"))}
NAMES: Final = ["acme/any", "seeing", "calling", "m-see", "acme/m-call", "auto"]
VERSION: Final = "2023-06-01"
PRICES: Final = {"seeing": ModelPrice(TokenPrice(2.5), TokenPrice(10.0))}


def get(
    path: str, *, rules: KeyRules | None = None, emulation: EmulationConfig | None = None, **headers: str
) -> Answered:
    """The answer of a service with two models that differ."""
    backends = [
        NamedModel("seeing", [["Hello"]], SEEING, model="m-see"),
        NamedModel("calling", [["Hello"]], CALLING, model="acme/m-call", api_name=Api.MESSAGES),
    ]
    application = model_application(backends, GROUPS, emulation=emulation, authenticator=FixedKey(rules), prices=PRICES)
    given = {"authorization": "Bearer t"} | headers

    async def call() -> Answered:
        sent = {name: value for name, value in given.items() if value}
        return await InMemory(application).call("GET", path, b"", **sent)

    return within(call)


def listed(**options: Any) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in get("/v1/models", **options).json()["data"]}


def info(**options: Any) -> dict[str, dict[str, Any]]:
    return {each["model_name"]: each for each in get("/v1/model/info", **options).json()["data"]}


def test_every_name_that_a_request_may_have_is_listed_in_openais_shape():
    from openai.types import Model  # noqa: PLC0415 - its import takes longer than all other tests here

    body = get("/v1/models").json()
    assert body["object"] == "list"
    models = [Model.model_validate(each, strict=True) for each in body["data"]]
    assert [model.id for model in models] == NAMES
    assert {model.id: model.owned_by for model in models} == {
        "acme/any": "accord",
        "seeing": "seeing",
        "calling": "calling",
        "m-see": "seeing",
        "acme/m-call": "calling",
        "auto": "accord",
    }


@pytest.mark.parametrize("name", NAMES)
def test_one_model_is_found_by_its_name_also_with_slashes(name: str):
    assert get(f"/v1/models/{name}").json() == listed()[name]


def test_an_unknown_model_is_a_404_in_openais_shape():
    answered = get("/v1/models/m-sea")
    assert answered.status == 404
    error = answered.json()["error"]
    assert (error["code"], error["param"], error["type"]) == ("model_not_found", "model", "invalid_request_error")
    assert error["message"] == 'unknown model "m-sea"; did you mean m-see?'


def test_anthropics_client_gets_its_own_shape():
    body = get("/v1/models", anthropic_version=VERSION).json()
    assert [each["id"] for each in body["data"]] == NAMES
    assert (body["has_more"], body["first_id"], body["last_id"]) == (False, "acme/any", "auto")
    assert body["data"][1] == {
        "type": "model",
        "id": "seeing",
        "display_name": "seeing",
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
    }
    assert get("/v1/models/seeing", anthropic_version=VERSION).json() == body["data"][1]
    missing = get("/v1/models/nothing", anthropic_version=VERSION)
    assert (missing.status, missing.json()["error"]["type"]) == (404, "not_found_error")


def test_a_model_has_the_parameters_and_inputs_that_its_backend_has():
    seeing, calling = listed()["seeing"], listed()["m-see"]
    assert (
        seeing["architecture"]["input_modalities"] == calling["architecture"]["input_modalities"] == ["text", "image"]
    )
    assert "temperature" in seeing["supported_parameters"]
    assert "tools" not in seeing["supported_parameters"]
    assert "top_k" not in seeing["supported_parameters"]
    calling = listed()["calling"]
    assert calling["architecture"]["input_modalities"] == ["text"]  # its API takes no audio, whatever the manifest says
    assert {"tools", "tool_choice", "top_k"} <= {*calling["supported_parameters"]}
    assert {"temperature", "seed", "logit_bias"}.isdisjoint(calling["supported_parameters"])


@pytest.mark.parametrize("name", ["acme/any", "auto"])
def test_a_group_has_what_one_of_its_backends_has(name: str):
    group = listed()[name]
    assert group["architecture"] == {
        "modality": "text+image->text",
        "input_modalities": ["text", "image"],
        "output_modalities": ["text"],
    }
    assert {"tools", "temperature", "top_k"} <= {*group["supported_parameters"]}
    assert group["accord"] == {"backends": ["seeing", "calling"], "models": ["m-see", "acme/m-call"]}
    flags = info()[name]["model_info"]
    assert flags["supports_vision"] is flags["supports_function_calling"] is True


def test_what_is_declared_unsupported_is_false_and_what_is_unknown_is_absent():
    flags = info()["seeing"]["model_info"]
    assert flags["supports_vision"] is True
    assert flags["supports_function_calling"] is flags["supports_tool_choice"] is False
    for unknown in ("supports_reasoning", "supports_pdf_input", "supports_audio_input"):
        assert unknown not in flags


def test_what_accord_emulates_counts():
    assert info()["seeing"]["model_info"]["supports_response_schema"] is True  # schemas are emulated by default
    assert {"response_format", "structured_outputs"} <= {*listed()["seeing"]["supported_parameters"]}
    flags = info(emulation=preset_config(["tool_use"]))["seeing"]["model_info"]
    assert flags["supports_function_calling"] is True


def test_litellms_shape_names_the_model_behind_a_backend():
    found = info()
    assert found["seeing"]["litellm_params"] == {"model": "m-see"}
    assert found["acme/any"]["litellm_params"] == {"model": "acme/any"}


def test_prices_are_listed_where_they_are_known():
    assert listed()["m-see"]["pricing"] == {"prompt": "0.0000025", "completion": "0.00001"}
    assert info()["seeing"]["model_info"]["input_cost_per_token"] == pytest.approx(2.5e-6)
    for name in ("calling", "auto"):
        assert "pricing" not in listed()[name]
        assert "input_cost_per_token" not in info()[name]["model_info"]


def test_a_key_lists_only_the_models_that_it_allows():
    rules = KeyRules(models=["acme/*", "seeing"])
    assert list(listed(rules=rules)) == list(info(rules=rules)) == ["acme/any", "seeing", "acme/m-call"]
    assert get("/v1/models/seeing", rules=rules).status == 200
    answered = get("/v1/models/calling", rules=rules)
    assert answered.status == 404
    assert "auto" not in answered.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/auto", "/v1/model/info"])
def test_the_lists_are_behind_authentication(path: str):
    answered = get(path, authorization="")
    assert answered.status == 401
    assert answered.json()["error"]["code"] == "invalid_api_key"


def test_capabilities_report_the_table_and_what_follows_from_it_for_each_backend():
    found = get("/v1/capabilities").json()["model_apis"]
    assert found["fields"]["chat"]["seed"] == {
        "kind": "tuning",
        "capability": "seed_determinism",
        "backends": {
            "chat": "native",
            "responses": "dropped",
            "messages": "dropped",
            "gemini": "native",
            "acp": "dropped",
            "other": "native",
        },
    }
    seeing, calling = found["backends"]["seeing"], found["backends"]["calling"]
    assert (seeing["api"], calling["api"]) == ("chat", "messages")
    assert seeing["fields"]["chat"]["temperature"] == {"disposition": "native"}
    assert seeing["fields"]["chat"]["tools"] == {
        "disposition": "refused",
        "reason": "tool_use is declared unsupported",
    }
    assert calling["fields"]["chat"]["seed"] == {
        "disposition": "dropped",
        "reason": "the messages API has no field for it",
    }
    assert calling["fields"]["messages"]["thread"] == {"disposition": "native"}
