"""What a client's own tests have in common: each runs in a process of its own, with bounded output and time.

A suite says where its tests come from, which of them need a broker, and which failures are known: whose fault each is,
and why. If a test is known to fail and passes, it counts as a pass.

A suite runs on reference brokers alone, or beside Apache Kafka: then each test runs on both, one after the other, and
the two clusters take turns in being the first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar

from tests.broker_node.cluster_helper import Cluster
from tests.compatibility.kafka_cluster import KafkaCluster
from tests.compatibility.trial import REASON_CHARACTERS, Cell, Trial

HEAD_BYTES, TAIL_BYTES = 4_000_000, 400_000  # of what a test prints; one in a loop of errors prints without end
_CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Why a test fails: `broker`, it asks for what the reference broker does not implement; `kafka`, it fails on
    Apache Kafka 4.3.1 on this kind of machine as well; `client`, what it asks for is not there on such a machine."""

    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    state: str  # passed | skipped | failed; broker: left out because it would
    reason: str = ""


Attempt = Callable[[str], Outcome]
Kind = type[Cluster]
ALONE: tuple[Kind, ...] = (Cluster,)
BESIDE_KAFKA: tuple[Kind, ...] = (Cluster, KafkaCluster)
_DIRECTORIES: Mapping[Kind, str] = {Cluster: "reference", KafkaCluster: "kafka"}


class Suite(ABC):
    """`name` is the row of the table; `known` maps a test to what is known of its failure."""

    name: ClassVar[str]
    language: ClassVar[str]
    source: ClassVar[str]  # where the tests come from, for the page
    known: ClassVar[Mapping[str, Known]] = {}

    @abstractmethod
    def prepare(self) -> str:
        """Fetch and build what is not there yet; the version. Raises CannotPrepare."""

    @abstractmethod
    def tests(self) -> Sequence[str]:
        """Those that ask a broker for something, in their order. After `prepare`."""

    @abstractmethod
    def opened(self, directory: Path, kind: Kind) -> AbstractContextManager[Attempt]:
        """Brokers of this kind as the suite wants them, and how one test is run on them."""

    def run(
        self,
        directory: Path,
        is_wanted: Callable[[str], bool],
        save: Callable[[Trial], None],
        tell: Callable[[str], None] = lambda _: None,
        kinds: Sequence[Kind] = ALONE,
    ) -> int:
        """How many failed. Each is saved as it ends: a suite may take an hour, and be interrupted. The first of `kinds`
        is the one that is tried, the other one what it is compared with."""
        version, failed = self.prepare(), 0
        wanted = [test for test in self.tests() if is_wanted(test)]
        if not wanted:
            return 0
        with ExitStack() as stack:
            attempts = {kind: stack.enter_context(self.opened(directory / _DIRECTORIES[kind], kind)) for kind in kinds}
            for number, test in enumerate(wanted):
                found: dict[Kind, tuple[Outcome, float]] = {}
                for kind in kinds if number % 2 == 0 else reversed(kinds):
                    begin = time.monotonic()
                    outcome = attempts[kind](test)
                    found[kind] = (outcome, time.monotonic() - begin)
                cell = self._cell(test, *(found[kind] for kind in kinds))
                tell(_told(cell))
                save(Trial(client=self.name, language=self.language, version=version, cells=(cell,)))
                failed += cell.state == "failed"
        return failed

    def _cell(self, test: str, ours: tuple[Outcome, float], beside: tuple[Outcome, float] | None = None) -> Cell:
        outcome, theirs = ours[0], beside[0] if beside is not None else None
        state, reason = self._judged(test, outcome, theirs)
        return Cell(
            feature=test, state=state, reason=_short(reason), seconds=round(ours[1], 1),
            kafka=theirs.state if theirs is not None else "", kafka_reason=_short(theirs.reason) if theirs else "",
        )  # fmt: skip

    def _judged(self, test: str, outcome: Outcome, theirs: Outcome | None) -> tuple[str, str]:
        """Whose fault it is. Apache Kafka's own outcome beside it counts more than what was known of Apache Kafka."""
        if outcome.state != "failed":
            return outcome.state, outcome.reason
        known = self.known.get(test)
        passes_there = theirs is not None and theirs.state == "passed"
        if known is not None and not (known.state == "kafka" and passes_there):
            return known.state, known.reason
        fails_there = theirs is not None and theirs.state == "failed"
        return "kafka" if fails_there else "failed", outcome.reason


def _short(reason: str) -> str:
    return " ".join(reason.split())[:REASON_CHARACTERS]


def _told(cell: Cell) -> str:
    beside = f"; Apache Kafka: {cell.kafka} {cell.kafka_reason}" if cell.kafka else ""
    return f"{cell.feature}: {cell.state} {cell.reason} ({cell.seconds:.1f} s){beside}"


def run_test(
    command: Sequence[str], environment: Mapping[str, str], directory: Path, log: Path, timeout_s: float
) -> tuple[int | None, str]:
    """Exit code (None: it did not end in time and was killed) and what it printed, without the middle of very much."""
    process = subprocess.Popen(
        command, cwd=directory, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    head, tail = bytearray(), deque[bytes](maxlen=TAIL_BYTES // _CHUNK_BYTES + 1)
    reader = threading.Thread(target=_read, args=(process.stdout, head, tail), daemon=True)
    reader.start()
    code: int | None = None
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        pass
    finally:
        _end_session(process)
    reader.join(10)
    printed = bytes(head) + b"".join(tail)
    log.write_bytes(printed)
    return code, printed.decode(errors="replace")


def _read(stream: IO[bytes], head: bytearray, tail: deque[bytes]) -> None:
    with stream:
        while chunk := stream.read1(_CHUNK_BYTES):  # type: ignore[attr-defined]  # a BufferedReader
            if len(head) < HEAD_BYTES:
                head += chunk
            else:
                tail.append(chunk)


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """Also what the test has started and left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
