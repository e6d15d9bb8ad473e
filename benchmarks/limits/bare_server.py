"""bare_server.c in Python on uvloop, in one thread: what any broker in Python spends before it looks at a batch.

PORT=... python -m benchmarks.limits.bare_server 1 FILE METADATA ANSWER OFFSET_POSITION RECORDS
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from pathlib import Path
from typing import Final, cast

import uvloop

BUFFER_BYTES: Final = 1 << 22
_PRODUCE_KEY: Final = b"\0\0"


class Work:
    """What all connections share."""

    def __init__(self, path: str, metadata: bytes, answer: bytes, offset_position: int, records: int) -> None:
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600) if path else -1
        self.metadata = metadata
        self.before, self.after = answer[8:offset_position], answer[offset_position + 8 :]
        self.length, self.records = answer[:4], records
        self.written = self.base_offset = 0

    def answer(self, frame: memoryview) -> bytes:
        """`frame` is a whole request with its length."""
        correlation_id = bytes(frame[8:12])
        if bytes(frame[4:6]) != _PRODUCE_KEY:
            return self.metadata[:4] + correlation_id + self.metadata[8:]
        if self.file >= 0:
            os.pwrite(self.file, frame, self.written)
            self.written += len(frame)
        base = self.base_offset.to_bytes(8, "big")
        self.base_offset += self.records
        return b"".join((self.length, correlation_id, self.before, base, self.after))


class Bare(asyncio.BufferedProtocol):
    def __init__(self, work: Work) -> None:
        self._work = work
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._start = self._end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        buffer, answers = self._buffer, []
        while self._end - self._start >= 4:
            (size,) = struct.unpack_from(">I", buffer, self._start)
            end = self._start + 4 + size
            if end > self._end:
                break
            answers.append(self._work.answer(buffer[self._start : end]))
            self._start = end
        if answers:
            self._transport.write(b"".join(answers))
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start and BUFFER_BYTES - self._end < BUFFER_BYTES // 2:
            held = self._end - self._start
            buffer[:held] = bytes(buffer[self._start : self._end])
            self._start, self._end = 0, held


async def serve(port: int, work: Work) -> None:
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Bare(work), "127.0.0.1", port)
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until it ends


if __name__ == "__main__":
    _, path, metadata, answer, offset_position, records = sys.argv[1:]
    work = Work(path, Path(metadata).read_bytes(), Path(answer).read_bytes(), int(offset_position), int(records))
    uvloop.run(serve(int(os.environ["PORT"]), work))
