"""Something else than Toxiproxy listens at the URL: an error of the client's own, in time, in little memory."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from chaos.toxiproxy import calls as calls_module
from chaos.toxiproxy.calls import ToxiproxyError
from chaos.toxiproxy.client import ToxiproxyClient
from chaos.toxiproxy.lookup import ServerUnavailable, use_server
from chaos.toxiproxy.states import ProxySpec

pytestmark = pytest.mark.slow  # waits out time-outs of real sockets

OK = b"HTTP/1.1 200 OK\r\n"


def body(data: bytes, *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return OK + lines + b"Content-Length: %d\r\n\r\n" % len(data) + data


def forever(first: bytes, piece: bytes) -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        yield first
        while True:
            yield piece

    return pieces


ANSWERS: dict[str, Callable[[], Iterator[bytes]]] = {
    "silent": forever(b"", b""),
    "drips": forever(OK + b"Content-Length: 1000000\r\n\r\n", b" "),
    "drips a head": forever(b"", b"H"),
    "drips headers": forever(OK + b"a: ", b"b"),
    "drips many headers": forever(OK, b"a: b\r\n"),
    "endless": forever(OK + b"\r\n", bytes(1 << 20)),
    "endless chunks": forever(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "hangs up": lambda: iter([b"HTTP/1."]),
    "no HTTP": lambda: iter([b"\x00\x00\x00\x04abcd"]),
    "list": lambda: iter([body(b"[]")]),
    "number": lambda: iter([body(b"7")]),
    "wrong fields": lambda: iter([body(b'{"p": {"name": 1}, "toxics": 7}')]),
    "deep": lambda: iter([body(b"[" * 100_000)]),
    "bad UTF-8": lambda: iter([body(b"\xff\xfe\xfd\xfc")]),
    "packed": lambda: iter([body(gzip.compress(bytes(1 << 20)), b"Content-Encoding: gzip")]),
    "elsewhere": lambda: iter([b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"]),
}  # fmt: skip


@contextlib.contextmanager
def listening(pieces: Callable[[], Iterator[bytes]]) -> Iterator[str]:
    is_over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.recv(65_536)
            for piece in pieces():
                connection.sendall(piece)
                if is_over.wait(0.01):
                    return

    def accept() -> None:
        with contextlib.suppress(OSError):
            while not is_over.is_set():
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        is_over.set()
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("name", ANSWERS)
def test_whatever_answers_calls_end_in_time_with_the_clients_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "ANSWER_BYTES_MAX", 2 << 20)
    with listening(ANSWERS[name]) as url:
        client = ToxiproxyClient(url, timeout_ms=300)
        spec = ProxySpec(name="p", upstream="127.0.0.1:1")
        calls: list[Callable[[], object]] = [
            client.proxies, lambda: client.proxy("p"), lambda: client.toxic("p", "x"), lambda: client.create(spec),
            lambda: client.populate([spec]), lambda: client.enable("p"), lambda: client.add_toxic("p", "latency", {}),
        ]  # fmt: skip
        for call in calls:
            began_s = time.monotonic()
            with pytest.raises(ToxiproxyError):
                call()
            assert time.monotonic() - began_s < 20
        client.close()


def test_what_does_not_answer_in_time_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToxiproxyClient.__init__, "__kwdefaults__", {"timeout_ms": 300})
    with listening(ANSWERS["drips"]) as url, pytest.raises(ServerUnavailable, match=f"no Toxiproxy server at {url}"):
        use_server(url)


def closing_first(times: int) -> Callable[[], Iterator[bytes]]:
    """The first connections end without a byte of an answer."""
    left = [times]

    def pieces() -> Iterator[bytes]:
        if left[0] > 0:
            left[0] -= 1
        else:
            yield body(b"{}")

    return pieces


def test_what_changes_nothing_is_asked_once_more_if_the_connection_was_closed_first() -> None:
    with listening(closing_first(1)) as url:
        assert calls_module.Calls(url, timeout_ms=2_000).call("GET", "/proxies").json() == {}


@pytest.mark.parametrize(("method", "times"), [("GET", 2), ("POST", 1), ("DELETE", 1)])
def test_what_changes_something_is_not_sent_again_and_nothing_is_sent_three_times(method: str, times: int) -> None:
    with listening(closing_first(times)) as url, pytest.raises(calls_module.Unreachable, match="without response"):
        calls_module.Calls(url, timeout_ms=2_000).call(method, "/proxies")
