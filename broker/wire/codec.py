"""Frames to messages and back: request and response headers around the bodies.

Owns: both forms of headers, the length prefix of encoded frames, and the choice of decoder. apis.py has the versions
that are offered. framing.py finds a frame in a byte stream.
Shown by tests/broker_wire/test_wire_codec.py.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kio.serial import entity_reader
from kio.serial.errors import SerialError

from broker.wire import apis
from broker.wire.apis import ApiKey
from broker.wire.decoder import ELEMENTS_MAX, decode_in_place
from broker.wire.encoder import Buffer, Output, encode_body
from broker.wire.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from broker.wire.extent import ANSWER_ELEMENTS_MAX, extent_of
from broker.wire.messages import Message, MessageType, request_type, response, response_type
from broker.wire.varints import read_uvarint

__all__ = [
    "RequestHeader",
    "UnsupportedVersionError",
    "decode_message",
    "decode_request",
    "decode_request_body",
    "decode_request_header",
    "decode_response",
    "decode_response_correlation_id",
    "encode_request",
    "encode_response",
    "encode_unsupported_api_versions",
]

_REQUEST_HEADER = struct.Struct(">hhih")
_LENGTH = struct.Struct(">i")
_HEADER_TAGS_MAX = 1_000  # the protocol defines none yet
# For each supported request that has arrived: whether its header has tagged fields.
_FLEXIBLE: dict[tuple[int, int], bool] = {}


class RequestHeader(NamedTuple):
    """Header of a request; `body_position` is where the body begins in its frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


class UnsupportedVersionError(RemoteProtocolError):
    """The peer asks for an API or version that we do not have. `header` holds both.

    An ApiVersions request must then be answered with `encode_unsupported_api_versions`. For all others the connection
    is closed, since we do not know the layout of the answer that the peer expects.
    """

    def __init__(self, header: RequestHeader) -> None:
        super().__init__(f"api key {header.api_key} version {header.api_version} is not supported")
        self.header = header


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, message: Message
) -> list[Buffer]:
    """The whole frame with its length prefix, as buffers for `writelines`/`sendmsg`. Payloads are not copied."""
    kind = request_type(api_key, version)
    _check_type(message, kind)
    encoded_id = b"" if client_id is None else client_id.encode()
    output = Output()
    output.small += (
        b"",
        _REQUEST_HEADER.pack(api_key, version, correlation_id, -1 if client_id is None else len(encoded_id)),
        encoded_id,
        b"\x00" if kind.__flexible__ else b"",
    )
    return _finish(message, output)


def encode_response(api_key: int, version: int, correlation_id: int, message: Message) -> list[Buffer]:
    """The whole response frame. The header of ApiVersions stays at version 0, which any client can read."""
    kind = response_type(api_key, version)
    _check_type(message, kind)
    output = Output()
    has_tags = bool(kind.__flexible__) and api_key != ApiKey.API_VERSIONS
    output.small += (b"", _LENGTH.pack(correlation_id), b"\x00" if has_tags else b"")
    return _finish(message, output)


def encode_unsupported_api_versions(correlation_id: int, listener: apis.Listener) -> list[Buffer]:
    """The answer to an ApiVersions request of a version that we do not have. It has the layout of version 0, error 35
    (UNSUPPORTED_VERSION) and the versions that we offer."""
    message = response(
        ApiKey.API_VERSIONS,
        0,
        error_code=ErrorCode.unsupported_version,
        api_keys=[
            {"api_key": key, "min_version": low, "max_version": high} for key, low, high in apis.advertised(listener)
        ],
    )
    return encode_response(ApiKey.API_VERSIONS, 0, correlation_id, message)


def decode_request_header(frame: Buffer) -> RequestHeader:
    """Header of a request frame (without its length prefix). Raises UnsupportedVersionError before looking further."""
    try:
        api_key, version, correlation_id, id_size = _REQUEST_HEADER.unpack_from(frame, 0)
        is_flexible = _FLEXIBLE.get((api_key, version))
        if is_flexible is None:
            if not apis.is_supported(api_key, version):
                raise UnsupportedVersionError(RequestHeader(api_key, version, correlation_id, None, 0))
            is_flexible = _FLEXIBLE[(api_key, version)] = bool(request_type(api_key, version).__flexible__)
        position = _REQUEST_HEADER.size + max(id_size, 0)
        if position > len(frame):
            raise RemoteProtocolError(f"a client id of {id_size} bytes ends after its frame of {len(frame)} bytes")
        client_id = None if id_size < 0 else str(frame[_REQUEST_HEADER.size : position], "utf-8")
        if is_flexible:
            position = skip_tags(memoryview(frame), position) if frame[position] else position + 1
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"not a request header: {error}") from error
    return RequestHeader(api_key, version, correlation_id, client_id, position)


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """Header and message of a request frame (without its length prefix).

    Records of a Produce request are memoryviews of `frame`. They are writable if `frame` is, and valid as long as
    nobody changes it.
    """
    header = decode_request_header(frame)
    return header, decode_request_body(header, frame)


def decode_request_body(header: RequestHeader, frame: Buffer, *, elements_max: int = ELEMENTS_MAX) -> Message:
    kind = request_type(header.api_key, header.api_version)
    # kio's native decoder needs `extent_of` first. It allocates memory for as many elements as an array claims to have,
    # and a claim of 2^31 in a frame of 40 bytes aborts the process (found by fuzzing:
    # tests/broker_sim/test_sim_fuzz.py).
    return decode_in_place(kind, memoryview(frame), header.body_position, elements_max=elements_max)


def decode_response_correlation_id(frame: Buffer) -> int:
    """The correlation id in the first four bytes. With it the caller finds the request, and so the API and version that
    `decode_response` needs."""
    if len(frame) < 4:
        raise RemoteProtocolError(f"a response of {len(frame)} bytes has no header")
    correlation_id: int = _LENGTH.unpack_from(frame, 0)[0]
    return correlation_id


def decode_response(
    api_key: int, version: int, frame: Buffer, *, elements_max: int = ANSWER_ELEMENTS_MAX
) -> tuple[int, Message]:
    """(correlation id, message) of a response frame. Records of a Fetch response are memoryviews of `frame`.

    The frame may come from any process that listens on the address. So each length and count is checked before anything
    is built, and `elements_max` limits all arrays together.
    """
    kind = response_type(api_key, version)
    correlation_id = decode_response_correlation_id(frame)
    position = 4
    if kind.__flexible__ and api_key != ApiKey.API_VERSIONS:
        try:
            position = skip_tags(memoryview(frame), position)
        except IndexError as error:
            raise RemoteProtocolError("a response header ends after its frame") from error
    return correlation_id, decode_message(kind, frame, position, elements_max=elements_max)


def decode_message(
    kind: MessageType, frame: Buffer, position: int, *, elements_max: int = ANSWER_ELEMENTS_MAX
) -> Message:
    """The message of type `kind` that begins at `position`. The sender is not trusted. RemoteProtocolError if it is no
    such message."""
    view = frame if isinstance(frame, bytes) else memoryview(frame).toreadonly()  # kio refuses writable buffers
    extent_of(kind, view, position, elements_max=elements_max)
    if kind.__api_key__ == ApiKey.FETCH:
        return decode_in_place(kind, memoryview(frame), position)
    try:
        return entity_reader(kind)(view, position)[0]
    except (SerialError, ValueError, KeyError, OverflowError, TypeError):
        # kio refuses a tagged field or an error code that it does not know, and a time of -1, which brokers send for a
        # transaction that has not begun. Our own decoder reads them. If something else is wrong, it says what.
        return decode_in_place(kind, memoryview(frame), position)


def _check_type(message: Message, kind: MessageType) -> None:
    if type(message) is not kind:
        raise LocalProtocolError(f"expected a {kind.__module__}.{kind.__name__}, got a {type(message).__module__}")


def _finish(message: Message, output: Output) -> list[Buffer]:
    """Encode the body, then write the length into the empty piece at the start."""
    head = output.small
    encode_body(message, output)
    if not output.buffers:
        head[0] = _LENGTH.pack(sum(map(len, head)))
        return [b"".join(head)]
    buffers = output.finish()
    buffers[0] = _LENGTH.pack(sum(map(len, buffers))) + buffers[0]
    return buffers


def skip_tags(view: memoryview, position: int) -> int:
    count, position = read_uvarint(view, position)
    if count > _HEADER_TAGS_MAX:
        raise RemoteProtocolError(f"a header claims {count} tagged fields, allowed are {_HEADER_TAGS_MAX}")
    for _ in range(count):
        _, position = read_uvarint(view, position)
        size, position = read_uvarint(view, position)
        position += size
    if position > len(view):
        raise RemoteProtocolError("the tagged fields of a header end after its frame")
    return position
