"""Finding frames in a byte stream: four bytes of length, then that many bytes. No I/O.

Owns: the buffer between a socket and the codec. Two ways in: `receive_bytes` copies what a socket returned, and
`writable`/`written` let `recv_into` or asyncio's BufferedProtocol fill the buffer in place (half the CPU of a stream
reader, measured). Frames come out as memoryviews of that buffer: valid until the next `writable` or `receive_bytes`.
Shown by tests/broker_wire/test_wire_framing.py.
"""

from __future__ import annotations

import struct

from broker.wire.errors import RemoteProtocolError

# Kafka's socket.request.max.bytes is 100 MiB.
FRAME_BYTES_MAX = 100 * 1024 * 1024
INITIAL_BUFFER_BYTES = 64 * 1024
FILLED_BUFFER_BYTES = 256 * 1024  # a buffer doubles up to this size if one receipt filled it: fewer wake-ups per byte
KEPT_BUFFER_BYTES = 8 * 1024 * 1024  # a buffer that grew beyond this size is released once it is empty
_LENGTH = struct.Struct(">i")


class FrameReader:
    """Bytes in, frames out.

        reader.receive_bytes(data)
        while (frame := reader.next_frame()) is not None: ...

    Invariant: `_start <= _end <= len(_buffer)`; the bytes between are received and not yet handed out. A frame that is
    still in use keeps its memory: the buffer is then replaced, never resized or overwritten under it.
    """

    __slots__ = ("_buffer", "_end", "_frame_bytes_max", "_is_filled", "_start", "_view")

    def __init__(self, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._buffer = bytearray(INITIAL_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._frame_bytes_max = frame_bytes_max
        self._is_filled = False  # the peer sends more at a time than the buffer can hold

    @property
    def buffered_bytes(self) -> int:
        return self._end - self._start

    @property
    def unfinished_frame_bytes(self) -> int:
        """Size of the frame under way, 0 if none is or its length is not known yet."""
        missing = self._missing_bytes()
        return missing + self.buffered_bytes if missing else 0

    def limit_frames(self, frame_bytes_max: int) -> None:
        """For the frames to come."""
        self._frame_bytes_max = frame_bytes_max

    def receive_bytes(self, data: bytes | bytearray | memoryview) -> None:
        view = self.writable(len(data))
        view[: len(data)] = data
        self.written(len(data))

    def writable(self, size_hint_bytes: int = 0) -> memoryview:
        """Free space for at least `size_hint_bytes` (never empty). Ends the validity of frames handed out before."""
        held = self._end - self._start
        if not held:
            self._start = self._end = 0
            if len(self._buffer) > KEPT_BUFFER_BYTES:
                self._replace_buffer(INITIAL_BUFFER_BYTES)
            elif self._is_filled and len(self._buffer) < FILLED_BUFFER_BYTES:
                self._replace_buffer(2 * len(self._buffer))
            self._is_filled = False
            if size_hint_bytes <= len(self._buffer):
                return self._view
        # The length is only a claim of the peer. Room is made as the bytes come, at most four times what is there.
        missing = min(self._missing_bytes(), INITIAL_BUFFER_BYTES + 4 * held)
        wanted = max(size_hint_bytes, missing, 1)
        if len(self._buffer) - self._end < wanted:
            self._make_room(wanted)
        return self._view[self._end :]

    def written(self, count: int) -> None:
        """Say that `count` bytes of the last `writable` view were filled."""
        assert 0 <= count <= len(self._buffer) - self._end
        self._end += count
        if self._end == len(self._buffer):
            self._is_filled = True

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length prefix, or None. Raises RemoteProtocolError on an absurd length."""
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
        """How many bytes the frame under way still needs, 0 if that is not known yet or absurd."""
        held = self._end - self._start
        if held < 4:
            return 0
        size: int = _LENGTH.unpack_from(self._buffer, self._start)[0]
        return max(0, size + 4 - held) if size <= self._frame_bytes_max else 0  # else next_frame reports it

    def _make_room(self, wanted: int) -> None:
        """Move the unfinished frame to the front; take a bigger buffer if it cannot fit."""
        held = self._end - self._start
        if held + wanted > len(self._buffer):
            unfinished = self._view[self._start : self._end]
            self._replace_buffer(max(held + wanted, min(2 * len(self._buffer), self._frame_bytes_max + 4)))
            self._view[:held] = unfinished
        else:
            self._view[:held] = self._view[self._start : self._end]  # a memmove: the two may overlap
        self._start, self._end = 0, held

    def _replace_buffer(self, size_bytes: int) -> None:
        self._buffer = bytearray(size_bytes)
        self._view = memoryview(self._buffer)
