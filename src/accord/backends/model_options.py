"""Builds the backend of a model behind HTTP from its configuration; holds the tables of model APIs and transports.

A key, or a header's value that comes from a variable, is in no error message.
"""

import inspect
import os
import ssl
from collections.abc import Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final, cast, get_type_hints

from accord.apis import dialects
from accord.apis.codec import ModelApi
from accord.backends.evidence import BackendEvidence, gather
from accord.backends.facts.limits import output_limit
from accord.backends.model import Endpoint, ModelBackend, RetryPolicy
from accord.backends.options import BackendOptions
from accord.backends.upstream import Upstream, UpstreamTimeouts
from accord.config import BackendConfig
from accord.errors import UsageError
from accord.http_client import environment_proxy
from accord.ports import SystemClock


def dialect_names() -> Sequence[str]:
    """Return the kinds of backends that are dialects of another API."""
    return [module.name for module in iter_modules(dialects.__path__)]


APIS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "openai": {
        "chat": ("accord.apis.chat.codec", "ChatCodec"),
        "responses": ("accord.apis.responses.codec", "ResponsesCodec"),
    },
    "anthropic": {"messages": ("accord.apis.messages.codec", "MessagesCodec")},
    "gemini": {"generate": ("accord.apis.gemini.codec", "GeminiCodec")},
    **{name: {"chat": (f"{dialects.__name__}.{name}", "CODEC")} for name in dialect_names()},
}
"""The APIs of each kind of backend, the default first; by module and class, so that only the one in use is loaded."""

TRANSPORTS: Final[Mapping[str, tuple[str, str]]] = {
    "direct": ("accord.backends.upstream_direct", "DirectUpstream"),
    "aiohttp": ("accord.backends.upstream_aiohttp", "AiohttpUpstream"),
}
"""The HTTP clients, the default first."""

TIMEOUTS: Final = ("connect_s", "first_byte_s", "gap_s")
OPTIONS: Final = ("api", *TIMEOUTS, "retries", "retry_patience_s", "ca_file", "headers", "header_env", "transport")
"""Options of every model backend; those of one API are the parameters of its class."""
MAX_RETRIES: Final = 20


def load_dialect(name: str) -> Any:
    """Return the codec's class of a dialect."""
    return import_module(f"{dialects.__name__}.{name}").CODEC


def dialect_address(kind: str) -> str | None:
    """Return the address of the servers of a dialect, if this is one and has one."""
    return load_dialect(kind).dialect.base_url if kind in dialect_names() else None


def model_backend(
    config: BackendConfig, evidence: BackendEvidence, environ: Mapping[str, str] | None = None
) -> ModelBackend:
    """Return the backend that the configuration describes."""
    options = BackendOptions(config)
    api = _model_api(config, options)
    endpoint = _endpoint(config, options, api, os.environ if environ is None else environ)
    retries = RetryPolicy()
    return ModelBackend(
        config.name,
        api,
        endpoint,
        _upstream(options, endpoint.base_url),
        SystemClock(),
        declared=evidence.declared,
        facts=gather(evidence.probed, evidence.facts),
        retries=RetryPolicy(
            options.integer("retries", retries.times, MAX_RETRIES),
            options.seconds("retry_patience_s", retries.max_wait_s),
        ),
    )


def _model_api(config: BackendConfig, options: BackendOptions) -> ModelApi:
    """Return the API, made with the options that its class takes."""
    named = APIS[config.kind]
    api = _load(*named[options.choice("api", tuple(named))])
    if api is None:
        raise options.error("api", "names an API that this version does not have")
    types = get_type_hints(api.__init__)
    parameters = {name: types.get(name, Any) for name in inspect.signature(api).parameters}
    options.check_names((*OPTIONS, *parameters))
    given = {name: options.typed(name, kind) for name, kind in parameters.items() if name in options}
    if "max_tokens_field" in parameters and config.base_url is not None:
        from accord.apis.chat.codec import max_tokens_field  # noqa: PLC0415 - only this API has the parameter

        given.setdefault("max_tokens_field", max_tokens_field(config.base_url))
    if "output_limit" in parameters and config.model is not None:
        given.setdefault("output_limit", output_limit(config.model))
    try:
        return api(**given)
    except (TypeError, ValueError) as error:
        raise UsageError(f"backends.{config.name}: {error}") from error


def _endpoint(config: BackendConfig, options: BackendOptions, api: ModelApi, environ: Mapping[str, str]) -> Endpoint:
    if config.model is None:
        raise UsageError(f"backends.{config.name}: model is missing; name the model as its endpoint does")
    base_url = config.base_url or api.base_url
    if base_url is None:
        raise UsageError(f"backends.{config.name}: base_url is missing; this API has no default address")
    key = config.key(environ)
    if key is not None and not _is_header_value(key):
        variables = " or ".join(config.key_variables)
        raise UsageError(f"backends.{config.name}: {variables} should hold a key of one line, without spaces around it")
    secret_headers: dict[str, str] = {}
    for name, variable in options.string_table("header_env").items():
        if not environ.get(variable):
            raise options.error("header_env", f"takes {name} from the variable {variable}, which is not set")
        secret_headers[name] = environ[variable]
    headers = options.string_table("headers") | secret_headers
    for name, value in headers.items():
        if not name.replace("-", "").isalnum() or not name.isascii() or not _is_header_value(value):
            raise options.error("headers", f"has a name or value that HTTP does not allow: {name!r}")
    return Endpoint(base_url, config.model, key, headers, list(secret_headers.values()))


def _upstream(options: BackendOptions, base_url: str) -> Upstream:
    transport = options.choice("transport", tuple(TRANSPORTS))
    ca_file = options.existing_path("ca_file", is_folder=False)
    try:
        tls = None if ca_file is None else ssl.create_default_context(cafile=ca_file)
    except (ssl.SSLError, OSError) as error:
        raise options.error("ca_file", "should hold certificates in PEM form") from error
    timeouts = UpstreamTimeouts(**{name: options.seconds(name) for name in TIMEOUTS if name in options})
    return make_upstream(transport, base_url, timeouts, tls)


def make_upstream(transport: str, base_url: str, timeouts: UpstreamTimeouts, tls: ssl.SSLContext | None) -> Upstream:
    """Return the HTTP client of this name; if the environment names a proxy for the address, the one that uses it."""
    try:
        is_proxied = environment_proxy(base_url) is not None
    except UsageError:
        is_proxied = True  # a wrong setting fails when a request is sent, since this need not be the backend in use
    module, name = TRANSPORTS["aiohttp" if is_proxied else transport]
    return cast("Upstream", getattr(import_module(module), name)(timeouts, tls=tls))


def _load(module: str, name: str) -> Any:
    """Return what the module has under this name; None if it, or a library that it needs, is not installed."""
    try:
        return getattr(import_module(module), name, None)
    except ImportError:
        return None


def _is_header_value(value: str) -> bool:
    return value.isprintable() and value == value.strip() and value.isascii()
