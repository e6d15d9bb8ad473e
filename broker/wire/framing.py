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
KEPT_BUFFER_BYTES = 8 * 1024 * 1024  # a buffer that grew beyond it is let go once it is empty
_LENGTH = struct.Struct(">i")


class FrameReader:
    """Bytes in, frames out.

        reader.receive_bytes(data)
        while (frame := reader.next_frame()) is not None: ...

    Invariant: `_start <= _end <= len(_buffer)`; the bytes between are received and not yet handed out. A frame that is
    still in use keeps its memory: the buffer is then replaced, never resized or overwritten under it.
    """

    __slots__ = ("_buffer", "_end", "_frame_bytes_max", "_start")

    def __init__(self, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._buffer = bytearray(INITIAL_BUFFER_BYTES)
        self._start = 0
        self._end = 0
        self._frame_bytes_max = frame_bytes_max

    @property
    def buffered_bytes(self) -> int:
        return self._end - self._start

    @property
    def unfinished_frame_bytes(self) -> int:
        """Size of the frame under way, 0 if none is or its length is not known yet."""
        missing = self._missing_bytes()
        return missing + self.buffered_bytes if missing else 0

    def receive_bytes(self, data: bytes | bytearray | memoryview) -> None:
        view = self.writable(len(data))
        view[: len(data)] = data
        self.written(len(data))

    def writable(self, size_hint_bytes: int = 0) -> memoryview:
        """Free space for at least `size_hint_bytes` (never empty). Ends the validity of frames handed out before."""
        # The length is only a claim: room for it is made as the bytes come, four times what is there at most.
        missing = min(self._missing_bytes(), INITIAL_BUFFER_BYTES + 4 * (self._end - self._start))
        wanted = max(size_hint_bytes, missing, 1)
        if self._start == self._end:
            self._start = self._end = 0
            if len(self._buffer) > KEPT_BUFFER_BYTES:
                self._buffer = bytearray(INITIAL_BUFFER_BYTES)
        if len(self._buffer) - self._end < wanted:
            self._make_room(wanted)
        return memoryview(self._buffer)[self._end :]

    def written(self, count: int) -> None:
        """Say that `count` bytes of the last `writable` view were filled."""
        assert 0 <= count <= len(self._buffer) - self._end
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length prefix, or None. Raises RemoteProtocolError on an absurd length."""
        size = self._next_size()
        if size is None or self._end - self._start - 4 < size:
            return None
        begin = self._start + 4
        self._start = begin + size
        return memoryview(self._buffer)[begin : self._start]

    def _next_size(self) -> int | None:
        if self._end - self._start < 4:
            return None
        size: int = _LENGTH.unpack_from(self._buffer, self._start)[0]
        if not 0 <= size <= self._frame_bytes_max:
            raise RemoteProtocolError(f"a frame claims {size} bytes, allowed are 0 to {self._frame_bytes_max}")
        return size

    def _missing_bytes(self) -> int:
        """How many bytes the frame under way still needs, 0 if that is not known yet."""
        try:
            size = self._next_size()
        except RemoteProtocolError:
            return 0  # next_frame reports it
        return 0 if size is None else max(0, size + 4 - (self._end - self._start))

    def _make_room(self, wanted: int) -> None:
        """Move the unfinished frame to the front; take a bigger buffer if it cannot fit."""
        held = self._end - self._start
        if held + wanted > len(self._buffer):
            replacement = bytearray(max(held + wanted, min(2 * len(self._buffer), self._frame_bytes_max + 4)))
            replacement[:held] = memoryview(self._buffer)[self._start : self._end]
            self._buffer = replacement
        else:
            view = memoryview(self._buffer)
            view[:held] = bytes(view[self._start : self._end])
        self._start, self._end = 0, held
