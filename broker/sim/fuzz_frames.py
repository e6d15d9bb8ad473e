"""Sends bad frames to a real broker in the simulated loop: to its connections, decoders and every handler.

After each frame it checks that the broker has not failed, that the frame was handled in time, that memory has not grown
much, and that another connection is still served. If a handler raises, only the connection of its peer is closed. With
--strict this is a defect.
"""

from __future__ import annotations

import gc
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from broker.sim.clients import create_topic
from broker.sim.cluster import CONTROLLER, EXTERNAL, INTERNAL, port
from broker.sim.fuzz_input import random_frame
from broker.sim.invariants.processes import NoHandlerRaises
from broker.sim.loop import SimLoop
from broker.sim.network import Network, Process, Stream
from broker.sim.plan import TOPIC, Settings
from broker.sim.seed_run import virtual_clocks
from broker.sim.world import World
from broker.wire.apis import ApiKey
from broker.wire.codec import encode_request
from broker.wire.messages import request

FRAMES_PER_BROKER = 2_000  # then a new broker is used, because some requests are valid and add topics and brokers
ANSWER_LIMIT_US = 400_000  # virtual time; if there is no answer by then, we close the connection
EVENTS_PER_FRAME_MAX = 50_000
CPU_LIMIT_S = 20  # One frame may take this much. The slowest took 0.2 s.
MEMORY_GROWTH_MAX_BYTES = 512 << 20
_PAGE_BYTES = 4096


class FuzzError(Exception):
    """The broker did something that it must not do. The message says how to reproduce it."""


@dataclass(slots=True, kw_only=True)
class FuzzResult:
    frames: int = 0
    answered: int = 0
    closed: int = 0
    silent: int = 0  # acks=0, a long poll, or a frame that is not whole yet
    kinds: Counter[str] = field(default_factory=Counter)
    memory_growth_bytes: int = 0
    handler_failures: int = 0


class Peer:
    """A raw connection. It sends any bytes and takes any answer."""

    def __init__(self, network: Network, loop: SimLoop, target_port: int) -> None:
        self.process: Process = loop
        self.stream: Stream | None = None
        self.received = bytearray()
        self.is_over = False
        self._network = network
        network.dial(self, target_port)

    def connected(self) -> None:
        return

    def refused(self, error: OSError) -> None:
        self.is_over = True

    def data_received(self, data: bytes) -> None:
        self.received += data

    def end_received(self, error: OSError | None) -> None:
        self.is_over = True

    def send(self, data: bytes) -> None:
        assert self.stream is not None
        self._network.send(self.stream, data)

    def close(self) -> None:
        self.is_over = True
        if self.stream is not None:
            self._network.end(self.stream, None)


class Target:
    """One broker with a topic, one connection with valid requests, and one for bad frames per listener."""

    def __init__(self, seed: int) -> None:
        settings = Settings(
            seed=seed,
            brokers=1,
            partitions=2,
            replication_factor=1,
            min_insync_replicas=1,
            segment_bytes=1 << 20,
            flush_messages=None,
            unclean=False,
            producers=0,
            record_gap_us=1,
            faults=0,
            has_strangers=True,
        )
        self.world = World(settings)
        self.world.cluster.start(1)
        self.loop = SimLoop(  # type: ignore[abstract]  # only to typeshed: the others raise
            scheduler=self.world.scheduler, network=self.world.network, host="fuzzer"
        )
        admin = self.world.admin
        creating = create_topic(admin, topic=TOPIC, partitions=2, replication_factor=1, configs={})
        admin.loop.run_callback(lambda: admin.loop.create_task(creating))
        self.advance(2_000_000)
        self._peers: dict[str, Peer] = {}
        self._good = self._connect(EXTERNAL)

    def _connect(self, listener: str) -> Peer:
        peer = Peer(self.world.network, self.loop, port(1, listener))
        self.world.scheduler.run(
            until_us=self.world.scheduler.now_us + 1_000_000,
            is_done=lambda: peer.stream is not None or peer.is_over,
            events_max=EVENTS_PER_FRAME_MAX,
        )
        if peer.stream is None:
            raise FuzzError(f"the broker no longer accepts connections on {listener}")
        return peer

    def advance(self, delay_us: int) -> None:
        scheduler = self.world.scheduler
        scheduler.run(until_us=scheduler.now_us + delay_us, is_done=lambda: False, events_max=EVENTS_PER_FRAME_MAX)

    def restart(self, delay_us: int) -> None:
        """Starts the broker again after it was killed, and gives it this time."""
        self.world.cluster.start(1)
        self.advance(delay_us)
        self._peers = {}
        self._good = self._connect(EXTERNAL)

    def send(self, listener: str, frame: bytes) -> str:
        """Send a frame. Returns answered, closed or silent."""
        peer = self._peers.get(listener)
        if peer is None or peer.is_over:
            peer = self._peers[listener] = self._connect(listener)
        before = len(peer.received)
        peer.send(frame)
        scheduler = self.world.scheduler
        events = scheduler.events_run
        scheduler.run(
            until_us=scheduler.now_us + ANSWER_LIMIT_US,
            is_done=lambda: len(peer.received) > before or peer.is_over,
            events_max=EVENTS_PER_FRAME_MAX,
        )
        if scheduler.events_run - events >= EVENTS_PER_FRAME_MAX:
            raise FuzzError("the broker spins")
        if peer.is_over:
            return "closed"
        if len(peer.received) > before:
            peer.received.clear()
            return "answered"
        peer.close()
        return "silent"

    def check(self, *, strict: bool) -> bool:
        """False if a handler raised. With `strict` that raises FuzzError, like every other violation."""
        violation = self.world.violation
        if violation is not None and violation.invariant == NoHandlerRaises.NAME and not strict:
            self.world.violation = None
            return False
        if violation is not None:
            raise FuzzError(f"{violation.invariant}: {violation.message}")
        if not self.world.cluster.is_up(1):
            raise FuzzError("the broker ended")
        return True

    def check_others(self) -> None:
        """Check that a connection that was opened at the beginning still gets answers."""
        before = len(self._good.received)
        message = request(ApiKey.API_VERSIONS, 3, client_software_name="f", client_software_version="1")
        self._good.send(b"".join(encode_request(ApiKey.API_VERSIONS, 3, 7, "good", message)))
        self.world.scheduler.run(
            until_us=self.world.scheduler.now_us + 1_000_000,
            is_done=lambda: len(self._good.received) > before,
            events_max=EVENTS_PER_FRAME_MAX,
        )
        if self._good.is_over or len(self._good.received) == before:
            raise FuzzError("a connection that did nothing wrong is no longer served")
        self._good.received.clear()

    def dispose(self) -> None:
        self.world.dispose()
        self.loop.dispose()


def memory_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


@contextmanager
def _time_limit(what: str) -> Iterator[None]:
    def too_late(number: int, frame: FrameType | None) -> None:
        raise FuzzError(f"more than {CPU_LIMIT_S} s of CPU for {what}")

    before = signal.signal(signal.SIGPROF, too_late)
    signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S)  # CPU time: nothing waits here, and a busy host is no defect
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def fuzz_frames(seed: int, count: int, *, strict: bool = False) -> FuzzResult:
    """Raises FuzzError with the command that reproduces the defect."""
    result = FuzzResult()
    for first in range(0, count, FRAMES_PER_BROKER):
        block_seed = seed + first // FRAMES_PER_BROKER
        _fuzz_block(block_seed, min(FRAMES_PER_BROKER, count - first), result, strict=strict)
    return result


def _fuzz_block(seed: int, count: int, result: FuzzResult, *, strict: bool) -> None:
    rng = random.Random(f"fuzz {seed}")
    with virtual_clocks():
        target = Target(seed)
        try:
            baseline = memory_bytes()
            for number in range(count):
                kind, frame = random_frame(rng)
                listener = rng.choice((EXTERNAL, EXTERNAL, INTERNAL, CONTROLLER))
                where = f"block seed {seed}, frame {number}, {kind} to {listener}: {frame[:200].hex()}"
                with _time_limit(where):
                    try:
                        outcome = target.send(listener, frame)
                        result.handler_failures += not target.check(strict=strict)
                        if number % 50 == 0:
                            target.check_others()
                    except FuzzError as error:
                        raise FuzzError(f"{error}\n  {where}") from error
                result.frames += 1
                result.kinds[kind.split(" v")[0]] += 1
                setattr(result, outcome, getattr(result, outcome) + 1)
                growth = memory_bytes() - baseline
                result.memory_growth_bytes = max(result.memory_growth_bytes, growth)
                if growth > MEMORY_GROWTH_MAX_BYTES:
                    raise FuzzError(f"memory has grown by {growth >> 20} MiB\n  {where}")
        finally:
            target.dispose()
    gc.collect()
