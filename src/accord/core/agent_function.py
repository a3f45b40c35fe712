"""Whether a function can be an agent: an async generator function that takes the turn."""

from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction, isroutine, signature, unwrap
from typing import Any, Final

from accord.errors import UsageError

CURES: Final = (
    (iscoroutinefunction, "it is a coroutine function: use `yield` instead of `return`"),
    (isgeneratorfunction, "it is a plain generator: write `async def` instead of `def`"),
)


def check_agent_function(run: Any) -> None:
    """Raise `UsageError`, naming the cure, for a function that cannot be an agent."""
    function = _function_of(run)
    code = getattr(function, "__code__", None)
    place = "" if code is None else f"{code.co_filename}:{code.co_firstlineno}: "
    name = getattr(run, "__name__", type(run).__name__)
    # A plain function may also pass on an async generator that it makes; then its annotation says so.
    if not isasyncgenfunction(function) and "Async" not in str(getattr(function, "__annotations__", {}).get("return")):
        otherwise = "write `async def` and `yield` the answer"
        cure = next((cure for is_kind, cure in CURES if is_kind(function)), otherwise)
        raise UsageError(f"{place}{name} cannot be an agent, which is an async generator function; {cure}")
    try:
        signature(run).bind(None)
    except TypeError:
        raise UsageError(f"{place}{name} cannot be an agent: it should take one argument, the turn") from None


def _function_of(run: Any) -> Any:
    """The function itself: without decorators that name what they wrap; of an object that can be called, its method."""
    found = unwrap(run)
    is_object = not any(is_kind(found) for is_kind in (isroutine, _is_partial))
    return getattr(found, "__call__", None) if is_object else found  # noqa: B004 - its method is wanted


def _is_partial(found: Any) -> bool:
    return isinstance(found, partial)
