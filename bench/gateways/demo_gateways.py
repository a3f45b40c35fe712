"""The gateways of the demonstration, each configured with the same backends and the same facts about them."""

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from .contestants import ACCORD, LITELLM_ENV, NODE, PORTKEY_SERVER, Launch, Place, UnavailableError, installed

MODELS: Final = ("blind", "seeing", "plain", "ignoring", "picky", "alive")
"""Backends that speak OpenAI's chat API; `claude` speaks the Messages API; `dead-first` is a group of two."""
DEAD_PORT: Final = 9
"""The discard port: nothing listens there."""


@dataclass(frozen=True, slots=True)
class DemoGateway:
    """How one gateway is started, and which headers a request for a model carries."""

    name: str
    title: str
    launch: Callable[[Place], Launch]
    headers: Callable[[Place, Launch, str], Mapping[str, str]]


def launch_litellm(place: Place, *, drop_params: bool = False) -> Launch:
    """LiteLLM with all backends and what LiteLLM lets an operator say about them."""
    program = installed(place.peers, "litellm", Path("bin", "litellm"))

    def entry(name: str, params: Mapping[str, str], **facts: bool) -> dict[str, Any]:
        return {"model_name": name, "litellm_params": {"api_key": "none", **params}, "model_info": facts}

    def chat(name: str, **facts: bool) -> dict[str, Any]:
        return entry(name, {"model": f"openai/{name}", "api_base": f"{place.upstream}/{name}/v1"}, **facts)

    dead = {"model": "openai/dead", "api_base": f"http://127.0.0.1:{DEAD_PORT}/v1"}
    settings = {
        "model_list": [
            chat("blind", supports_vision=False),
            chat("seeing", supports_vision=True),
            chat("plain", supports_response_schema=False),
            chat("ignoring", supports_response_schema=True),
            chat("picky"),
            chat("alive"),
            entry("claude", {"model": "anthropic/claude", "api_base": f"{place.upstream}/claude"}),
            entry("dead-first", dead),
        ],
        "litellm_settings": {"drop_params": drop_params},
        "router_settings": {"fallbacks": [{"dead-first": ["alive"]}]},
        "general_settings": {"dangerously_permit_weak_or_unset_master_key": True},
    }
    config = place.folder / "litellm.yaml"
    config.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
    command = [program, "--config", config, "--host", "127.0.0.1", "--port", str(place.port)]
    return Launch(command, LITELLM_ENV, cwd=place.folder)


def launch_portkey(place: Place) -> Launch:
    """Portkey's gateway, whose backends are named by each request."""
    program = installed(place.peers, "portkey", PORTKEY_SERVER)
    return Launch([NODE, program, "--headless", f"--port={place.port}"], cwd=place.folder)


def portkey_headers(place: Place, launch: Launch, model: str) -> Mapping[str, str]:
    """The backend of this model, or for the group a configuration with a fallback."""
    del launch
    if model == "dead-first":
        hosts = [f"http://127.0.0.1:{DEAD_PORT}/v1", f"{place.upstream}/alive/v1"]
        targets = [{"provider": "openai", "api_key": "none", "custom_host": host} for host in hosts]
        return {"x-portkey-config": json.dumps({"strategy": {"mode": "fallback"}, "targets": targets})}
    return {
        "x-portkey-provider": "anthropic" if model == "claude" else "openai",
        "x-portkey-custom-host": f"{place.upstream}/{model}/v1",
        "authorization": "Bearer none",
    }


def launch_accord(place: Place) -> Launch:
    """Accord with a token, SQLite and the standard policy."""
    config = place.folder / "accord.toml"
    config.write_text(accord_config(place), encoding="utf-8")
    made = subprocess.run(
        [ACCORD, "keys", "add", "demo", "--config", config], check=False, capture_output=True, text=True, timeout=60
    )
    if made.returncode != 0:
        raise UnavailableError(f"`accord keys add` failed: {made.stderr.strip()}")
    command = [ACCORD, "serve", "--config", config, "--port", str(place.port)]
    return Launch(command, headers={"authorization": f"Bearer {made.stdout.strip()}"})


ACCORD_FACTS: Final[Mapping[str, Mapping[str, str]]] = {
    "blind": {"image_input": "unsupported"},
    "seeing": {"image_input": "native"},
    "plain": {"structured_output_json_schema": "unsupported"},
    "ignoring": {"structured_output_json_schema": "native"},
    "picky": {},
    "alive": {},
}


def accord_config(place: Place) -> str:
    """One `[[backends]]` for each upstream, and the group whose first backend is dead."""
    parts = [accord_backend(name, "openai", f"{place.upstream}/{name}/v1", ACCORD_FACTS[name]) for name in MODELS]
    parts.append(accord_backend("claude", "anthropic", f"{place.upstream}/claude", {"tool_use": "native"}))
    parts.append(accord_backend("dead", "openai", f"http://127.0.0.1:{DEAD_PORT}/v1", {}))
    parts.append('[groups."dead-first"]\nbackends = ["dead", "alive"]\n')
    store = f'[store]\nkind = "sqlite"\npath = "{place.folder / "accord.db"}"\n'
    return "\n".join([*parts, store])


def accord_backend(name: str, kind: str, base_url: str, facts: Mapping[str, str]) -> str:
    """One backend; what no fact mentions is left to the endpoint."""
    lines = [f'{capability} = "{level}"' for capability, level in {"streaming": "native", **facts}.items()]
    return "\n".join(
        [
            "[[backends]]",
            f'name = "{name}"',
            f'kind = "{kind}"',
            f'model = "{name}"',
            f'base_url = "{base_url}"',
            'manifest = "declared"',
            "[backends.overrides]",
            *lines,
            "",
        ]
    )


def launch_headers(place: Place, launch: Launch, model: str) -> Mapping[str, str]:
    """The same headers for every model."""
    del place, model
    return launch.headers


GATEWAYS: Final = (
    DemoGateway("accord", "Accord", launch_accord, launch_headers),
    DemoGateway("litellm", "LiteLLM", launch_litellm, launch_headers),
    DemoGateway(
        "litellm-drop", "LiteLLM with `drop_params`", partial(launch_litellm, drop_params=True), launch_headers
    ),
    DemoGateway("portkey", "Portkey", launch_portkey, portkey_headers),
)
