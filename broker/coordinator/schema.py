"""Primitive types of Kafka's message format, for the keys and values of internal topics.

kio has the types of requests and responses. The records that coordinators keep use the same primitive types, but kio
does not have them. Classic versions have lengths of fixed size. Flexible versions (KIP-482) have varints and tagged
fields. `Reader` raises SchemaError for bytes that end early. As in Kafka, it ignores bytes after the last field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar
from uuid import UUID

from broker.wire.errors import RemoteProtocolError
from broker.wire.varints import read_uvarint, uvarint

T = TypeVar("T")

_INT8, _INT16, _INT32, _INT64 = (struct.Struct(f">{code}") for code in "bhiq")
ITEMS_MAX = 1_000_000  # items in one array: a larger length means that the bytes are damaged


class SchemaError(ValueError):
    """The bytes do not match the format of their version."""


class Writer:
    """Each call appends one field, in the order of the schema. `bytes(writer)` is the result."""

    def __init__(self, version: int) -> None:
        """`version` is the int16 at the beginning of every key and value."""
        self._pieces: list[bytes] = [_INT16.pack(version)]

    @classmethod
    def part(cls) -> Writer:
        """For a tagged field, which has no version."""
        writer = cls(0)
        writer._pieces.clear()
        return writer

    def __bytes__(self) -> bytes:
        return b"".join(self._pieces)

    def int8(self, value: int) -> Writer:
        self._pieces.append(_INT8.pack(value))
        return self

    def int16(self, value: int) -> Writer:
        self._pieces.append(_INT16.pack(value))
        return self

    def int32(self, value: int) -> Writer:
        self._pieces.append(_INT32.pack(value))
        return self

    def int64(self, value: int) -> Writer:
        self._pieces.append(_INT64.pack(value))
        return self

    def string(self, value: str) -> Writer:
        encoded = value.encode()
        if len(encoded) > 2**15 - 1:
            raise SchemaError(f"a string of {len(encoded)} bytes; at most 32767 fit")
        self._pieces += (_INT16.pack(len(encoded)), encoded)
        return self

    def nullable_string(self, value: str | None) -> Writer:
        return self.int16(-1) if value is None else self.string(value)

    def bytes_(self, value: bytes) -> Writer:
        self._pieces += (_INT32.pack(len(value)), value)
        return self

    def array(self, values: Iterable[T], write: Callable[[T], object]) -> Writer:
        items = list(values)
        self.int32(len(items))
        for item in items:
            write(item)
        return self

    def uvarint(self, value: int) -> Writer:
        self._pieces.append(uvarint(value))
        return self

    def compact_string(self, value: str) -> Writer:
        encoded = value.encode()
        self.uvarint(len(encoded) + 1)._pieces.append(encoded)
        return self

    def compact_nullable_string(self, value: str | None) -> Writer:
        return self.uvarint(0) if value is None else self.compact_string(value)

    def compact_bytes(self, value: bytes) -> Writer:
        self.uvarint(len(value) + 1)._pieces.append(value)
        return self

    def compact_array(self, values: Iterable[T], write: Callable[[T], object]) -> Writer:
        items = list(values)
        self.uvarint(len(items) + 1)
        for item in items:
            write(item)
        return self

    def uuid(self, value: UUID) -> Writer:
        self._pieces.append(value.bytes)
        return self

    def tags(self, fields: Mapping[int, bytes] | None = None) -> Writer:
        """Tagged fields by tag, each already encoded."""
        fields = fields or {}
        self.uvarint(len(fields))
        for tag, encoded in sorted(fields.items()):
            self.uvarint(tag).uvarint(len(encoded))._pieces.append(encoded)
        return self


class Reader:
    """Each call takes one field, in the order of the schema. `version` was read first."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0
        self.version = self.int16()

    @classmethod
    def part(cls, data: bytes) -> Reader:
        """For a tagged field, which has no version."""
        reader = cls(b"\0\0")
        reader._data, reader._position = data, 0
        return reader

    def _take(self, size: int) -> bytes:
        if size < 0:
            raise SchemaError(f"a length of {size} at byte {self._position} of {len(self._data)}")
        end = self._position + size
        if end > len(self._data):
            raise SchemaError(f"{size} bytes wanted at byte {self._position} of {len(self._data)}")
        piece = self._data[self._position : end]
        self._position = end
        return piece

    def int8(self) -> int:
        return int.from_bytes(self._take(1), "big", signed=True)

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def string(self) -> str:
        return _text(self._take(self.int16()))

    def nullable_string(self) -> str | None:
        size = self.int16()
        return None if size < 0 else _text(self._take(size))

    def bytes_(self) -> bytes:
        return self._take(self.int32())

    def raw(self, size: int) -> bytes:
        return self._take(size)

    def array(self, read: Callable[[], T]) -> tuple[T, ...]:
        return self._items(self.int32(), read)

    def uvarint(self) -> int:
        try:
            value, self._position = read_uvarint(self._data, self._position)
        except (IndexError, RemoteProtocolError) as error:
            raise SchemaError(f"a varint at byte {self._position} of {len(self._data)}: {error}") from error
        return value

    def compact_string(self) -> str:
        return _text(self._take(self.uvarint() - 1))

    def compact_nullable_string(self) -> str | None:
        size = self.uvarint()
        return None if size == 0 else _text(self._take(size - 1))

    def compact_bytes(self) -> bytes:
        return self._take(self.uvarint() - 1)

    def compact_array(self, read: Callable[[], T]) -> tuple[T, ...]:
        return self._items(self.uvarint() - 1, read)

    def _items(self, count: int, read: Callable[[], T]) -> tuple[T, ...]:
        if not 0 <= count <= ITEMS_MAX:
            raise SchemaError(f"an array of {count} items at byte {self._position}")
        return tuple([read() for _ in range(count)])

    def uuid(self) -> UUID:
        return UUID(bytes=self._take(16))

    def tags(self) -> dict[int, bytes]:
        found = {}
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            found[tag] = self._take(self.uvarint())
        return found


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SchemaError(f"a string is not UTF-8: {error}") from error
