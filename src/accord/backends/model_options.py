"""The options of a backend that is a model behind HTTP, and the table of model APIs."""

import inspect
import os
import ssl
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from accord.backends.evidence import BackendEvidence, gather
from accord.backends.model import Endpoint, ModelBackend, RetryPolicy
from accord.backends.model_api import ModelApi
from accord.backends.upstream import Upstream, UpstreamReply, UpstreamRequest, UpstreamTimeouts
from accord.config import BackendConfig
from accord.errors import UsageError
from accord.ports import SystemClock

# The model APIs by name, and where each is: the one table that a new one is put into. Loads none of them.

APIS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "openai": {
        "chat": ("accord.backends.openai.chat", "OpenAiChat"),
        "responses": ("accord.backends.openai.responses", "OpenAiResponses"),
    },
    "anthropic": {"messages": ("accord.backends.anthropic", "AnthropicMessages")},
    "gemini": {"generate": ("accord.backends.gemini", "Gemini")},
}
"""The APIs of each kind, the usual one first, and where each is spoken."""


# Reads the options of a backend that is a model behind HTTP, and says in one sentence what is wrong with them.
#
# Options: `api` (which of a kind's APIs), `connect_s`, `first_byte_s`, `gap_s` (how long is waited), `retries` and
# `retry_patience_s`, `ca_file` (an absolute path), `headers` and `header_env` (a header's name, and its value or the
# variable that holds it), `transport`, and whatever the API's own constructor takes. A key or a header's value from a
# variable is in no sentence.

TRANSPORTS: Final[Mapping[str, tuple[str, str]]] = {
    "aiohttp": ("accord.backends.upstream_aiohttp", "AiohttpUpstream"),
}
"""Who carries requests, the usual one first."""

TIMES: Final = ("connect_s", "first_byte_s", "gap_s")
OPTIONS: Final = ("api", *TIMES, "retries", "retry_patience_s", "ca_file", "headers", "header_env", "transport")
MAX_RETRIES: Final = 20


def model_backend(
    config: BackendConfig, known: BackendEvidence, environ: Mapping[str, str] | None = None
) -> ModelBackend:
    """The backend that these options describe."""
    options = _Options(config, os.environ if environ is None else environ)
    api = options.api()
    facts = gather(known.probed, known.facts)
    return ModelBackend(
        config.name,
        api,
        options.endpoint(api),
        options.upstream(),
        SystemClock(),
        declared=known.declared,
        facts=facts,
        retrying=options.retrying(),
    )


class WithHeaders:
    """A way to an endpoint on which every request has these headers, too."""

    def __init__(self, inner: Upstream, headers: Mapping[str, str]) -> None:
        self._inner: Final = inner
        self._headers: Final = {name.lower(): value for name, value in headers.items()}

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """The reply to the request with the headers."""
        headers = {name.lower(): value for name, value in request.headers.items()} | self._headers
        return await self._inner.send(UpstreamRequest(request.method, request.url, headers, request.body))

    async def aclose(self) -> None:
        """Close the inner one."""
        await self._inner.aclose()


class _Options:
    """The options of one backend, each checked when it is asked for."""

    def __init__(self, config: BackendConfig, environ: Mapping[str, str]) -> None:
        self._config: Final = config
        self._environ: Final = environ
        self._options: Final[Mapping[str, Any]] = config.options

    def api(self) -> ModelApi:
        """The API, made with the options that are its own."""
        named = APIS[self._config.kind]
        made = _found(*named[self._one_of("api", tuple(named))])
        if made is None:
            raise self._wrong("api", "names an API that this version does not have")
        own = _parameters(made)
        unknown = sorted(set(self._options) - set(OPTIONS) - set(own))
        if unknown:
            raise self._wrong(unknown[0], f"is not known; there are {', '.join((*OPTIONS, *own))}")
        given = {name: self._taken(name, kind) for name, kind in own.items() if name in self._options}
        try:
            return made(**self._suited(own) | given)
        except (TypeError, ValueError) as error:
            raise UsageError(f"backends.{self._config.name}: {error}") from error

    def _suited(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """What the address tells of how the API is spoken there, unless the operator says otherwise."""
        if "max_tokens_field" not in own or self._config.base_url is None:
            return {}
        from accord.backends.openai.chat import max_tokens_field  # noqa: PLC0415 - known to be needed

        return {"max_tokens_field": max_tokens_field(self._config.base_url)}

    def endpoint(self, api: ModelApi) -> Endpoint:
        """Where the model is, and which."""
        config = self._config
        if config.model is None:
            raise UsageError(f"backends.{config.name}: model is missing; name the model as its endpoint does")
        base_url = config.base_url or api.base_url
        if base_url is None:
            raise UsageError(f"backends.{config.name}: base_url is missing; it has no usual one")
        key = config.key(self._environ)
        if key is not None and not _fits_header(key):
            variables = " or ".join(config.key_variables)
            raise UsageError(
                f"backends.{config.name}: {variables} should hold a key of one line, without spaces around"
            )
        return Endpoint(base_url, config.model, key, list(self._secret_headers().values()))

    def upstream(self) -> Upstream:
        """The way there."""
        transport = self._one_of("transport", tuple(TRANSPORTS))
        made = _found(*TRANSPORTS[transport])
        if made is None:
            raise self._wrong("transport", f"is {transport}, which is not installed")
        times = UpstreamTimeouts(**{name: self._seconds(name) for name in TIMES if name in self._options})
        upstream = cast("Upstream", made(times, tls=self._tls()))
        headers = self._texts("headers") | self._secret_headers()
        for name, value in headers.items():
            if not name.replace("-", "").isalnum() or not name.isascii() or not _fits_header(value):
                raise self._wrong("headers", f"has a name or value that no header can have: {name!r}")
        return WithHeaders(upstream, headers) if headers else upstream

    def retrying(self) -> RetryPolicy:
        """How often a request is sent again."""
        usual = RetryPolicy()
        times = self._options.get("retries", usual.times)
        if not isinstance(times, int) or isinstance(times, bool) or not 0 <= times <= MAX_RETRIES:
            raise self._wrong("retries", f"should be a whole number from 0 to {MAX_RETRIES}")
        patience_s = self._seconds("retry_patience_s") if "retry_patience_s" in self._options else usual.patience_s
        return RetryPolicy(times, patience_s)

    def _tls(self) -> ssl.SSLContext | None:
        if "ca_file" not in self._options:
            return None
        said = self._options["ca_file"]
        if not isinstance(said, str) or not Path(said).is_absolute() or not Path(said).is_file():
            raise self._wrong("ca_file", "should be an absolute path of a file")
        try:
            return ssl.create_default_context(cafile=said)
        except (ssl.SSLError, OSError) as error:
            raise self._wrong("ca_file", "should hold certificates in PEM form") from error

    def _secret_headers(self) -> dict[str, str]:
        held: dict[str, str] = {}
        for name, variable in self._texts("header_env").items():
            if not self._environ.get(variable):
                raise self._wrong("header_env", f"names a variable for {name} that is not set")
            held[name] = self._environ[variable]
        return held

    def _texts(self, key: str) -> dict[str, str]:
        said = self._options.get(key, {})
        if not isinstance(said, dict) or not all(
            isinstance(text, str) for text in cast("dict[str, Any]", said).values()
        ):
            raise self._wrong(key, "should be a table of texts")
        return cast("dict[str, str]", said)

    def _seconds(self, key: str) -> float:
        said = self._options[key]
        if isinstance(said, bool) or not isinstance(said, int | float) or said <= 0:
            raise self._wrong(key, "should be a number of seconds above 0")
        return float(said)

    def _one_of(self, key: str, words: tuple[str, ...]) -> str:
        said = self._options.get(key, words[0])
        if said not in words:
            raise self._wrong(key, f"should be one of {', '.join(words)}")
        return said

    def _taken(self, key: str, kind: Any) -> Any:
        """An option of the API's own, if it is of the kind that its constructor takes."""
        try:
            return TypeAdapter(kind, config=ConfigDict(strict=True, arbitrary_types_allowed=True)).validate_python(
                self._options[key]
            )
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)[0]
            raise self._wrong(key, f"is not right: {found['msg']}") from None

    def _wrong(self, key: str, told: str) -> UsageError:
        return UsageError(f"backends.{self._config.name}: options.{key} {told}")


def _found(module: str, name: str) -> Callable[..., Any] | None:
    """What is there under this name; None if it, or what it needs, is not installed."""
    try:
        return getattr(import_module(module), name, None)
    except ImportError:
        return None


def _parameters(made: Callable[..., Any]) -> dict[str, Any]:
    """What a constructor takes by name, and of which kind each is."""
    written = made.__init__ if inspect.isclass(made) else made
    kinds = get_type_hints(written)
    return {name: kinds.get(name, Any) for name in inspect.signature(made).parameters}


def _fits_header(value: str) -> bool:
    return value.isprintable() and value == value.strip() and value.isascii()
