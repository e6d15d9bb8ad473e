"""A client under test as a process of its own: JSON lines in, JSON lines out, every call bounded in time.

Owns the process and the three kinds of answer. What is asked is decided by features/, what a call means to a client by
drivers/. A driver that does not answer in time is ended, and the next call starts it anew.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

CALL_TIMEOUT_S = 240.0
ROOT = Path(__file__).parents[2]


class Unsupported(Exception):
    """The client has no such thing; the text says what is missing."""


class ClientFailure(Exception):
    """The client raised or reported an error; the text is its own."""


class NoAnswer(Exception):
    """The driver did not answer in time, or ended: nothing that the client said."""


class Driver:
    """`call` is the only way in. Arguments and results are plain JSON."""

    def __init__(self, command: Sequence[str], bootstrap: str, log: Path, environment: Mapping[str, str]) -> None:
        self._command, self._bootstrap = list(command), bootstrap
        self._log, self._environment = log, dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._received = b""

    def call(self, name: str, /, timeout_s: float = CALL_TIMEOUT_S, **arguments: object) -> Any:
        """What the client gave. Raises Unsupported, ClientFailure or NoAnswer."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps({"call": name, **arguments}).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(self._line(process.stdout, timeout_s))
        except (OSError, ValueError) as error:
            self.close()
            raise NoAnswer(f"no answer to {name}: {error}") from error
        if "unsupported" in answer:
            raise Unsupported(answer["unsupported"])
        if "error" in answer:
            raise ClientFailure(answer["error"])
        return answer["result"]

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(10)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._received = b""
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [*self._command, self._bootstrap],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=ROOT,
                    env={**os.environ, **self._environment},
                )
        return self._process

    def _line(self, pipe: BinaryIO | Any, timeout_s: float) -> bytes:
        readable = select.poll()  # select() ends at descriptor 1,024, and a test process may have more open
        readable.register(pipe, select.POLLIN)
        while b"\n" not in self._received:
            if not readable.poll(timeout_s * 1000):
                raise OSError(f"nothing within {timeout_s:.0f} s")
            piece = os.read(pipe.fileno(), 1 << 20)
            if not piece:
                raise OSError("the driver ended")
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        return line
