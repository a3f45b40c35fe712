"""The event loop that commands run on: the quickest that this machine has, and one that no agent's task can stop."""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

ResultT = TypeVar("ResultT")

LOG: Final = logging.getLogger("accord.loop")


def event_loop_runner() -> Callable[[Coroutine[Any, Any, ResultT]], ResultT]:
    """What runs a coroutine to its end.

    asyncio lets `SystemExit` and `KeyboardInterrupt` out of any task or callback through the whole loop. An agent's
    task that calls `sys.exit()` would so stop the service; here it ends that task alone.
    """
    try:
        import uvloop  # noqa: PLC0415 - not on every system
    except ImportError:
        return _run
    return lambda main: _run(main, uvloop.new_event_loop)


def _run(
    main: Coroutine[Any, Any, ResultT], make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> ResultT:
    with asyncio.Runner(loop_factory=make_loop) as runner:
        task = runner.get_loop().create_task(main)
        while True:
            try:
                return runner.run(_result(task))
            except (SystemExit, KeyboardInterrupt, RuntimeError) as error:
                if task.done():
                    _ = task.cancelled() or task.exception()  # looked at, so that asyncio does not report it as lost
                    raise
                if not _is_contained(error):
                    raise
                LOG.error("A task of an agent tried to stop the process (%s)", type(error).__name__)


async def _result(task: asyncio.Task[ResultT]) -> ResultT:
    return await task


def _is_contained(error: BaseException) -> bool:
    match error:
        case SystemExit():
            return True
        case KeyboardInterrupt():
            # Where the loop itself handles Ctrl-C, as in a service, it is no user who raised this.
            return signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        case _:
            return "Event loop stopped before Future completed" in str(error)  # an agent called `loop.stop()`
