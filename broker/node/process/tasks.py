"""The background tasks of a broker. An unexpected exception in a task ends the broker, because otherwise the broker
would go on without that task.

Shown by tests/broker_node/test_node_lifecycle.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from broker.node.process.logs import Logger

END_TASKS_S = 2.0


class Tasks:
    """It must be created within a running event loop. `failed` gets the error that ended the broker, if there was
    one."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running: dict[asyncio.Task[None], None] = {}  # in order of their start

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._running[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Ends the broker with this error. Only the first error counts."""
        if not self.failed.done():
            self.failed.set_exception(error)

    async def end(self) -> None:
        """Cancels all tasks and waits until they have ended, but only for a limited time: the writes that follow must
        not be delayed for ever."""
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=END_TASKS_S)
            for name in sorted(getattr(task.get_coro(), "__qualname__", "unnamed") for task in left):
                cause = f"it did not end within {END_TASKS_S:g} s of its cancellation"
                self._logger.warning("task_left", name=name, cause=cause)
