"""Real threads, locks, sockets and polling, also in a process where gevent replaced the standard ones.

A sender thread must be a real thread beside the greenlets, not one of them. This module never imports gevent. If gevent
is already loaded and has patched a module, this module takes the originals that gevent has saved. It looks them up at
each call, so gevent may patch before or after the import of this module.
Shown by tests/broker_client/test_client_native.py, in a separate process in which everything is patched.
"""

from __future__ import annotations

import _thread
import select
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import ssl


def _original(module: str, name: str, default: Any) -> Any:
    """The type is Any: these are objects of the standard library. The functions below give them their types."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched(module):
        return default
    return monkey.get_original(module, name)


class Lock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(self, *details: object) -> None: ...


def new_lock() -> Lock:
    lock: Lock = _original("_thread", "allocate_lock", _thread.allocate_lock)()
    return lock


def thread_id() -> int:
    ident: int = _original("_thread", "get_ident", _thread.get_ident)()
    return ident


def start_thread(run: Callable[[], None]) -> Event:
    """Runs `run` in a daemon thread. The event is set when `run` has returned or raised."""
    ended = Event()

    def guarded() -> None:
        try:
            run()
        finally:
            ended.set()

    _original("_thread", "start_new_thread", _thread.start_new_thread)(guarded, ())
    return ended


def new_socket(family: int) -> socket.socket:
    kind = _original("socket", "socket", socket.socket)
    created: socket.socket = kind(family, socket.SOCK_STREAM)
    return created


def ssl_context_class() -> type[ssl.SSLContext]:
    import ssl  # imported here, because it takes 15 ms and most clients use plain text

    found: type[ssl.SSLContext] = _original("ssl", "SSLContext", ssl.SSLContext)
    return found


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets of the original class."""
    left, right = _original("socket", "socketpair", socket.socketpair)()
    kind = _original("socket", "socket", socket.socket)
    if type(left) is kind:
        return left, right
    # A patched `socketpair` returns sockets of gevent's class: take over their descriptors.
    return kind(fileno=left.detach()), kind(fileno=right.detach())


def resolve(host: str, port: int) -> list[tuple[int, Any]]:
    """(address family, address) of a host. Raises OSError. The address has the type Any: it is a tuple that depends on
    the family."""
    lookup = _original("socket", "getaddrinfo", socket.getaddrinfo)
    if not 0 < port < 65_536:  # a broker may name any number; Linux would take its lowest 16 bits
        raise OSError(f"no port {port}")
    try:
        return [(family, address) for family, _, _, _, address in lookup(host, port, 0, socket.SOCK_STREAM)]
    except ValueError as error:  # a host name with a label that is too long (UnicodeError), or with a zero byte
        raise OSError(f"{host!r} is no host name: {error}") from error


class Poll(Protocol):
    def register(self, descriptor: int, mask: int) -> None: ...
    def modify(self, descriptor: int, mask: int) -> None: ...
    def unregister(self, descriptor: int) -> None: ...
    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]: ...


def new_poll() -> Poll:
    poll: Poll = _original("select", "poll", getattr(select, "poll", None))()
    return poll


class Event:
    """It is set once. Any number of threads may wait, each for a bounded time."""

    __slots__ = ("_is_set", "_lock")

    def __init__(self) -> None:
        self._lock = new_lock()
        self._lock.acquire()
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Only one thread may call this, once."""
        assert not self._is_set
        self._is_set = True
        self._lock.release()

    def wait(self, timeout_s: float) -> bool:
        """False if it was not set in time."""
        if self._is_set:
            return True
        if not self._lock.acquire(True, max(timeout_s, 0.0)):
            return False
        self._lock.release()  # so that the next waiter returns too
        return True
