"""The JVM that pyspark starts for this process, and how it ends within a bound.

pyspark itself never waits for its JVM. The JVM should end when the pipe to it ends, but a JVM that is stuck or
frozen stays. It also holds the stdout and stderr of this process, so a program that reads these to their end waits too.

py4j tells the JVM, in a thread of its own and at any time, which objects Python has forgotten. A JVM that ends with
such a message unread resets the connection, and py4j prints tracebacks. So the order is: nothing more is sent, what is
under way is answered, the connections are closed, and only then the JVM is asked to end.

Only a process that this process started is ever ended. Shown by tests/reports/test_reports_ending.py.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from typing import Any, Final

from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER, FinalizerWorker
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.context import SQLContext

# An idle host takes a third of a second. What is killed loses nothing: its scratch directory goes with the session.
END_GRACE_S: Final = 10.0
# For the answer to the last message. A JVM that has not answered by then hangs. py4j's thread looks once a second.
ANSWER_S: Final = 5.0
# After SIGKILL the kernel only has to give memory back.
KILLED_S: Final = 10.0


def own_jvm() -> subprocess.Popen[bytes] | None:
    """The JVM that pyspark started here. None if there is none, or if somebody else started the one that is used."""
    gateway: Any = SparkContext._gateway  # py4j has no types
    process = getattr(gateway, "proc", None)
    return process if isinstance(process, subprocess.Popen) else None


class EndingJvm:
    """The JVM that pyspark started here, out of its hands: nothing more can be asked of its session, and the next
    session gets a new JVM. It is asked to end in a thread, so the caller goes on at once."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self._process = process
        gateway: Any = SparkContext._gateway  # py4j has no types
        self._client = gateway._gateway_client
        self._client.is_connected = False  # what Python forgets from now on is not sent
        _forget_session()
        self._asking = threading.Thread(target=self._ask_in_order, name="end-of-jvm", daemon=True)
        self._asking.start()

    def wait_until_gone(self) -> bool:
        """Within the bounds. False if it was killed and has not gone."""
        self._asking.join()
        return wait_until_gone(self._process)

    def _ask_in_order(self) -> None:
        queue = getattr(self._client, "finalizer_deque", None)  # only with a thread, which PYSPARK_PIN_THREAD decides
        if queue is not None:
            queue.appendleft(SHUTDOWN_FINALIZER_WORKER)
            for thread in threading.enumerate():
                if isinstance(thread, FinalizerWorker) and thread.deque is queue:
                    thread.join(ANSWER_S)
        self._client.close()
        ask_to_end(self._process)


def ask_to_end(jvm: subprocess.Popen[bytes]) -> None:
    """Returns at once. At the end of its stdin the JVM stops Spark in order, which also tells a server that this
    application is over, and then exits."""
    if jvm.stdin is not None:
        with contextlib.suppress(OSError):
            jvm.stdin.close()


def wait_until_gone(jvm: subprocess.Popen[bytes], *, grace_s: float = END_GRACE_S, killed_s: float = KILLED_S) -> bool:
    """Kills it after `grace_s`. False if even then it has not gone, as when the disk under it hangs."""
    for wait_s, is_last in ((grace_s, False), (killed_s, True)):
        try:
            jvm.wait(wait_s)
            return True
        except subprocess.TimeoutExpired:
            if not is_last:
                jvm.kill()
    return False


def _forget_session() -> None:
    """pyspark remembers its gateway and session for ever, and would hand out those of a JVM that is gone."""
    context: Any = SparkContext
    session: Any = SparkSession
    sql_context: Any = SQLContext
    with context._lock:
        context._active_spark_context = None
        context._gateway = None
        context._jvm = None
    session._instantiatedSession = None
    session._activeSession = None
    sql_context._instantiatedContext = None
