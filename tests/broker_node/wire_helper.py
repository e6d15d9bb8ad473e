"""One request to one listener, in bytes: for what no client library sends."""

from __future__ import annotations

import socket
import struct
from typing import Any

from broker.wire.apis import ApiKey
from broker.wire.codec import decode_response, encode_request
from broker.wire.errors import ErrorCode
from broker.wire.messages import request as make_request
from tests.patience import wait_until

TIMEOUT_S = 60.0
CLIENT_ID = "test"


def ask(port: int, api_key: int, version: int, /, **fields: object) -> Any:
    """The answer of 127.0.0.1:`port`. Raises OSError when there is none within TIMEOUT_S."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        return ask_over(connection, api_key, version, **fields)


def limit_reading(port: int, client_id: str | None, bytes_per_s: float) -> None:
    """Sets a quota for a client id, or for all that have none of their own, and waits until the broker tells it."""
    operations = [{"key": "consumer_byte_rate", "value": float(bytes_per_s), "remove": False}]
    entry = {"entity": [{"entity_type": "client-id", "entity_name": client_id}], "ops": operations}
    (answer,) = ask(port, ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[entry], validate_only=False).entries
    assert answer.error_code is ErrorCode.none, answer
    of_any = [{"entity_type": "client-id", "match_type": 2, "match": None}]
    wait_until(
        lambda: ask(port, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=of_any, strict=True).entries, "the quota is told"
    )


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
