"""Worker processes that end with the process that started them, also if that process is killed."""

from __future__ import annotations

import multiprocessing
import multiprocessing.process
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor


def pool_of(jobs: int, prepare: Callable[[], None] | None = None) -> ProcessPoolExecutor:
    """A pool of workers. `prepare` runs once in each worker, before its first task."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(prepare,))


def _begin(prepare: Callable[[], None] | None) -> None:
    end_with_parent()
    if prepare is not None:
        prepare()


def end_with_parent() -> None:
    """Call this in a worker. It gets a SIGTERM once its parent has ended. Otherwise it would wait for tasks for
    ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_wait_for, args=(parent,), daemon=True).start()


def _wait_for(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
