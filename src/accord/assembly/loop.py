"""The event loop that commands run on: uvloop where it is installed; an agent's task cannot stop it.

An exception that nothing awaits is logged, as one of the agent if it comes from the agent's code.
"""

import asyncio
import logging
import signal
from collections.abc import Coroutine
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, TypeVar

import accord
from accord.agent_tasks import guard_tasks

ResultT = TypeVar("ResultT")

LOG: Final = logging.getLogger("accord.loop")
STOP_S: Final = 1.0
"""How long tasks may take to end when the process does."""
OUR_CODE: Final = str(Path(accord.__file__).parent)


def run_async(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine to its end and return its result.

    asyncio lets `SystemExit` and `KeyboardInterrupt` out of any task or callback through the whole loop. An agent's
    task that calls `sys.exit()` would so stop the service; here it ends that task alone.
    """
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 - not on every system
    except ImportError:
        new_event_loop = None
    runner = asyncio.Runner(loop_factory=new_event_loop)
    try:
        guard_tasks(runner.get_loop())
        runner.get_loop().set_exception_handler(log_unawaited_error)
        task = runner.get_loop().create_task(main)

        async def result() -> ResultT:
            return await task

        while True:
            try:
                return runner.run(result())
            except (SystemExit, KeyboardInterrupt, RuntimeError) as error:
                if task.done():
                    _ = task.cancelled() or task.exception()  # read, so that asyncio does not report it as lost
                    raise
                if not _ends_one_task_only(error):
                    raise
                _log_agent_error("A task of an agent tried to stop the process", error)
    finally:
        if _end_tasks(runner.get_loop()):
            runner.close()


def _end_tasks(loop: asyncio.AbstractEventLoop) -> bool:
    """Cancel the tasks that are left; False if one of them does not end, for which the process must not wait."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        _, left = loop.run_until_complete(asyncio.wait(left, timeout=STOP_S))
    if not left:
        return True
    LOG.warning("Code of an agent goes on running; the process ends without it", extra={"fields": {"tasks": len(left)}})

    def keep(_: object) -> None:
        Event().wait()

    # The garbage collector would close their coroutines, and those that survive that, too, would then run for ever.
    Thread(target=keep, args=(left,), daemon=True).start()
    loop.close()
    return False


def log_unawaited_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an exception that nothing awaits, as the agent's if it comes from a task or callback that is not ours."""
    error: BaseException | None = context.get("exception")
    task: Any = context.get("task") or context.get("future")
    coroutine = task.get_coro() if hasattr(task, "get_coro") else None
    code = getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return  # it goes through the loop, and `run_async` logs it
    if error is None or (code is not None and code.co_filename.startswith(OUR_CODE)):
        loop.default_exception_handler(context)
        return
    stack = context.get("source_traceback") or ()  # known only if asyncio runs in debug mode
    created = next((frame for frame in reversed(stack) if "asyncio" not in Path(frame.filename).parts), None)
    fields = {
        "task": None if code is None else f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}",
        "created_at": None if created is None else f"{created.filename}:{created.lineno}",
    }
    what = "A task failed and nothing awaited it" if task is not None else "A callback failed"
    _log_agent_error(what, error, {name: value for name, value in fields.items() if value is not None})


def _log_agent_error(what: str, error: BaseException, fields: dict[str, Any] | None = None) -> None:
    from accord.run.agent_errors import log_agent_error  # noqa: PLC0415 - the proxy has no engine, and starts faster

    log_agent_error(what, error, fields=fields)


def _ends_one_task_only(error: BaseException) -> bool:
    """Whether an exception that went through the loop came from an agent's task, and not from the user or from us."""
    match error:
        case SystemExit():
            return True
        case KeyboardInterrupt():
            # Where the loop handles Ctrl-C itself, as in a service, an agent raised this.
            return signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        case _:
            return "Event loop stopped before Future completed" in str(error)  # an agent called `loop.stop()`
