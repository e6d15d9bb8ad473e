"""What can go wrong on the wire: the error codes of the protocol and the exceptions of this package.

Owns: which code is worth a retry. fates.py says what a code means for a Produce request. Knows nothing of connections.
A wire error is an `ErrorCode` value. It becomes an exception only at the surface of a client. Shown by
tests/broker_wire/test_wire_codec.py.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

__all__ = [
    "CorruptBatchError",
    "ErrorCode",
    "LocalProtocolError",
    "ProtocolError",
    "RemoteProtocolError",
    "UnpackedTooBigError",
    "error_code",
    "error_name",
    "is_retriable",
]


class ProtocolError(Exception):
    """Base of everything this package raises on purpose."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that is not the Kafka protocol, or a version that we never offered. The connection must
    be closed."""


class LocalProtocolError(ProtocolError):
    """Our own code asked for a message that cannot be encoded. This is a bug on this side."""


class CorruptBatchError(ProtocolError):
    """A record batch contradicts itself (CRC, lengths, counts). `position` is its byte position, if known."""

    def __init__(self, message: str, *, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class UnpackedTooBigError(CorruptBatchError):
    """Records would unpack to more bytes than allowed. They are not necessarily damaged."""


def error_code(value: int) -> ErrorCode:
    """The code for a number. An unknown number counts as `unknown_server_error`."""
    try:
        return ErrorCode(value)
    except ValueError:
        return ErrorCode.unknown_server_error


def error_name(value: int) -> str:
    """Kafka's name of a code, for example `NOT_LEADER_OR_FOLLOWER`. For an unknown number it is the number."""
    try:
        return ErrorCode(value).name.upper()
    except ValueError:
        return f"ERROR_{value}"


def is_retriable(value: int) -> bool:
    """Whether Kafka marks the code as retriable."""
    return error_code(value).retriable
