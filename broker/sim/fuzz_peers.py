"""`python -m broker.sim.fuzz_peers --requests 1000000`: valid requests at extremes against real broker processes.

Watched: the process lives, no request takes more than STALL_MS of its processor time (a busy host changes nothing of
that; while it takes them, nobody else is served), its memory stays within MEMORY_MAX_BYTES, nothing in its log says
that a handler raised, other connections are answered, it stops cleanly and starts again with what was written. One
block is one life of a broker, or of a cluster of three (every fourth block: what is forwarded counts there too).
A block is made from its number alone: --block N runs it again, --state FILE goes on where the last call stopped. Of a
death the last requests are sent again to new brokers until few are left that show it.
Shown by tests/broker_sim/test_sim_fuzz_peers.py.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.sim.fuzz_extremes import World, extreme_frame
from broker.wire.apis import ApiKey, Listener
from broker.wire.codec import decode_response, encode_request
from broker.wire.messages import request

REQUESTS_PER_BLOCK = 10_000  # then new brokers: what requests made piles up
CLUSTER_EVERY = 4  # blocks
STALL_MS = 250  # of the broker's processor time
ANSWER_S = 0.15  # a long poll or acks=0 has none; then the connection is closed, and the next one is taken
BIG_ANSWER_S = 10.0
START_S = 90.0  # a busy host starts a broker slowly
PROBE_EVERY = 200  # requests
KEPT = 32  # requests before a defect that are tried again
MIB = 1 << 20
# The limits that a broker of this test is given, and what it may grow by beyond them.
REQUEST_BYTES_MAX, ARRIVING_BYTES_MAX, FETCH_BYTES_MAX = 8 * MIB, 32 * MIB, 4 * MIB
MEMORY_MAX_BYTES = ARRIVING_BYTES_MAX + 2 * FETCH_BYTES_MAX + 64 * MIB
_LISTENERS = {Listener.CLIENT: "EXTERNAL", Listener.INTER_BROKER: "INTERNAL", Listener.CONTROLLER: "CONTROLLER"}
_DEFECT = re.compile(r"handler_failed|coordinator_answer_failed|coordinator_event_failed|Traceback|never retrieved")


class PeerFuzzError(Exception):
    """A broker did what it must not."""


@dataclass(slots=True)
class Sent:
    """One request; what it came to is known afterwards."""

    kind: str
    broker: int
    listener: Listener
    frame: bytes
    is_big: bool


@dataclass(slots=True)
class Found:
    requests: int = 0
    answered: int = 0
    closed: int = 0
    silent: int = 0
    stall_ms_max: float = 0.0
    memory_growth_max: int = 0
    defects: Counter[str] = field(default_factory=Counter)
    kinds: set[str] = field(default_factory=set)

    def add(self, other: Found) -> None:
        self.requests += other.requests
        self.answered, self.closed, self.silent = (
            self.answered + other.answered,
            self.closed + other.closed,
            self.silent + other.silent,
        )
        self.stall_ms_max = max(self.stall_ms_max, other.stall_ms_max)
        self.memory_growth_max = max(self.memory_growth_max, other.memory_growth_max)
        self.defects += other.defects
        self.kinds |= other.kinds


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Brokers:
    """Real processes in a directory of their own."""

    def __init__(self, directory: Path, count: int) -> None:
        self._directory, self.ids = directory, tuple(range(1, count + 1))
        names = tuple(_LISTENERS.values())
        ports = _free_ports(len(names) * count)
        self._ports = {each: dict(zip(names, ports[3 * (each - 1) :], strict=False)) for each in self.ids}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._baseline: dict[int, int] = {}
        self._sockets: dict[tuple[int, Listener], socket.socket] = {}
        self._read_of_log: dict[int, int] = dict.fromkeys(self.ids, 0)

    def start(self) -> None:
        voters = ",".join(f"{each}@127.0.0.1:{ports['CONTROLLER']}" for each, ports in self._ports.items())
        for each, ports in self._ports.items():
            settings: dict[str, object] = {
                "node.id": each,
                "process.roles": "broker,controller",
                "controller.quorum.voters": voters,
                "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
                "inter.broker.listener.name": "INTERNAL",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": self._directory / f"broker-{each}",
                "harness.cluster.id": "fuzz",
                "default.replication.factor": len(self.ids),
                "offsets.topic.num.partitions": 3,
                "transaction.state.log.num.partitions": 3,
                "socket.request.max.bytes": REQUEST_BYTES_MAX,
                "queued.max.request.bytes": ARRIVING_BYTES_MAX,
                "fetch.max.bytes": FETCH_BYTES_MAX,
            }
            path = self._directory / f"broker-{each}.properties"
            path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            with self._log(each).open("ab") as log:
                command = [sys.executable, "-X", "faulthandler", "-m", "broker.node", str(path)]
                self._processes[each] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for each in self.ids:
            self._wait_until_ready(each)

    def _wait_until_ready(self, broker: int) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            self.check_alive()
            try:
                answer = self.ask(broker, ApiKey.METADATA, 9, topics=())
                if len(answer.brokers) == len(self.ids):
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise PeerFuzzError(f"broker {broker} was not ready within {START_S:g} s")

    def set_up(self) -> World:
        configs = {"plain": {}, "compacted": {"cleanup.policy": "compact"}}
        configs["stamped"] = {"message.timestamp.type": "LogAppendTime"}
        wanted = [
            {
                "name": name,
                "num_partitions": 2,
                "replication_factor": -1,
                "assignments": [],
                "configs": [{"name": key, "value": value} for key, value in overrides.items()],
            }
            for name, overrides in configs.items()
        ]
        self.ask(1, ApiKey.CREATE_TOPICS, 7, topics=wanted, timeout=10_000, validate_only=False)
        described = self.ask(1, ApiKey.METADATA, 12, topics=None)
        self.note_memory()
        return World(topic_ids=[each.topic_id for each in described.topics], brokers=len(self.ids))

    def note_memory(self) -> None:
        self._baseline = {each: self._resident_bytes(each) for each in self.ids}

    # -- talking

    def ask(self, broker: int, api_key: int, version: int, **values: object) -> Any:  # Any: kio's message
        frame = b"".join(encode_request(api_key, version, 1, "probe", request(api_key, version, **values)))
        with socket.create_connection(("127.0.0.1", self._ports[broker]["INTERNAL"]), timeout=START_S) as connection:
            connection.sendall(frame)
            return decode_response(api_key, version, _read_frame(connection, START_S))[1]

    def probe(self, broker: int) -> None:
        """A connection of its own is answered. A broker that is stuck says where, by its last breath."""
        try:
            self.ask(broker, ApiKey.API_VERSIONS, 0)
        except OSError as error:
            self.check_alive()
            self._processes[broker].send_signal(signal.SIGABRT)  # has faulthandler write the stack
            self._processes[broker].wait(START_S)
            tail = self._log(broker).read_text(errors="replace")[-3_000:]
            raise PeerFuzzError(f"broker {broker} answers nobody any more ({error!r}):\n{tail}") from error

    def send(self, sent: Sent, *, probes: Callable[[], None] | None = None) -> str:
        """answered, closed or silent; on a connection that is used again when it was answered. `probes` is called when
        the request is on its way and its answer is not awaited yet."""
        key = (sent.broker, sent.listener)
        try:
            connection = self._sockets.get(key)
            if connection is None:
                address = ("127.0.0.1", self._ports[sent.broker][_LISTENERS[sent.listener]])
                connection = self._sockets[key] = socket.create_connection(address, timeout=START_S)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(START_S)
            connection.sendall(sent.frame)
            if probes is not None:
                probes()
            _read_frame(connection, BIG_ANSWER_S if sent.is_big else ANSWER_S)
        except TimeoutError:
            self._forget(key)
            return "silent"
        except OSError:
            self._forget(key)
            return "closed"
        return "answered"

    def _forget(self, key: tuple[int, Listener]) -> None:
        connection = self._sockets.pop(key, None)
        if connection is not None:
            connection.close()

    # -- watching

    def check_alive(self) -> None:
        for each, process in self._processes.items():
            if process.poll() is not None:
                tail = self._log(each).read_text(errors="replace")[-3_000:]
                raise PeerFuzzError(f"broker {each} ended with {process.returncode}:\n{tail}")

    def cpu_ns(self, broker: int) -> int:
        """Time that its event loop (the main thread) has had the processor."""
        return int(Path(f"/proc/{self._processes[broker].pid}/schedstat").read_text().split()[0])

    def _resident_bytes(self, broker: int) -> int:
        return int(Path(f"/proc/{self._processes[broker].pid}/statm").read_text().split()[1]) * 4096

    def memory_growth(self) -> int:
        return max(self._resident_bytes(each) - self._baseline[each] for each in self.ids)

    def defects(self) -> list[str]:
        """New lines of the logs that say so."""
        found: list[str] = []
        for each in self.ids:
            with self._log(each).open("rb") as log:
                log.seek(self._read_of_log[each])
                text = log.read()
            whole = text.rfind(b"\n") + 1
            self._read_of_log[each] += whole
            found += [line for line in text[:whole].decode(errors="replace").splitlines() if _DEFECT.search(line)]
        return found

    def _log(self, broker: int) -> Path:
        return self._directory / f"broker-{broker}.log"

    def stop(self) -> None:
        """Cleanly; whatever the log then says is a defect."""
        for connection in self._sockets.values():
            connection.close()
        self._sockets.clear()
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        try:
            codes = [process.wait(START_S) for process in self._processes.values()]
        except subprocess.TimeoutExpired as error:
            raise PeerFuzzError(f"a broker did not end within {START_S:g} s of SIGTERM") from error
        self._processes.clear()
        if any(codes):
            raise PeerFuzzError(f"after SIGTERM the brokers ended with {codes}")

    def signal(self, broker: int, number: int) -> None:
        self._processes[broker].send_signal(number)
        if number == signal.SIGKILL:
            self._processes[broker].wait(START_S)

    def kill(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(START_S)
        for connection in self._sockets.values():
            connection.close()


def _read_frame(connection: socket.socket, timeout_s: float) -> bytes:
    deadline = time.monotonic() + timeout_s
    data = bytearray()
    size = 4
    while len(data) < size:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([connection], [], [], left_s)[0]:
            raise TimeoutError
        piece = connection.recv(1 << 20)
        if not piece:
            raise ConnectionError("closed")
        data += piece
        if size == 4 and len(data) >= 4:
            size = 4 + int.from_bytes(data[:4], "big")
    return bytes(data[4:])


def run_block(block: int, count: int) -> Found:
    """Raises PeerFuzzError with what to run to see it again."""
    rng, found = random.Random(f"peers {block}"), Found()
    is_cluster = block % CLUSTER_EVERY == 0
    recent: deque[Sent] = deque(maxlen=KEPT)
    with tempfile.TemporaryDirectory(prefix="fuzz-peers-") as directory:
        brokers = Brokers(Path(directory), 3 if is_cluster else 1)
        try:
            brokers.start()
            world = brokers.set_up()
            for number in range(count):
                kind, listener, frame, is_big = extreme_frame(world, rng)
                sent = Sent(kind, rng.choice(brokers.ids), listener, frame, is_big)
                recent.append(sent)
                _send_and_look(brokers, sent, found, number)
            brokers.check_alive()
            brokers.stop()
            brokers.start()  # what was written can be read
            brokers.stop()
            for line in brokers.defects():
                found.defects[_short(line)] += 1
        except PeerFuzzError as error:
            brokers.kill()
            shown = _fewer(list(recent), len(brokers.ids))
            lines = [f"  {each.kind} to {each.listener.value}: {each.frame[:300].hex()}" for each in shown]
            raise PeerFuzzError(f"block {block}, request {found.requests}: {error}\n" + "\n".join(lines)) from error
        finally:
            brokers.kill()
    return found


def _send_and_look(brokers: Brokers, sent: Sent, found: Found, number: int) -> None:
    before_ns = brokers.cpu_ns(sent.broker)
    after_ns: list[int] = []

    def others_are_served() -> None:  # in between, if the work is done in turns
        brokers.probe(sent.broker)
        after_ns.append(brokers.cpu_ns(sent.broker))

    outcome = brokers.send(sent, probes=others_are_served if sent.is_big else None)
    busy_ms = ((after_ns or [brokers.cpu_ns(sent.broker)])[0] - before_ns) / 1e6
    look_at(found, sent, outcome, busy_ms=busy_ms)
    if outcome == "closed" or number % PROBE_EVERY == 0:
        brokers.check_alive()
    if number % PROBE_EVERY == 0 or sent.is_big:
        growth = brokers.memory_growth()
        if growth > max(MEMORY_MAX_BYTES, found.memory_growth_max):
            found.defects[f"memory: {growth >> 20} MiB at {sent.kind}"] += 1
        found.memory_growth_max = max(found.memory_growth_max, growth)
    if number % PROBE_EVERY == 0:
        for each in brokers.ids:
            brokers.probe(each)
        for line in brokers.defects():
            found.defects[_short(line)] += 1


def look_at(found: Found, sent: Sent, outcome: str, *, busy_ms: float) -> None:
    found.requests += 1
    found.kinds.add(sent.kind)
    setattr(found, outcome, getattr(found, outcome) + 1)
    if outcome != "silent" or sent.is_big:
        found.stall_ms_max = max(found.stall_ms_max, busy_ms)
        if busy_ms > STALL_MS:
            found.defects[f"stall: {sent.kind} of {len(sent.frame)} bytes, {busy_ms:.0f} ms"] += 1


def _short(line: str) -> str:
    """A defect without what differs from time to time."""
    names = re.findall(r"(api_key=\S+|topic=\S+)", line)
    causes = re.findall(r"(\w+(?:Error|Exception): .{0,160})", line)
    places = re.findall(r"broker/(\S+?)\\?\", line (\d+)", line)
    where = f" at {places[-1][0]}:{places[-1][1]}" if places else ""
    return f"{names[0] if names else ''} {causes[-1] if causes else line[-200:]}{where}"


def _fewer(tail: list[Sent], brokers: int) -> list[Sent]:
    """The smallest end of these requests that ends new brokers too; all of them when none does."""
    size = 1
    while size < len(tail):
        if _ends(tail[-size:], brokers):
            return tail[-size:]
        size *= 2
    return tail


def _ends(requests: Sequence[Sent], count: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="fuzz-peers-") as directory:
        brokers = Brokers(Path(directory), count)
        try:
            brokers.start()
            brokers.set_up()
            for each in requests:
                brokers.send(each)
                if each.is_big:
                    brokers.probe(each.broker)
            brokers.stop()
            brokers.start()
        except PeerFuzzError:
            return True
        finally:
            brokers.kill()
    return False


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m broker.sim.fuzz_peers", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--first-block", type=int, default=1)
    parser.add_argument("--block", type=int, help="only this one")
    parser.add_argument("--per-block", type=int, default=REQUESTS_PER_BLOCK)
    parser.add_argument("--state", type=Path, help="remember here which blocks are done, and go on from there")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="begin no block after this time")
    options = parser.parse_args(arguments)
    blocks = max(1, -(-options.requests // options.per_block))
    numbers = [options.block] if options.block else list(range(options.first_block, options.first_block + blocks))
    done: dict[str, dict[str, Any]] = {}
    if options.state is not None and options.state.exists():
        done = json.loads(options.state.read_text())
    began, total, failed = time.monotonic(), Found(), 0
    for number in numbers:
        if str(number) in done or time.monotonic() - began > options.budget_s:
            continue
        try:
            found = run_block(number, options.per_block)
        except PeerFuzzError as error:
            print(error, flush=True)
            failed += 1
            continue
        total.add(found)
        for what, times in found.defects.most_common():
            print(f"block {number}: {times} x {what}", flush=True)
        done[str(number)] = {
            "requests": found.requests,
            "stall_ms": round(found.stall_ms_max),
            "memory_mib": found.memory_growth_max >> 20,
            "defects": sum(found.defects.values()),
        }
        if options.state is not None:
            temporary = options.state.with_suffix(".tmp")
            temporary.write_text(json.dumps(done))
            os.replace(temporary, options.state)
        print(_summary(total, failed), flush=True)
    return 1 if failed or total.defects else 0


def _summary(found: Found, failed: int) -> str:
    return (
        f"{found.requests} requests of {len(found.kinds)} APIs and versions: {found.answered} answered, {found.closed} "
        f"closed, {found.silent} without an answer; {failed} blocks ended by a death, {sum(found.defects.values())} "
        f"defects; {found.stall_ms_max:.0f} ms of the processor at most, memory grew by "
        f"{found.memory_growth_max >> 20} MiB at most"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
