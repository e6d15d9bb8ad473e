"""The brokers of `broker.sim.fuzz_peers`: real processes in a directory of their own, with connections to them.

Owns: their start, stop and limits, and the connections to them. Watches the processor time of the event loop, the
memory, and log lines that name an exception. It does not know what is sent. Shown by
tests/broker_sim/test_sim_fuzz_peers.py.
"""

from __future__ import annotations

import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.sim.fuzz_extremes import World
from broker.wire.apis import ApiKey, Listener
from broker.wire.codec import decode_response, encode_request
from broker.wire.messages import build, request_type

ANSWER_S = 0.15  # a long poll or acks=0 gets no answer; then a new connection is used
BIG_ANSWER_S = 10.0
START_S = 90.0  # a busy host starts a broker slowly
MIB = 1 << 20
# Limits of a broker in this test, and how much its memory may grow beyond them.
REQUEST_BYTES_MAX, ARRIVING_BYTES_MAX, FETCH_BYTES_MAX = 8 * MIB, 32 * MIB, 4 * MIB
UNREAD_BYTES_MAX = 2 * FETCH_BYTES_MAX
MEMORY_MAX_BYTES = ARRIVING_BYTES_MAX + UNREAD_BYTES_MAX + 64 * MIB
# Below the ports that the system assigns to outgoing connections, because other blocks run at the same time.
PORTS = range(10_000, 32_000)
_LISTENERS = {Listener.CLIENT: "EXTERNAL", Listener.INTER_BROKER: "INTERNAL", Listener.CONTROLLER: "CONTROLLER"}
_DEFECT = re.compile(r"handler_failed|coordinator_answer_failed|coordinator_event_failed|Traceback|never retrieved")


class PeerFuzzError(Exception):
    """A broker did something that it must not do."""


@dataclass(slots=True)
class Sent:
    """One request. Its result is known afterwards."""

    kind: str
    broker: int
    listener: Listener
    frame: bytes
    is_big: bool


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise PeerFuzzError(f"no {count} ports are free from {PORTS.start} to {PORTS.stop}")


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
        self._times: dict[int, int] = {}  # open files with the processor time of each broker

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
                "harness.unread.answer.bytes": UNREAD_BYTES_MAX,
            }
            path = self._directory / f"broker-{each}.properties"
            path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            with self._log(each).open("ab") as log:
                command = [sys.executable, "-X", "faulthandler", "-m", "broker.node", str(path)]
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self._processes[each] = process
            self._times[each] = os.open(f"/proc/{process.pid}/schedstat", os.O_RDONLY)
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
        frame = b"".join(encode_request(api_key, version, 1, "probe", build(request_type(api_key, version), values)))
        with socket.create_connection(("127.0.0.1", self._ports[broker]["INTERNAL"]), timeout=START_S) as connection:
            connection.sendall(frame)
            return decode_response(api_key, version, _read_frame(connection))[1]

    def probe(self, broker: int) -> None:
        """Check that a new connection gets an answer. If the broker is stuck, it is ended, so that its log says
        where."""
        try:
            self.ask(broker, ApiKey.API_VERSIONS, 0)
        except OSError as error:
            self.check_alive()
            self._processes[broker].send_signal(signal.SIGABRT)  # makes faulthandler write the stack
            self._processes[broker].wait(START_S)
            tail = self._log(broker).read_text(errors="replace")[-3_000:]
            raise PeerFuzzError(f"broker {broker} answers nobody any more ({error!r}):\n{tail}") from error

    def send(self, sent: Sent, *, probes: Callable[[], None] | None = None) -> str:
        """Send a request. Returns answered, closed or silent. After an answer the connection is used again. `probes` is
        called when the request has been sent, before its answer is awaited."""
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
            if not _is_readable(connection, BIG_ANSWER_S if sent.is_big else ANSWER_S):
                self.probe(sent.broker)  # on a busy host: what it has answered by now is an answer too
                if not _is_readable(connection, 0):
                    raise TimeoutError
            _read_frame(connection)
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
        """Processor time of its event loop (the main thread)."""
        return int(os.pread(self._times[broker], 100, 0).split()[0])

    def _resident_bytes(self, broker: int) -> int:
        return int(Path(f"/proc/{self._processes[broker].pid}/statm").read_text().split()[1]) * 4096

    def memory_growth(self) -> int:
        return max(self._resident_bytes(each) - self._baseline[each] for each in self.ids)

    def defects(self) -> list[str]:
        """New lines of the logs that report a defect."""
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
        """Stop cleanly. Whatever the log says then is a defect."""
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
        self._close_times()
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
        self._close_times()
        for connection in self._sockets.values():
            connection.close()

    def _close_times(self) -> None:
        for descriptor in self._times.values():
            os.close(descriptor)
        self._times.clear()


def _is_readable(connection: socket.socket, timeout_s: float) -> bool:
    poll = select.poll()  # select() ends at descriptor 1,024
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(timeout_s * 1_000))


def _read_frame(connection: socket.socket) -> bytes:
    deadline = time.monotonic() + START_S
    data = bytearray()
    size = 4
    while len(data) < size:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not _is_readable(connection, left_s):
            raise TimeoutError
        piece = connection.recv(1 << 20)
        if not piece:
            raise ConnectionError("closed")
        data += piece
        if size == 4 and len(data) >= 4:
            size = 4 + int.from_bytes(data[:4], "big")
    return bytes(data[4:])
