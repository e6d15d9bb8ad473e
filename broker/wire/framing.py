"""Finds frames in a byte stream: four bytes of length, then that many bytes. No I/O.

Owns: the buffer between a socket and the codec. There are two ways to fill it. `receive_bytes` copies what a socket
returned. `writable`/`written` let `recv_into` or asyncio's BufferedProtocol fill the buffer in place (measured: half
the CPU of a stream reader). Frames are memoryviews of that buffer, valid until the next `writable` or `receive_bytes`.
Shown by tests/broker_wire/test_wire_framing.py.
"""

from __future__ import annotations

import struct

from broker.wire.errors import RemoteProtocolError

# Kafka's socket.request.max.bytes is 100 MiB.
FRAME_BYTES_MAX = 100 * 1024 * 1024
INITIAL_BUFFER_BYTES = 64 * 1024
FILLED_BUFFER_BYTES = 256 * 1024  # a buffer doubles up to this size if one receipt filled it, for fewer wake-ups
KEPT_BUFFER_BYTES = 8 * 1024 * 1024  # a buffer that grew beyond this size is released before it is filled again
_LENGTH = struct.Struct(">i")


class FrameReader:
    """Bytes in, frames out.

        reader.receive_bytes(data)
        while (frame := reader.next_frame()) is not None: ...

    Invariant: `_start <= _end <= len(_buffer)`. The bytes between `_start` and `_end` are received and not yet handed
    out. A frame that is still in use keeps its memory: the buffer is then replaced, never resized or overwritten.

    The buffer is never larger than `reserved_bytes`. So who has a budget for buffers counts these, before the next
    receipt. `filled_bytes_max` is the size up to which a buffer grows without a frame that needs it.
    """

    __slots__ = ("_buffer", "_end", "_frame_bytes_max", "_start", "_view", "filled_bytes_max", "is_filled")

    def __init__(self, *, frame_bytes_max: int = FRAME_BYTES_MAX, filled_bytes_max: int = FILLED_BUFFER_BYTES) -> None:
        self._buffer = bytearray(INITIAL_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._frame_bytes_max = frame_bytes_max
        self.filled_bytes_max = filled_bytes_max
        self.is_filled = False  # the peer sends more at a time than the buffer can hold

    @property
    def buffered_bytes(self) -> int:
        return self._end - self._start

    @property
    def unfinished_frame_bytes(self) -> int:
        """Size of the frame that is being received. 0 if there is none, or if its length is not known yet."""
        missing = self._missing_bytes()
        return missing + self.buffered_bytes if missing else 0

    @property
    def buffer_bytes(self) -> int:
        """Size of the buffer now."""
        return len(self._buffer)

    @property
    def reserved_bytes(self) -> int:
        """Size that the buffer has, or may get before the next frame is whole."""
        return max(len(self._buffer), self.filled_bytes_max, self.unfinished_frame_bytes)

    def shrink(self) -> None:
        """Takes the smallest buffer for the bytes that are received and not yet handed out. Frames that were handed out
        keep their memory."""
        held = self._end - self._start
        self.filled_bytes_max = INITIAL_BUFFER_BYTES
        if len(self._buffer) <= max(held, INITIAL_BUFFER_BYTES):
            return
        unfinished = self._view[self._start : self._end]
        self._replace_buffer(max(held, INITIAL_BUFFER_BYTES))
        self._view[:held] = unfinished
        self._start, self._end = 0, held

    def limit_frames(self, frame_bytes_max: int) -> None:
        """Set the limit for later frames."""
        self._frame_bytes_max = frame_bytes_max

    def receive_bytes(self, data: bytes | bytearray | memoryview) -> None:
        view = self.writable(len(data))
        view[: len(data)] = data
        self.written(len(data))

    def writable(self, size_hint_bytes: int = 0) -> memoryview:
        """Free space for at least `size_hint_bytes` (never empty). Frames that were handed out before are no longer
        valid."""
        held = self._end - self._start
        if not held:
            self._start = self._end = 0
            if len(self._buffer) > KEPT_BUFFER_BYTES:
                self._replace_buffer(INITIAL_BUFFER_BYTES)
            elif self.is_filled and 2 * len(self._buffer) <= self.filled_bytes_max:
                self._replace_buffer(2 * len(self._buffer))
            self.is_filled = False
            if size_hint_bytes <= len(self._buffer):
                return self._view
        # The length is only a claim of the peer. So the buffer grows as bytes arrive: beside the initial size, there is
        # at most four times as much free space as there are bytes.
        missing = min(self._missing_bytes(), INITIAL_BUFFER_BYTES + 4 * held)
        wanted = max(size_hint_bytes, missing, 1)
        if len(self._buffer) - self._end < wanted:
            self._make_room(wanted)
        return self._view[self._end :]

    def written(self, count: int) -> None:
        """The caller has filled `count` bytes of the last `writable` view."""
        assert 0 <= count <= len(self._buffer) - self._end
        self._end += count
        if self._end == len(self._buffer):
            self.is_filled = True

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length prefix, or None. Raises RemoteProtocolError for a length that is
        negative or beyond the limit."""
        start = self._start
        held = self._end - start
        if held < 4:
            return None
        size: int = _LENGTH.unpack_from(self._buffer, start)[0]
        if held - 4 < size <= self._frame_bytes_max:
            return None
        if not 0 <= size <= self._frame_bytes_max:
            raise RemoteProtocolError(f"a frame claims {size} bytes, allowed are 0 to {self._frame_bytes_max}")
        self._start = start + 4 + size
        return self._view[start + 4 : self._start]

    def _missing_bytes(self) -> int:
        """How many bytes are still missing from the frame that is being received. 0 if its length is not known yet or
        not allowed."""
        held = self._end - self._start
        if held < 4:
            return 0
        size: int = _LENGTH.unpack_from(self._buffer, self._start)[0]
        return max(0, size + 4 - held) if size <= self._frame_bytes_max else 0  # otherwise next_frame reports the error

    def _make_room(self, wanted: int) -> None:
        """Move the unfinished frame to the front. Take a bigger buffer if it does not fit."""
        held = self._end - self._start
        if held + wanted > len(self._buffer):
            unfinished = self._view[self._start : self._end]
            # It doubles, but not beyond the frame: nothing needs more, and no more is reserved.
            frame_bytes = self.unfinished_frame_bytes or 2 * len(self._buffer)
            self._replace_buffer(max(held + wanted, min(2 * len(self._buffer), frame_bytes)))
            self._view[:held] = unfinished
        else:
            self._view[:held] = self._view[self._start : self._end]  # works like memmove, because the two may overlap
        self._start, self._end = 0, held

    def _replace_buffer(self, size_bytes: int) -> None:
        self._buffer = bytearray(size_bytes)
        self._view = memoryview(self._buffer)
