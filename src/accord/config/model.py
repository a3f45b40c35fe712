"""The configuration as frozen pydantic models with defaults: `Config()` is what runs without a file.

Secrets are never in it, only the names of the environment variables that hold them. It does not know TOML, files or
positions.
"""

import re
from collections.abc import Mapping
from datetime import date, time
from enum import StrEnum
from ipaddress import ip_network
from typing import Annotated, Any, ClassVar, Final, Self, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, model_validator
from pydantic.types import Strict
from pydantic_core import PydanticCustomError

from accord.core.prompt.rules import ContentLimits
from accord.core.sizes import MAX_PACKET_BYTES, MAX_PIXELS_IN, SizeLimits
from accord.core.work.emulation.base import DEFAULT_RETRIES
from accord.core.work.emulation.choose import PRESET
from accord.ports import HISTORY_BYTES
from accord.wire.capability import ALIASES, CapabilityName
from accord.wire.emulation import EmulationStrategy
from accord.wire.keys import RATE
from accord.wire.manifest import CapabilityManifest
from accord.wire.message import MAX_DEPTH, FreeObject
from accord.wire.plan import UnknownPolicy, WorkPolicy

BUILT_IN_AGENTS: Final = ("demo", "relay")
"""Agents that need no entry in `[agents]`."""
STORE_URL_VARIABLE: Final = "ACCORD_STORE_URL"
QUEUE_URL_VARIABLE: Final = "ACCORD_QUEUE_URL"
"""The variables with the addresses of PostgreSQL and NATS, unless the configuration names others."""
KEY_PREFIX: Final = "ACCORD_KEY_"
"""Prefix of a variable that holds the key of the backend named after it; it counts before `key_env`."""

DESCRIBER: Final = "emulation.describe_images_with"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_GROUP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]+")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORIGIN: Final = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+")
_TARGET: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def expected(what: str, *, at: str | tuple[str | int, ...] | None = None) -> PydanticCustomError:
    """Make the error that says what was expected; `at` names the field if a whole table is being checked.

    A key with dots needs the keys one by one.
    """
    return PydanticCustomError("config", "expected {what}", {"what": what, "at": at})


def _matches(pattern: re.Pattern[str], what: str) -> AfterValidator:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise expected(what)
        return text

    return AfterValidator(check)


def _check_web_address(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_valid, parts = False, None
    if not is_valid or parts is None:
        raise expected("an address that begins with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise expected("an address without a user or password; put the secret in a variable and name it in key_env")
    return text


def _reject_dates(value: Any) -> Any:
    """Reject dates and times, at any depth: options are sent as JSON, which has none."""
    if isinstance(value, date | time):
        raise expected("no date or time; put it in quotes, since options are sent as JSON")
    if isinstance(value, dict):
        _reject_dates([*cast("dict[str, Any]", value).values()])
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            _reject_dates(item)
    return cast("Any", value)


def _expand_preset(given: Any) -> Any:
    """Expand `true` to every emulation of the preset, `false` to none."""
    if isinstance(given, bool):
        return dict.fromkeys(map(str, PRESET), True) if given else {}
    if not isinstance(given, Mapping):
        raise expected("true, false, or a table of capabilities that are true or false")
    return cast("Any", given)


def _check_preset(chosen: dict[str, bool]) -> dict[str, bool]:
    for name in chosen:
        if name not in PRESET and ALIASES.get(name) not in PRESET:
            raise expected(f"a capability of the preset: {', '.join(sorted(map(str, PRESET)))}", at=name)
    return chosen


def _parse_network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        raise expected("an IP address or network, such as 127.0.0.1 or 10.0.0.0/8") from None


Name = Annotated[str, _matches(_NAME, "a name of letters, digits, dots, dashes and underscores")]
GroupName = Annotated[str, _matches(_GROUP, "a name of letters, digits and . - _ / : @")]
Variable = Annotated[str, _matches(_VARIABLE, "the name of an environment variable, such as OPENAI_API_KEY")]
Target = Annotated[str, _matches(_TARGET, "module:name, such as my_agents:helper")]
Rate = Annotated[str, _matches(RATE, "a rate such as 60/minute")]
WebOrigin = Annotated[str, _matches(_ORIGIN, "an origin such as https://app.example.com, without a path")]
Network = Annotated[str, AfterValidator(_parse_network)]
Count = Annotated[int, Strict(), Field(ge=1)]
Dollars = Annotated[float, Strict(), Field(ge=0, le=1e6, allow_inf_nan=False)]
Seconds = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Weight = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]


class ConfigTable(BaseModel, frozen=True):
    """A table of the file; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class PriceConfig(ConfigTable, frozen=True):
    """What the operator pays for a backend, in US dollars for a million tokens."""

    input: Dollars
    """An input token."""
    output: Dollars
    """An output token."""
    cached_input: Dollars | None = None
    """An input token that was read from the cache; without it, `input`."""
    cache_write: Dollars | None = None
    """An input token that was written to the cache; without it, `input`."""


class BackendConfig(ConfigTable, frozen=True):
    """One backend. Which kinds there are is decided in `assembly/parts.py`."""

    FACTS: ClassVar[str] = "facts"
    DECLARED: ClassVar[str] = "declared"

    name: Name
    """Its name, in receipts, groups, logs and as `model` of the model APIs."""
    kind: Name
    """What it is: `openai`, a dialect of it, `anthropic`, `gemini`, `acp`, `scripted` or `echo` (docs/backends.md)."""
    model: Annotated[str, Field(min_length=1)] | None = None
    """The id of the model."""
    base_url: Annotated[str, AfterValidator(_check_web_address)] | None = None
    """The address of the API, if it is not the provider's own."""
    key_env: Variable | None = None
    """The environment variable that holds the key."""
    manifest: Annotated[str, Field(min_length=1)] = FACTS
    """What it can do: `facts` (shipped facts about the model), `declared` (only `overrides`), or a manifest file."""
    probed: Annotated[str, Field(min_length=1)] | None = None
    """File with what `accord backends probe --write` found; it overrides the facts."""
    overrides: CapabilityManifest = Field(default_factory=lambda: CapabilityManifest({}))
    """Levels of capabilities that you declare yourself; they override every other source."""
    price: PriceConfig | None = None
    concurrent: Count | None = None
    """How many calls of it may run at once, over all processes that share the store; without it, any number."""
    options: Annotated[FreeObject, AfterValidator(_reject_dates)] = Field(default_factory=dict[str, Any])
    """Options of this kind of backend (docs/backends.md)."""

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The environment variables that may hold the key, in order of precedence."""
        by_name = KEY_PREFIX + re.sub(r"\W", "_", self.name).upper()
        return (by_name,) if self.key_env is None else (by_name, self.key_env)

    def key(self, environ: Mapping[str, str]) -> str | None:
        """Return the key, or None if no variable holds one."""
        return next((environ[name] for name in self.key_variables if environ.get(name)), None)

    @property
    def manifest_file(self) -> str | None:
        """The file of the manifest, if it comes from one."""
        return None if self.manifest in (self.FACTS, self.DECLARED) else self.manifest


class GroupConfig(ConfigTable, frozen=True):
    """Backends under one name, in their order of fallback; with weights, the first one is drawn."""

    backends: list[Name]
    """The backends of the group, in their order of fallback."""
    weights: dict[Name, Weight] = Field(default_factory=dict[str, float])
    """How often each backend is the first one to be tried, in proportion; one without a weight is only a fallback."""

    @model_validator(mode="after")
    def _check_members(self) -> Self:
        if not self.backends:
            raise expected("at least one backend", at="backends")
        for index, name in enumerate(self.backends):
            if name in self.backends[:index]:
                raise expected("each backend once", at=("backends", index))
        for name in self.weights:
            if name not in self.backends:
                raise expected(f"one of the group's backends: {', '.join(self.backends)}", at=("weights", name))
        return self


class CircuitConfig(ConfigTable, frozen=True):
    """When a backend that fails is skipped, and for how long."""

    failures: Count = 3
    """Failures in a row after which a backend is skipped."""
    pause_s: Seconds = 5.0
    """Seconds of the first pause; each further one is twice as long."""
    max_pause_s: Seconds = 60.0
    """Seconds of the longest pause."""

    @model_validator(mode="after")
    def _check_pauses(self) -> Self:
        if self.max_pause_s < self.pause_s:
            raise expected("a number of at least pause_s", at="max_pause_s")
        return self


class EmulationChoices(ConfigTable, frozen=True):
    """What Accord emulates: names of the preset, on or off, and strategies in full."""

    preset: Annotated[
        dict[CapabilityName, StrictBool], BeforeValidator(_expand_preset), AfterValidator(_check_preset)
    ] = Field(default_factory=dict[str, bool])
    """Emulations of Accord: all (true), none (false), or a table of capabilities that are true or false."""
    strategies: dict[CapabilityName, EmulationStrategy] = Field(default_factory=dict[CapabilityName, EmulationStrategy])
    """The strategy of a capability in full; it overrides the preset."""
    max_retries: Annotated[int, Strict(), Field(ge=0, le=20)] = DEFAULT_RETRIES
    """How often a backend is asked again if its answer does not fit the emulation."""
    describe_images_with: Name | None = None
    """Backend that describes images for backends that take none; needs `image_input` in the preset."""


class LimitsConfig(ConfigTable, frozen=True):
    """Limits of size, time and concurrency."""

    max_block_bytes: Count = ContentLimits().max_block_bytes
    """Size of one content block, in base64."""
    max_prompt_bytes: Count = ContentLimits().max_prompt_bytes
    """Size of all content of a prompt."""
    max_blocks: Count = ContentLimits().max_blocks
    """Number of content blocks of a prompt."""
    max_image_pixels: Count = MAX_PIXELS_IN
    """Pixels of the largest image that is made smaller for a client; each takes up to 18 bytes of memory."""
    concurrent_images: Count = 1
    """How many images are made smaller at once."""
    first_packet_s: Seconds = 60.0
    """Seconds until the agent yields its first item."""
    gap_s: Seconds = 60.0
    """Seconds between two items."""
    turn_s: Seconds = 600.0
    """Seconds of a whole turn."""
    concurrent_turns: Count = 1000
    """How many turns run at once in a process; others are refused with `unavailable`."""
    slot_wait_s: Seconds = 10.0
    """Seconds that a request waits for a backend that is at its `concurrent` limit."""
    max_packet_bytes: Annotated[int, Strict(), Field(ge=1024, le=MAX_PACKET_BYTES)] = SizeLimits().packet_bytes
    """Size of one packet."""
    max_answer_bytes: Count = SizeLimits().answer_bytes
    """Size of the answer of one backend."""
    max_turn_bytes: Count = SizeLimits().turn_bytes
    """Size of everything that the agent sends in a turn."""
    max_history_bytes: Count = HISTORY_BYTES
    """How much of the conversation so far a turn gets, and how long the responses are that a request continues."""
    max_replay_turns: Count = 1_000
    """How many turns `accord acp` sends to an editor that loads a conversation: the last ones."""
    max_replay_bytes: Count = 64 * 1024 * 1024
    """How many bytes of them it sends."""
    max_user_bytes: Count | None = None
    """How much may be stored for one user; without it, any amount."""


class StoreKind(StrEnum):
    """Where sessions are kept."""

    MEMORY = "memory"
    SQLITE = "sqlite"
    POSTGRES = "postgres"


class StoreConfig(ConfigTable, frozen=True):
    """Where sessions are kept: `path` is the SQLite file, `url_env` the variable with the address of PostgreSQL.

    Without a path, the file is in the user's state folder.
    """

    kind: StoreKind = StoreKind.SQLITE
    """Where sessions are kept: in a file (sqlite), a database (postgres), or the memory of the process (memory)."""
    path: Annotated[str, Field(min_length=1)] | None = None
    """The SQLite file, relative to this file; by default `accord.db` in the user's state folder."""
    url_env: Variable = STORE_URL_VARIABLE
    """The environment variable that holds the address of PostgreSQL."""

    @model_validator(mode="after")
    def _check_fields_of_kind(self) -> Self:
        if "path" in self.model_fields_set and self.kind is not StoreKind.SQLITE:
            raise expected(f'kind = "sqlite": a {self.kind} store has no path', at="path")
        if "url_env" in self.model_fields_set and self.kind is not StoreKind.POSTGRES:
            raise expected(f'kind = "postgres": a {self.kind} store has no address', at="url_env")
        return self


class QueueKind(StrEnum):
    """Who runs the turns: the serving process itself, or workers that take them from a queue."""

    NONE = "none"
    NATS = "nats"
    POSTGRES = "postgres"


class QueueConfig(ConfigTable, frozen=True):
    """The queue between servers and workers: `url_env` is the variable with the address of NATS.

    A queue in PostgreSQL is in the database of the store. `turns` is how many turns each worker runs at once; the rest
    is for NATS.
    """

    kind: QueueKind = QueueKind.NONE
    """What hands turns to workers: `nats`, `postgres` (the store's database), or nothing, so that servers run them."""
    url_env: Variable = QUEUE_URL_VARIABLE
    """The environment variable that holds the address of NATS; several addresses are separated by commas."""
    prefix: Annotated[str, _matches(_PREFIX, "letters, digits, dashes and underscores")] = "accord"
    """First part of every subject and stream, so that several services can share a NATS."""
    replicas: Annotated[int, Strict(), Field(ge=1, le=5)] = 1
    """How many servers of a NATS cluster keep each message, for streams that do not exist yet."""
    credentials_file: Annotated[str, Field(min_length=1)] | None = None
    """A `.creds` file for NATS."""
    ca_file: Annotated[str, Field(min_length=1)] | None = None
    """The authority of the NATS server's certificate."""
    turns: Count = 100
    """How many turns each worker runs at once."""


class UnreadPolicy(StrEnum):
    """What happens to a turn that has no reader any more."""

    CONTINUE = "continue"
    STOP = "stop"


class OidcConfig(ConfigTable, frozen=True):
    """An OpenID Connect issuer whose tokens are accepted. Without `jwks_url`, its discovery document names the keys."""

    issuer: Annotated[str, AfterValidator(_check_web_address)]
    """Its address, as in the claim `iss` of its tokens."""
    audience: Annotated[str, Field(min_length=1)]
    """What the claim `aud` of a token must contain."""
    jwks_url: Annotated[str, AfterValidator(_check_web_address)] | None = None
    """The address of its keys."""
    user_claim: Annotated[str, Field(min_length=1)] = "sub"
    """The claim that names the user."""


class ServerConfig(ConfigTable, frozen=True):
    """Where the service listens, its limits and timeouts, and who may call it."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on. Any but loopback needs keys, `[server.oidc]` or `--insecure`."""
    port: Annotated[int, Strict(), Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 picks a free one."""
    workers: Count = 1
    """Processes that serve the address; one for each processor core is best."""
    page: Annotated[bool, Strict()] = True
    """Whether there is a web page at `/`."""
    max_body_bytes: Count = 64 * 1024 * 1024
    """Size of the body of a request."""
    max_frame_bytes: Count = 16 * 1024 * 1024
    """Size of one WebSocket message."""
    max_header_bytes: Count = 64 * 1024
    """Size of all headers of a request."""
    max_depth: Annotated[int, Strict(), Field(ge=1, le=MAX_DEPTH)] = 100
    """How deeply the JSON of a request may be nested."""
    max_values: Count = 50_000
    """How many values the JSON of a request may have."""
    header_timeout_s: Seconds = 10.0
    """Seconds to receive the headers of a request."""
    body_timeout_s: Seconds = 30.0
    """Seconds to receive the body of a request."""
    write_timeout_s: Seconds = 30.0
    """Seconds to send a part of an answer."""
    heartbeat_s: Seconds = 15.0
    """Seconds without a packet after which a stream sends a comment, so that proxies keep it open."""
    stall_s: Seconds = 1.0
    """Seconds that the event loop may be blocked before the blocking code is logged."""
    drain_s: Seconds = 30.0
    """Seconds that running turns may take to finish after the first signal to stop."""
    kill_s: Seconds = 5.0
    """Seconds from the second signal to the end of the process."""
    unread: UnreadPolicy = UnreadPolicy.CONTINUE
    """A turn whose client has disconnected goes on (continue) or ends (stop)."""
    unread_grace_s: Seconds = 5.0
    """With `stop`: seconds to wait for the client to come back."""
    lease_s: Seconds = 15.0
    """Seconds without a heartbeat after which other processes end the turns of this one."""
    rates: list[Rate] | None = None
    """Requests and WebSocket frames of each caller; without it `50/second` and `1500/minute`, not for this machine."""
    turns_per_caller: Count = 100
    """How many turns each caller may run at once."""
    recheck_s: Seconds = 5.0
    """Seconds after which a key is checked again, also on open WebSockets."""
    allow_origins: list[WebOrigin] = Field(default_factory=list[str])
    """Origins of web pages that may call the service from a browser (CORS)."""
    trusted_proxies: list[Network] = Field(default_factory=list[str])
    """Reverse proxies, as addresses or networks, whose `X-Forwarded-…` headers are used."""
    oidc: OidcConfig | None = None


class Config(ConfigTable, frozen=True):
    """The whole configuration, with its defaults."""

    policy: WorkPolicy = WorkPolicy.STANDARD
    """What is accepted: native support only (strict), emulation (standard), also recorded losses (permissive)."""
    unknown: UnknownPolicy = UnknownPolicy.DENY
    """A capability that a manifest does not mention: missing (deny), or left to the endpoint (try)."""
    default_agent: Name = BUILT_IN_AGENTS[0]
    """The agent that answers if none is named: one of `[agents]`, or the built-in `demo` or `relay`."""
    retention_days: Count | None = None
    """Days after which sessions are deleted; without it conversations are kept, and calls of model APIs for 30 days."""
    signing_key: Annotated[str, Field(min_length=1)] | None = None
    """File of the private key that signs receipts; `accord receipts keygen` makes one."""
    agents: dict[Name, Target] = Field(default_factory=dict[str, str])
    """Your agents: a name, and `module:name` of the agent."""
    backends: list[BackendConfig] = Field(default_factory=list[BackendConfig])
    groups: dict[GroupName, GroupConfig] = Field(default_factory=dict[str, GroupConfig])
    circuit: CircuitConfig = Field(default_factory=CircuitConfig)
    emulation: EmulationChoices = Field(default_factory=EmulationChoices)
    limits: LimitsConfig = Field(default_factory=LimitsConfig)
    store: StoreConfig = Field(default_factory=StoreConfig)
    queue: QueueConfig = Field(default_factory=QueueConfig)
    server: ServerConfig = Field(default_factory=ServerConfig)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [backend.name for backend in self.backends]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise expected("a name that no other backend has", at=f"backends.{index}.name")
        if self.default_agent not in (*self.agents, *BUILT_IN_AGENTS):
            known = ", ".join((*self.agents, *BUILT_IN_AGENTS))
            raise expected(f"one of the agents: {known}", at="default_agent")
        describer = self.emulation.describe_images_with
        if describer is not None and describer not in names:
            raise expected(f"one of the backends: {', '.join(names) or 'none is configured'}", at=DESCRIBER)
        return self

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        names = [backend.name for backend in self.backends]
        for group, given in self.groups.items():
            if group in names:
                raise expected("a name that no backend has", at=("groups", group))
            for index, name in enumerate(given.backends):
                if name not in names:
                    known = ", ".join(names) or "none is configured"
                    raise expected(f"one of the backends: {known}", at=("groups", group, "backends", index))
        return self

    def backend(self, name: str) -> BackendConfig | None:
        """Return the backend of this name, or None."""
        return next((backend for backend in self.backends if backend.name == name), None)
