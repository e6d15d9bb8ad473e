"""Connections whose answers must begin soon: status line and headers within one time limit, however they are sent.

`http.client` gives each read of a socket its own timeout. So a server that sends a byte now and then could hold its
caller for hours. Shown by tests/chaos/test_chaos_toxiproxy_hostile.py.
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
    """Beside urllib3's connection: `sock` and `timeout` are its own."""

    sock: Any
    timeout: Any

    def getresponse(self) -> Any:  # the library's own type differs between its connections
        is_over = threading.Event()
        watch = threading.Timer(float(self.timeout or 0), self._give_up, (is_over,))
        watch.daemon = True
        watch.start()
        try:
            answer = super().getresponse()  # type: ignore[misc]  # of urllib3's connection
        finally:
            watch.cancel()
        if is_over.is_set():  # what had come looks like a whole head once the socket has ended
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
    """For `requests.Session.mount`. The time is that of the call."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:  # Any: the library's own signature
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _PlainPool, "https": _SecuredPool}
