"""Find what in a request of a model API refers to the provider's account, which all callers of a backend share. Pure.

Files, containers, vector stores and caches that one caller made at the provider can be named by any other, because all
requests have the operator's key. Objects of the client's own, such as schemas and arguments of tools, are not searched.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

NAMES: Final = frozenset(
    {
        "approval_request_id",
        "assistant_id",
        "cachedContent",
        "cached_content",
        "container_id",
        "conversation",
        "data_sources",
        "file_id",
        "file_ids",
        "item_reference",
        "response_id",
        "thread",
        "thread_id",
        "user_profile_id",
        "vector_store_id",
        "vector_store_ids",
        "workspace_id",
    }
)
"""Members that name something in an account, wherever they are."""
WITH_ID: Final = frozenset({"audio", "container", "prompt"})
"""Members that do so as an object with an `id`; another object describes something new. A container may be a text."""
TYPES: Final = frozenset({"image_generation_call", "item_reference"})
"""Items that are read from the account by their `id`, unless they hold the `result` itself."""
ADDRESSES: Final = ("gs://", "s3://", "https://generativelanguage.googleapis.com/")
"""Addresses that the provider reads with the account's rights."""
ADDRESS_MEMBERS: Final = frozenset({"file_uri", "file_url", "image_url", "uri", "url"})
OWN: Final = frozenset(
    {"accord", "arguments", "client_metadata", "json_schema", "logit_bias", "metadata", "parameters", "schema"}
    | {"input_schema", "output_schema", "properties"}
)
"""Members whose objects are the client's own."""


def find_account_reference(body: Mapping[str, Any]) -> str | None:
    """The path of the first member of a request that refers to the provider's account; None if there is none."""
    return next(_references(body, ""), None)


def _references(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from _references(item, f"{path}[{number}]")
    if not isinstance(value, dict):
        return
    members = cast("dict[str, Any]", value)
    kind = members.get("type")
    is_bare = "id" in members and members.keys() <= {"id", "type"} and kind is None and path.startswith("input[")
    if (is_bare or kind in TYPES) and members.get("id") and not members.get("result"):
        yield f"{path}.id"
    for name, inner in members.items():
        place = f"{path}.{name}" if path else name
        if inner is None or name in OWN or (name == "input" and kind == "tool_use"):
            continue
        if (
            (name in NAMES and inner)
            or (name in WITH_ID and isinstance(inner, dict) and "id" in inner)
            or (name == "container" and isinstance(inner, str))
            or (name == "skill_id" and kind != "anthropic")
            or (name in ADDRESS_MEMBERS and isinstance(inner, str) and inner.lower().startswith(ADDRESSES))
        ):
            yield place
        else:
            yield from _references(inner, place)
