"""Finds frame boundaries in a byte stream. As long as no toxic needs the frames, it only follows the boundaries, which
is cheap. Then it returns whole frames.

If a length is one that no Kafka peer would send (for example from TLS or HTTP), the stream becomes opaque: its bytes
pass unread from then on.
"""

from __future__ import annotations

FRAME_BYTES_MAX = 128 << 20  # above socket.request.max.bytes (100 MiB) and fetch.max.bytes (50 MiB)


def _is_one_frame(data: bytes | memoryview) -> bool:
    return len(data) > 4 and int.from_bytes(data[:4], "big") == len(data) - 4 <= FRAME_BYTES_MAX


class FrameSplitter:
    """Takes the chunks of a stream. `is_reading`: whole frames are wanted."""

    def __init__(self) -> None:
        self.is_opaque = False
        self.is_reading = False
        self._left_in_frame = 0  # bytes of the current frame that must still pass unread
        # The first bytes of a length field, if a chunk ended within it. They have been passed on already.
        self._length_bytes = b""
        self._buffer = bytearray()

    def start_reading(self) -> None:
        """Return whole frames from the next frame boundary on."""
        self.is_reading = True

    def skim(self, data: bytes | memoryview) -> None:
        """Follow the boundaries in bytes that are passed on unread."""
        assert not self.is_reading
        if self.is_opaque or (self._is_at_boundary() and _is_one_frame(data)):
            return
        self._follow(data)

    def feed(self, data: bytes) -> tuple[bytes, list[bytes]]:
        """Returns the bytes to pass on unread, and the whole frames after them (each with its length)."""
        if self.is_opaque:
            return data, []
        position = 0
        if not self._buffer and (self._left_in_frame or self._length_bytes):
            position = self._follow(data, one_frame=True)
            if self.is_opaque:
                return data, []
        self._buffer += memoryview(data)[position:]
        frames: list[bytes] = []
        start = 0
        while len(self._buffer) - start >= 4:
            size = int.from_bytes(self._buffer[start : start + 4], "big", signed=True)
            if not 0 < size <= FRAME_BYTES_MAX:
                self.is_opaque = True
                frames.append(bytes(self._buffer[start:]))
                start = len(self._buffer)
                break
            if len(self._buffer) - start < 4 + size:
                break
            frames.append(bytes(self._buffer[start : start + 4 + size]))
            start += 4 + size
        del self._buffer[:start]
        return data[:position], frames

    def _is_at_boundary(self) -> bool:
        return not (self._left_in_frame or self._length_bytes)

    def _follow(self, data: bytes | memoryview, *, one_frame: bool = False) -> int:
        """Move over frames that pass unread. `one_frame`: stop at the first boundary. Returns the position."""
        position, end = 0, len(data)
        while position < end and not self.is_opaque:
            if self._left_in_frame:
                step = min(self._left_in_frame, end - position)
                self._left_in_frame -= step
                position += step
                if one_frame and not self._left_in_frame:
                    return position
                continue
            wanted = 4 - len(self._length_bytes)
            self._length_bytes += data[position : position + wanted]
            position = min(end, position + wanted)
            if len(self._length_bytes) == 4:
                size = int.from_bytes(self._length_bytes, "big", signed=True)
                self._length_bytes = b""
                self._left_in_frame = size
                self.is_opaque = not 0 < size <= FRAME_BYTES_MAX
        return position
