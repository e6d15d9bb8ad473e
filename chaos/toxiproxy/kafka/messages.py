"""Frames to decoded messages and back, for any API.

This is only for the few exchanges that a toxic acts on or that a log asks about. All others pass as bytes. It uses the
schemas of the whole protocol. They are imported at the first use, because most servers never need them.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any, Final

from chaos.toxiproxy.kafka.fields import MalformedFrame

FETCH: Final = 1
EDITED_BYTES_MAX: Final = 8 << 20  # a response's entries become objects, but the records of a Fetch stay bytes


@cache
def wire() -> ModuleType:
    """The broker's messages and their codec."""
    from broker.door import messages

    return messages


def decode_request(frame: bytes) -> Any:  # kio's type is chosen by (API key, version)
    """The message in a request frame (with its length). Raises MalformedFrame if it cannot be read."""
    messages = wire()
    api_key, version = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big")
    try:
        id_size = int.from_bytes(frame[12:14], "big", signed=True)
        position = 14 - 4 + max(0, id_size)
        kind = messages.request_type(api_key, version)
        body = frame[4:]
        if kind.__flexible__:
            position = messages.skip_tags(memoryview(body), position)
        return messages.decode_message(kind, body, position)
    except Exception as error:  # the errors of kio are many, and whatever it is: the request passes
        raise MalformedFrame(f"request of api key {api_key} version {version}: {error}") from error


def decode_response(frame: bytes, api_key: int, version: int) -> tuple[int, Any]:
    """(correlation id, message) of a response frame (with its length). Raises MalformedFrame if it cannot be read, or
    is too big to be read beside the traffic."""
    messages = wire()
    if api_key != FETCH and len(frame) > EDITED_BYTES_MAX:
        raise MalformedFrame(f"response of api key {api_key}: {len(frame)} bytes, at most {EDITED_BYTES_MAX} are read")
    try:
        correlation_id, message = messages.decode_response(api_key, version, frame[4:])
    except Exception as error:  # as above
        raise MalformedFrame(f"response of api key {api_key} version {version}: {error}") from error
    return correlation_id, message


def encode_response(api_key: int, version: int, correlation_id: int, message: Any) -> bytes:
    """The response frame, with its length. Raises MalformedFrame for a message that cannot be written."""
    messages = wire()
    try:
        return b"".join(bytes(part) for part in messages.encode_response(api_key, version, correlation_id, message))
    except Exception as error:  # as above
        raise MalformedFrame(f"response of api key {api_key} version {version}: {error}") from error
