"""The SASL login of a probe. Before a login, Apache Kafka answers one ApiVersions request and nothing else.

The socket is blocking, and its timeout counts for each answer. Shown by tests/chaos/test_chaos_probe_login.py.
"""

from __future__ import annotations

import secrets
import socket
import struct

from broker.door.security import Credentials, SaslError, sasl_client

_HANDSHAKE, _AUTHENTICATE = (17, 1), (36, 0)  # (key, version) of each request
_CORRELATION_ID = 2
ANSWER_BYTES_MAX = 1 << 20  # the broker has proved nothing yet


def log_in(connection: socket.socket, credentials: Credentials) -> None:
    """Log in. Raises OSError if the broker refuses the login or does not answer in time."""
    try:
        client = sasl_client(credentials, nonce=secrets.token_hex(16))
        mechanism = credentials.mechanism.encode()
        _refused(_exchange(connection, _HANDSHAKE, struct.pack(">h", len(mechanism)) + mechanism))
        token: bytes | None = client.first()
        while token is not None:
            answer = _exchange(connection, _AUTHENTICATE, struct.pack(">i", len(token)) + token)
            _refused(answer)
            token = client.answer(_challenge(answer))
    except (SaslError, struct.error) as error:
        raise ConnectionAbortedError(f"{credentials.mechanism}: {error}") from error


def _refused(answer: bytes) -> None:
    (code,) = struct.unpack_from(">h", answer)
    if code:
        raise SaslError(f"refused with error code {code}")


def _challenge(answer: bytes) -> bytes:
    """The bytes after the error code and its message. The message is null here."""
    (message_bytes,) = struct.unpack_from(">h", answer, 2)
    start = 4 + max(0, message_bytes)
    (size_bytes,) = struct.unpack_from(">i", answer, start)
    return answer[start + 4 : start + 4 + max(0, size_bytes)]


def _exchange(connection: socket.socket, request: tuple[int, int], body: bytes) -> bytes:
    """The answer without its header."""
    header = struct.pack(">hhih", *request, _CORRELATION_ID, -1)
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    (size_bytes,) = struct.unpack(">i", _read(connection, 4))
    if not 4 <= size_bytes <= ANSWER_BYTES_MAX:
        raise SaslError(f"an answer of {size_bytes} bytes")
    return _read(connection, size_bytes)[4:]


def _read(connection: socket.socket, size_bytes: int) -> bytes:
    data = b""
    while len(data) < size_bytes:
        more = connection.recv(size_bytes - len(data))
        if not more:
            raise ConnectionAbortedError("closed before the answer")
        data += more
    return data
