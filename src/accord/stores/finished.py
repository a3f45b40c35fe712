"""Writing that is finished when its caller is cancelled, who is told so afterwards. Knows nothing of what is written.

Otherwise a cancelled turn could not know how many of its packets are kept, and so not close its stream.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


class Certain(asyncio.Future[Any]):
    """A future that cannot be cancelled: a task that waits for it, and is, finds out when it is done.

    Cheaper than shielding a plain one, and a second cancellation changes nothing.
    """

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ARG002
        """Not this one: a task takes the False to mean "later"."""
        return False


async def finished(work: Awaitable[T]) -> T:
    """What the work gives, which goes on to its end whatever happens to the caller."""
    going_on, over = asyncio.ensure_future(work), Certain()

    def tell(done: asyncio.Future[T]) -> None:
        _ = done.cancelled() or done.exception()  # looked at, so that asyncio does not call it forgotten
        over.set_result(None)

    going_on.add_done_callback(tell)
    await over
    return going_on.result()
