"""docs/reference/http.md: every path of the service, from the routes, the OpenAPI document and the model APIs."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from scripts.docs.markdown import anchor, code, head, table

from accord.wire import routes
from accord.wire.contract import ServiceContract
from accord.wire.routes import (
    CHAT_PATH,
    COUNT_TOKENS_PATH,
    MESSAGES_PATH,
    MODEL_INFO_PATH,
    MODEL_PATH,
    MODELS_PATH,
    PAGE_FILE_PATH,
    PAGE_PATH,
    RESPONSE_PATH,
    RESPONSES_PATH,
    WEBSOCKET_PATH,
)

INTRODUCTION: Final = """
Every path of `accord serve`. [http.md](../http.md) is the guide, with requests and answers in full. A running service
has the same as an OpenAPI document at `/openapi.json`, and as a page at `/docs`; `accord schemas FOLDER` writes it.

GET paths answer HEAD as well. Errors have a body of type `application/problem+json`
([ProblemBody](messages.md#problembody)); [errors.md](errors.md) lists the codes. Paths with *token* need one where the
service has any: `Authorization: Bearer …` or `x-api-key: …`.
"""
OTHER_PATHS: Final[Mapping[str, tuple[str, str, str]]] = {
    WEBSOCKET_PATH: ("WebSocket", "Requests, packets, cancellation and permissions over one connection", "../http.md"),
    CHAT_PATH: ("POST", "OpenAI's chat completions", "../model-apis.md"),
    RESPONSES_PATH: ("POST", "OpenAI's responses", "../model-apis.md"),
    RESPONSE_PATH: ("GET", "A response that was stored", "../model-apis.md"),
    MESSAGES_PATH: ("POST", "Anthropic's messages", "../model-apis.md"),
    COUNT_TOKENS_PATH: ("POST", "The number of tokens of an Anthropic request", "../model-apis.md"),
    MODELS_PATH: ("GET", "The backends, groups and models that a request may name", "../model-apis.md"),
    MODEL_PATH: ("GET", "One of them", "../model-apis.md"),
    MODEL_INFO_PATH: ("GET", "What each of them can do, and its price", "../model-apis.md"),
    PAGE_PATH: ("GET", "The web page", "../page.md"),
    PAGE_FILE_PATH: ("GET", "A file of the web page", "../page.md"),
}
"""Paths that the OpenAPI document leaves out, since other specifications or pages describe them."""

METHODS: Final = ("get", "post", "patch", "delete")


def page() -> str:
    """The whole page."""
    document = ServiceContract.document()
    spelled = {path for name, path in vars(routes).items() if name.endswith("_PATH")}
    listed = {*document["paths"], *OTHER_PATHS}
    if spelled != listed:
        raise LookupError(f"Paths that are only in one of routes.py and {__file__}: {', '.join(spelled ^ listed)}")
    rows = [
        [
            method.upper(),
            f"[`{path}`]({anchor(f'{method} {path}')})",
            operation["summary"],
            "" if operation.get("security") == [] else "token",
        ]
        for path, method, operation in _operations(document)
    ]
    others = (
        [method, code(re.sub(r":path(?=})", "", path)), f"{text}.", f"[{guide.removeprefix('../')}]({guide})"]
        for path, (method, text, guide) in OTHER_PATHS.items()
    )
    parts = [
        head("HTTP", "src/accord/wire/routes.py and src/accord/wire/contract.py", INTRODUCTION),
        "## Agents, plans, keys, health\n",
        table(["method", "path", "what it does", "needs"], rows),
        "## Model APIs, WebSocket and page\n",
        table(["method", "path", "what it is", "guide"], others),
    ]
    for path, method, operation in _operations(document):
        parts += _section(path, method, operation, document["paths"][path].get("parameters", []))
    return "\n".join(parts)


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def _section(path: str, method: str, operation: Mapping[str, Any], shared: list[Any]) -> Iterator[str]:
    yield f"### {method.upper()} {path}\n"
    yield f"{operation['summary']}. {operation.get('description', '')}".strip() + "\n"
    if body := operation.get("requestBody"):
        yield f"Body: {_content(body['content'])}.\n"
    if parameters := [*shared, *operation.get("parameters", [])]:
        rows = ([code(each["name"]), _place(each), each["description"]] for each in parameters)
        yield table(["parameter", "in", "description"], rows)
    answers = (
        [status, each["description"].rstrip(".") + ".", _content(each.get("content", {}))]
        for status, each in operation["responses"].items()
    )
    yield table(["status", "meaning", "body"], answers)


def _place(parameter: Mapping[str, Any]) -> str:
    return parameter["in"] if parameter["required"] else f"{parameter['in']}, optional"


def _content(content: Mapping[str, Any]) -> str:
    """The media types of a body, and the messages in them."""
    return " or ".join(f"{_message(each)}`{media_type}`" for media_type, each in content.items())


def _message(media: Mapping[str, Any]) -> str:
    schema = media.get("x-event-data") or media["schema"]
    name = schema.get("$ref", "").rpartition("/")[2]
    return f"[{name}](messages.md{anchor(name)}) as " if name else ""
