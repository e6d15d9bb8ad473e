"""HTTP connections with one time limit for the status line and all headers of an answer, however they are sent.

`http.client` gives each read of a socket its own timeout. So a server that sends a byte now and then could keep its
caller waiting for hours. Shown by tests/chaos/test_chaos_toxiproxy_hostile.py.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool


class _HeadInTime:
    """Used together with urllib3's connection class, which has `sock` and `timeout`."""

    sock: Any
    timeout: Any

    def getresponse(self) -> Any:  # the type differs between the library's connections
        is_over = threading.Event()
        watch = threading.Timer(float(self.timeout or 0), self._give_up, (is_over,))
        watch.daemon = True
        watch.start()
        try:
            answer = super().getresponse()  # type: ignore[misc]  # The base is urllib3's connection.
        finally:
            watch.cancel()
        if is_over.is_set():  # once the socket has ended, the part that had arrived looks like a whole head
            raise TimeoutError(f"the head of the answer was not complete within {self.timeout} s")
        return answer

    def _give_up(self, is_over: threading.Event) -> None:
        is_over.set()
        with contextlib.suppress(OSError, AttributeError):  # closed meanwhile
            self.sock.shutdown(socket.SHUT_RDWR)


class _Plain(_HeadInTime, HTTPConnection):
    pass


class _Secured(_HeadInTime, HTTPSConnection):
    pass


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecuredPool(HTTPSConnectionPool):
    ConnectionCls = _Secured


class BoundedAdapter(HTTPAdapter):
    """An adapter for `requests.Session.mount`. The time limit is the timeout of the call."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:  # Any: the library's own signature
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _PlainPool, "https": _SecuredPool}
