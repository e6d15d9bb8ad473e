"""One request to one listener, in bytes: for what no client library sends."""

from __future__ import annotations

import socket
import struct
from typing import Any

from broker.wire.codec import decode_response, encode_request
from broker.wire.messages import request as make_request

TIMEOUT_S = 60.0
CLIENT_ID = "test"


def ask(port: int, api_key: int, version: int, /, **fields: object) -> Any:
    """The answer of 127.0.0.1:`port`. Raises OSError when there is none within TIMEOUT_S."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        return ask_over(connection, api_key, version, **fields)


def ask_over(connection: socket.socket, api_key: int, version: int, /, **fields: object) -> Any:
    """The answer over a connection that stays."""
    message = make_request(api_key, version, **fields)
    connection.sendall(b"".join(encode_request(api_key, version, 1, CLIENT_ID, message)))
    (size,) = struct.unpack(">i", _read(connection, 4))
    return decode_response(api_key, version, _read(connection, size))[1]


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise OSError(f"the broker closed the connection after {len(data)} of {size} bytes")
        data += piece
    return data
