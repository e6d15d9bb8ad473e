"""Network tools of the tests: a TCP forwarder that can be cut silently, a raw Kafka client on a blocking socket."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Any

from broker.wire.codec import decode_response, encode_request

CHUNK_BYTES = 1 << 16


class Link:
    """Forwards 127.0.0.1:port to the target. While cut it takes bytes and passes none on: a silent cut."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._is_cut = threading.Event()
        self._is_closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        self._is_cut.set()

    def heal(self) -> None:
        """What was swallowed stays lost, so the connections of before end now, as those of a proxy do."""
        self._is_cut.clear()
        self._end_connections()

    def close(self) -> None:
        self._is_closed.set()
        self._thread.join(5)
        self._listener.close()
        self._end_connections()

    def _end_connections(self) -> None:
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            with contextlib.suppress(OSError):  # it has ended by itself
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target_port), 1)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            client.settimeout(None)
            self._sockets += [client, server]
            threading.Thread(target=self._from_client, args=(client, server), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client), daemon=True).start()

    def _from_client(self, source: socket.socket, sink: socket.socket) -> None:
        self._pump(source, sink)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(CHUNK_BYTES):
                if not self._is_cut.is_set():
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other direction ended the connection
        finally:
            source.close()


class HoldingLink(Link):
    """Knows requests. It can hold those of one API, and whatever follows them on their connections."""

    def __init__(self, target_port: int, *, holds: int) -> None:
        self._holds, self._is_released = holds, threading.Event()
        self._seen: list[tuple[int, str]] = []  # (API key, client id)
        super().__init__(target_port)

    def seen(self, api_key: int, client_id: str | None = None) -> int:
        """The number of requests so far, those that are held included."""
        return sum(key == api_key and client_id in (None, told) for key, told in tuple(self._seen))

    def release(self) -> None:
        self._is_released.set()

    def close(self) -> None:
        self.release()
        super().close()

    def _from_client(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while (size := source.recv(4, socket.MSG_WAITALL)) and len(size) == 4:
                frame = source.recv(int.from_bytes(size), socket.MSG_WAITALL)
                api_key, _, _, length = struct.unpack_from(">hhih", frame)
                self._seen.append((api_key, frame[10 : 10 + max(0, length)].decode()))
                if api_key == self._holds:
                    self._is_released.wait()
                sink.sendall(size + frame)
            sink.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other direction ended the connection
        finally:
            source.close()


class RawClient:
    """One connection; `call` sends one request and waits for its answer."""

    def __init__(self, port: int, *, timeout_s: float = 60.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self._correlation_id = 0

    def send(self, api_key: int, version: int, message: Any) -> int:
        self._correlation_id += 1
        self._socket.sendall(b"".join(encode_request(api_key, version, self._correlation_id, "raw", message)))
        return self._correlation_id

    def receive(self, api_key: int, version: int) -> tuple[int, Any]:
        (size,) = struct.unpack(">i", self._exactly(4))
        return decode_response(api_key, version, bytearray(self._exactly(size)))

    def call(self, api_key: int, version: int, message: Any) -> Any:
        sent = self.send(api_key, version, message)
        correlation_id, response = self.receive(api_key, version)
        assert correlation_id == sent
        return response

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("closed by the broker")
            data += piece
        return data

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
