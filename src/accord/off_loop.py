"""Work on long texts in a thread, so that the event loop serves others meanwhile.

There is one such thread: most steps of such work hold the interpreter's lock, so that a second one would only take more
memory. Short texts are worked on at once, because a thread costs more than they do.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar, cast

from accord.wire.message import Value
from accord.wire.work import WorkOrder

ResultT = TypeVar("ResultT")

LONG_BYTES: Final = 256 * 1024
"""Work on a longer text is done in the thread."""
SCHEMA_FACTOR: Final = 16
"""How much more a schema costs than another text of its length."""
_THREAD: Final = ThreadPoolExecutor(1, thread_name_prefix="accord-long")


async def off_loop(size: int, work: Callable[..., ResultT], *arguments: Any) -> ResultT:
    """Return the result of this work on so many bytes."""
    if size <= LONG_BYTES:
        return work(*arguments)
    return await asyncio.get_running_loop().run_in_executor(_THREAD, work, *arguments)


def schema_size(order: WorkOrder) -> int:
    """The size of texts that cost as much as compiling the schemas of this order."""
    return SCHEMA_FACTOR * size_of([order.response_schema, [tool.input_schema for tool in order.tools]])


def size_of(value: Any) -> int:
    """How many characters this JSON value or message has, roughly; counting stops above `LONG_BYTES`."""
    size, left = 0, [value]
    while left and size <= LONG_BYTES:
        each = left.pop()
        if isinstance(each, str):
            size += len(each)
        elif isinstance(each, dict):
            left += cast("dict[str, Any]", each).values()
        elif isinstance(each, list | tuple):
            left += cast("list[Any]", each)
        elif members := getattr(each, "__dict__", None):
            left += members.values()
        elif isinstance(each, Value):
            left += [getattr(each, name) for name in each.__slots__]
        size += 1
    return size
