"""Reads and writes the primitive fields of Kafka's protocol in place, without copying record data.

`Reader` raises `MalformedFrame` for anything that does not fit into the frame. It never reads beyond the frame.
"""

from __future__ import annotations

import struct

from broker.door.protocol import RemoteProtocolError, read_uvarint, uvarint

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
# The limit for the entries of all arrays and tags in one message together. To read them takes about a second, and the
# event loop also serves every other proxy. A cluster of 30,000 partitions has fewer.
ITEMS_MAX = 250_000


class MalformedFrame(Exception):
    """The bytes do not follow the protocol. The proxy then passes them on unread."""


class Reader:
    """A cursor over one frame. `is_compact` picks the encoding of texts, arrays and bytes (KIP-482)."""

    __slots__ = ("_data", "_items_left", "is_compact", "position")

    def __init__(self, data: bytes, *, position: int = 0, is_compact: bool = False) -> None:
        self._data = data
        self.position = position
        self.is_compact = is_compact
        self._items_left = ITEMS_MAX

    def _advance(self, size: int) -> int:
        start = self.position
        if size < 0 or start + size > len(self._data):
            raise MalformedFrame(f"wants {size} bytes at {start}, frame has {len(self._data)}")
        self.position = start + size
        return start

    def int8(self) -> int:
        return self._data[self._advance(1)]

    def int16(self) -> int:
        value: int = _INT16.unpack_from(self._data, self._advance(2))[0]
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack_from(self._data, self._advance(4))[0]
        return value

    def int64(self) -> int:
        value: int = _INT64.unpack_from(self._data, self._advance(8))[0]
        return value

    def uuid(self) -> bytes:
        start = self._advance(16)
        return self._data[start : start + 16]

    def varint(self) -> int:
        try:
            value, self.position = read_uvarint(self._data, self.position)
        except (IndexError, RemoteProtocolError) as error:
            raise MalformedFrame(f"an unsigned varint at {self.position}: {error}") from error
        return value

    def legacy_text(self) -> str | None:
        return self._text(self.int16())

    def text(self) -> str | None:
        return self._text(self.varint() - 1) if self.is_compact else self.legacy_text()

    def _text(self, size: int) -> str | None:
        if size < 0:
            return None
        start = self._advance(size)
        return self._data[start : start + size].decode("utf-8", errors="replace")

    def blob(self) -> tuple[int, int] | None:
        """Start and size of a byte field. Its bytes are not copied."""
        size = self.varint() - 1 if self.is_compact else self.int32()
        return None if size < 0 else (self._advance(size), size)

    def count(self) -> int:
        count = self.varint() - 1 if self.is_compact else self.int32()
        return self._itemized(max(0, count))

    def skip_tags(self) -> None:
        if not self.is_compact:
            return
        for _ in range(self.tag_count()):
            self.varint()
            self._advance(self.varint())

    def tag_count(self) -> int:
        return self._itemized(self.varint())

    def _itemized(self, count: int) -> int:
        self._items_left -= count
        if self._items_left < 0:
            raise MalformedFrame(f"more than {ITEMS_MAX} items")
        return count

    def skip(self, size: int) -> None:
        self._advance(size)

    def slice(self, start: int, size: int) -> bytes:
        """Bytes from a position before the reader."""
        return self._data[start : start + size]


class Writer:
    """Builds one frame's content."""

    __slots__ = ("_is_compact", "_parts")

    def __init__(self, *, is_compact: bool) -> None:
        self._parts = bytearray()
        self._is_compact = is_compact

    def int16(self, value: int) -> None:
        self._parts += _INT16.pack(value)

    def int32(self, value: int) -> None:
        self._parts += _INT32.pack(value)

    def int64(self, value: int) -> None:
        self._parts += _INT64.pack(value)

    def raw(self, data: bytes) -> None:
        self._parts += data

    def varint(self, value: int) -> None:
        self._parts += uvarint(value)

    def text(self, value: str | None) -> None:
        data = None if value is None else value.encode()
        if self._is_compact:
            self.varint(0 if data is None else len(data) + 1)
        else:
            self.int16(-1 if data is None else len(data))
        self._parts += data or b""

    def count(self, value: int) -> None:
        if self._is_compact:
            self.varint(value + 1)
        else:
            self.int32(value)

    def no_tags(self) -> None:
        if self._is_compact:
            self._parts.append(0)

    def frame(self) -> bytes:
        """The content with its length before it."""
        return _INT32.pack(len(self._parts)) + bytes(self._parts)
