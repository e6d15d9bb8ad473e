"""Bounds on waits inside Spark, which has none of its own: a start that hangs, a Connect server that dies or freezes.

Neither py4j nor gRPC can be interrupted from outside. So a wait that exceeds its bound ends the process, with a message
on stderr and the exit code for the environment. Shown by tests/reports/test_reports_session.py.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from reports.read.errors import EXIT_ENVIRONMENT
from reports.read.spark_needs import addresses_of, is_local

# A standalone master is asked three times, 20 s each; a JVM on a busy host took 30 s before that.
SERVER_TIMEOUT_S: Final = 120.0
# Without a server only this host can be slow: with six processes for each core a whole
# analysis took four minutes. Only a start that never ends takes longer than this.
LOCAL_TIMEOUT_S: Final = 300.0
PING_INTERVAL_S: Final = 5.0
PING_TIMEOUT_S: Final = 10.0  # a server under full load still greets within a second
PINGS_LOST_MAX: Final = 3

Ending = Callable[[str], None]


def end_process(text: str) -> None:
    """Tell, and be gone: the JVM ends with the pipe to it, what was written aside goes with the next analysis."""
    print(f"reports: {text}", file=sys.stderr, flush=True)
    os._exit(EXIT_ENVIRONMENT)


def timeout_s_of(master: str) -> float:
    """How long a start, a stop or one small job may take."""
    return LOCAL_TIMEOUT_S if is_local(master) else SERVER_TIMEOUT_S


@contextmanager
def bounded(what: str, timeout_s: float, end: Ending = end_process) -> Iterator[None]:
    """`end` is called if the block takes longer."""
    timer = threading.Timer(timeout_s, end, (f"{what} took longer than {timeout_s:.0f} s and was given up",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class ServerWatch:
    """Greets a Connect server again and again while an analysis waits for it; `end` when it stops greeting back."""

    def __init__(
        self,
        master: str,
        *,
        end: Ending = end_process,
        interval_s: float = PING_INTERVAL_S,
        timeout_s: float = PING_TIMEOUT_S,
    ) -> None:
        self._master, self._end = master, end
        self._interval_s, self._timeout_s = interval_s, timeout_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="server-watch", daemon=True)

    def __enter__(self) -> ServerWatch:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._is_over.set()

    def _watch(self) -> None:
        lost = 0
        while not self._is_over.wait(self._interval_s):
            lost = 0 if greets(self._master, self._timeout_s) else lost + 1
            if lost >= PINGS_LOST_MAX and not self._is_over.is_set():
                self._end(f"Spark Connect server {self._master} has stopped answering: the analysis was given up")
                return


def greets(master: str, timeout_s: float) -> bool:
    """Whether a server at that address begins HTTP/2. A process that is frozen still accepts connections."""
    grpc: Any = importlib.import_module("grpc")  # there only with the extra `connect`; it has no types

    ((host, port),) = addresses_of(master)
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    is_encrypted = "use_ssl=true" in master.lower() or "token=" in master.lower()
    options = [("grpc.use_local_subchannel_pool", 1)]  # else it would share the connection of the session
    channel: Any = (
        grpc.secure_channel(place, grpc.ssl_channel_credentials(), options=options)
        if is_encrypted
        else grpc.insecure_channel(place, options=options)
    )
    try:
        grpc.channel_ready_future(channel).result(timeout=timeout_s)
    except grpc.FutureTimeoutError:
        return False
    finally:
        channel.close()
    return True
