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
    output: Dollars
    cached_input: Dollars | None = None
    cache_write: Dollars | None = None


class BackendConfig(ConfigTable, frozen=True):
    """One backend. Which kinds there are is decided in `assembly/parts.py`."""

    FACTS: ClassVar[str] = "facts"
    DECLARED: ClassVar[str] = "declared"

    name: Name
    kind: Name
    model: Annotated[str, Field(min_length=1)] | None = None
    base_url: Annotated[str, AfterValidator(_check_web_address)] | None = None
    key_env: Variable | None = None
    manifest: Annotated[str, Field(min_length=1)] = FACTS
    probed: Annotated[str, Field(min_length=1)] | None = None
    overrides: CapabilityManifest = Field(default_factory=lambda: CapabilityManifest({}))
    price: PriceConfig | None = None
    concurrent: Count | None = None
    options: Annotated[FreeObject, AfterValidator(_reject_dates)] = Field(default_factory=dict[str, Any])

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
    weights: dict[Name, Weight] = Field(default_factory=dict[str, float])

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
    pause_s: Seconds = 5.0
    max_pause_s: Seconds = 60.0

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
    strategies: dict[CapabilityName, EmulationStrategy] = Field(default_factory=dict[CapabilityName, EmulationStrategy])
    max_retries: Annotated[int, Strict(), Field(ge=0, le=20)] = DEFAULT_RETRIES
    describe_images_with: Name | None = None


class LimitsConfig(ConfigTable, frozen=True):
    """Limits of size, time and concurrency."""

    max_block_bytes: Count = ContentLimits().max_block_bytes
    max_prompt_bytes: Count = ContentLimits().max_prompt_bytes
    max_blocks: Count = ContentLimits().max_blocks
    max_image_pixels: Count = MAX_PIXELS_IN
    concurrent_images: Count = 1
    first_packet_s: Seconds = 60.0
    gap_s: Seconds = 60.0
    turn_s: Seconds = 600.0
    concurrent_turns: Count = 1000
    slot_wait_s: Seconds = 10.0
    max_packet_bytes: Annotated[int, Strict(), Field(ge=1024, le=MAX_PACKET_BYTES)] = SizeLimits().packet_bytes
    max_answer_bytes: Count = SizeLimits().answer_bytes
    max_turn_bytes: Count = SizeLimits().turn_bytes
    max_history_bytes: Count = HISTORY_BYTES
    max_replay_turns: Count = 1_000
    max_replay_bytes: Count = 64 * 1024 * 1024
    max_user_bytes: Count | None = None


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
    path: Annotated[str, Field(min_length=1)] | None = None
    url_env: Variable = "ACCORD_STORE_URL"

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
    url_env: Variable = "ACCORD_QUEUE_URL"
    prefix: Annotated[str, _matches(_PREFIX, "letters, digits, dashes and underscores")] = "accord"
    replicas: Annotated[int, Strict(), Field(ge=1, le=5)] = 1
    credentials_file: Annotated[str, Field(min_length=1)] | None = None
    ca_file: Annotated[str, Field(min_length=1)] | None = None
    turns: Count = 100


class UnreadPolicy(StrEnum):
    """What happens to a turn that has no reader any more."""

    CONTINUE = "continue"
    STOP = "stop"


class OidcConfig(ConfigTable, frozen=True):
    """An OpenID Connect issuer whose tokens are accepted. Without `jwks_url`, its discovery document names the keys."""

    issuer: Annotated[str, AfterValidator(_check_web_address)]
    audience: Annotated[str, Field(min_length=1)]
    jwks_url: Annotated[str, AfterValidator(_check_web_address)] | None = None
    user_claim: Annotated[str, Field(min_length=1)] = "sub"


class ServerConfig(ConfigTable, frozen=True):
    """Where the service listens, its limits and timeouts, and who may call it."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Strict(), Field(ge=0, le=65535)] = 8000
    workers: Count = 1
    page: Annotated[bool, Strict()] = True
    max_body_bytes: Count = 64 * 1024 * 1024
    max_frame_bytes: Count = 16 * 1024 * 1024
    max_header_bytes: Count = 64 * 1024
    max_depth: Annotated[int, Strict(), Field(ge=1, le=MAX_DEPTH)] = 100
    max_values: Count = 50_000
    header_timeout_s: Seconds = 10.0
    body_timeout_s: Seconds = 30.0
    write_timeout_s: Seconds = 30.0
    heartbeat_s: Seconds = 15.0
    stall_s: Seconds = 1.0
    drain_s: Seconds = 30.0
    kill_s: Seconds = 5.0
    unread: UnreadPolicy = UnreadPolicy.CONTINUE
    unread_grace_s: Seconds = 5.0
    lease_s: Seconds = 15.0
    rates: list[Rate] | None = None
    turns_per_caller: Count = 100
    recheck_s: Seconds = 5.0
    allow_origins: list[WebOrigin] = Field(default_factory=list[str])
    trusted_proxies: list[Network] = Field(default_factory=list[str])
    oidc: OidcConfig | None = None


class Config(ConfigTable, frozen=True):
    """The whole configuration, with its defaults."""

    policy: WorkPolicy = WorkPolicy.STANDARD
    unknown: UnknownPolicy = UnknownPolicy.DENY
    default_agent: Name = BUILT_IN_AGENTS[0]
    retention_days: Count | None = None
    signing_key: Annotated[str, Field(min_length=1)] | None = None
    agents: dict[Name, Target] = Field(default_factory=dict[str, str])
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
