"""A hub and load hosts as `harness` starts them, and a link with a delay, jitter and a cut between them."""

from __future__ import annotations

import json
import os
import queue
import random
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.patience import Patience, wait_until
from workloads.hosts.keys import LinkKey, new_keys

VERSION = "test-1"
Event = dict[str, Any]
WAIT_S = 120.0  # without any change: a load host looks for what it may remove once a minute


class Part:
    """`python -m workloads --hub` or `--agent`, its JSON lines in and out."""

    def __init__(
        self,
        mode: str,
        config: Event,
        stderr: Path,
        prefix: Sequence[str] = (),
        code: Sequence[str] = ("-m", "workloads"),
    ) -> None:
        self._stderr_path = stderr
        with stderr.open("ab") as file:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, *code, mode],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True, cwd=os.getcwd(),
            )  # fmt: skip
        self._lines: queue.Queue[Event | None] = queue.Queue()
        self.told: list[Event] = []
        threading.Thread(target=self._read, daemon=True).start()
        self.say(config)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def say(self, document: Event) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(document) + "\n")
        self.process.stdin.flush()

    def next(self) -> Event:
        patience = Patience(f"a line after {self.told[-3:]}", WAIT_S)
        while True:
            try:
                found = self._lines.get(timeout=0.5)
                break
            except queue.Empty:
                patience.check()
        assert found is not None, f"{self.told[-3:]}\n{self._stderr_path.read_text()[-3000:]}"
        self.told.append(found)
        return found

    def next_of(self, event: str) -> Event:
        patience = Patience(f"the event {event}", WAIT_S)
        while (found := self.next()).get("event") != event:
            assert found.get("event") != "error", found
            patience.check(len(self.told))
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=60)

    def close(self) -> None:
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()


class Hub(Part):
    def __init__(
        self,
        directory: Path,
        key: LinkKey,
        port: int,
        *,
        host: str = "127.0.0.1",
        prefix: Sequence[str] = (),
        **more: Any,
    ) -> None:
        self.t0_ns = time.monotonic_ns()
        self.run_dir = directory / "run"
        self.run_dir.mkdir(parents=True, exist_ok=True)
        config = {
            "listen_host": host, "listen_port": port, "key": key.document(), "version": VERSION, "run_id": "run-1",
            "t0_monotonic_ns": self.t0_ns, **more,
        }  # fmt: skip
        super().__init__("--hub", config, directory / "hub.stderr", prefix)
        assert self.next() == {"event": "ready"}

    def hosts(self) -> Event:
        self.say({"do": "hosts"})
        return self.next_of("hosts")

    def wait_hosts(self, count: int) -> list[Event]:
        found: list[Event] = []

        def are_there() -> bool:
            found[:] = self.hosts()["hosts"]
            return len(found) == count

        wait_until(are_there, f"{count} load hosts")
        return found

    def begin(self, workload: Event, addresses: str, topic: str, *, cell_id: str = "c1", **more: Any) -> None:
        (self.run_dir / "cells" / cell_id).mkdir(parents=True)
        plan = {
            "run_dir": str(self.run_dir), "cell_id": cell_id, "t0_monotonic_ns": self.t0_ns, "client": "reference",
            "bootstrap_servers": addresses, "topic": topic, "partitions": 4, "seed": 5,
            "properties": {"acks": "all", "linger.ms": "2"}, "workload": workload, **more,
        }  # fmt: skip
        self.say({"do": "cell", "plan": plan})

    def wait_phase(self, phase: str) -> Event:
        while True:
            found = self.next_of("phase")
            if found["phase"] == phase:
                return found

    def finish(self) -> list[Event]:
        """What became of the load hosts' shares; `done` is in `told`."""
        while (found := self.next_of("hosts")).get("is_beginning"):
            pass
        hosts: list[Event] = found["hosts"]
        return hosts


class Agent(Part):
    def __init__(
        self, directory: Path, key: LinkKey, port: int, name: str, *, host: str = "127.0.0.1",
        prefix: Sequence[str] = (), code: Sequence[str] = ("-m", "workloads"), **more: Any,
    ) -> None:  # fmt: skip
        config = {
            "master_host": host, "master_port": port, "key": key.document(), "name": name, "version": VERSION,
            "spool": str(directory / f"spool-{name}"), "runtimes": {"reference": {}}, **more,
        }  # fmt: skip
        super().__init__("--agent", config, directory / f"{name}.stderr", prefix, code)


class Link:
    """A TCP relay with a delay and jitter in each direction, in order; `cut` holds everything back for a while."""

    def __init__(
        self, target: tuple[str, int], *, there_ms: float, back_ms: float, jitter_ms: float, host: str = "127.0.0.1"
    ) -> None:
        self._target, self._delays = target, (there_ms, back_ms)
        self._jitter_ms, self._rng = jitter_ms, random.Random(7)
        self._server = socket.create_server((host, 0))
        self.port = int(self._server.getsockname()[1])
        self._cut_until_s = 0.0
        self._is_over = False
        self._held: dict[socket.socket, deque[tuple[float, bytes]]] = {}
        self._peer: dict[socket.socket, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self, seconds: float) -> None:
        self._cut_until_s = time.monotonic() + seconds

    def _run(self) -> None:
        while not self._is_over:
            for key, _ in self._selector.select(0.002):
                if key.fileobj is self._server:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket):
                    self._read(key.fileobj, float(key.data))
            self._deliver()

    def _accept(self) -> None:
        near, _ = self._server.accept()
        try:
            far = socket.create_connection(self._target, timeout=10)
        except OSError:
            near.close()
            return
        for one, other, delay_ms in ((near, far, self._delays[0]), (far, near, self._delays[1])):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._peer[one], self._held[other] = other, deque()
            self._selector.register(one, selectors.EVENT_READ, delay_ms)

    def _read(self, one: socket.socket, delay_ms: float) -> None:
        try:
            data = one.recv(1 << 18)
        except OSError:
            data = b""
        if not data:
            self._close(one)
            return
        held = self._held[self._peer[one]]
        due_s = time.monotonic() + (delay_ms + self._rng.uniform(0, self._jitter_ms)) / 1e3
        held.append((max(due_s, held[-1][0]) if held else due_s, data))

    def _deliver(self) -> None:
        now_s = time.monotonic()
        if now_s < self._cut_until_s:
            return
        for one, held in list(self._held.items()):
            while held and held[0][0] <= now_s and one in self._held:
                try:
                    one.setblocking(True)
                    one.sendall(held.popleft()[1])
                except OSError:
                    self._close(one)

    def _close(self, one: socket.socket) -> None:
        for each in (one, self._peer.get(one)):
            if each is not None and each in self._peer:
                self._selector.unregister(each)
                del self._peer[each]
                self._held.pop(each, None)
                each.close()

    def close(self) -> None:
        self._is_over = True
        self._thread.join(timeout=60)
        self._server.close()


def keys() -> tuple[LinkKey, LinkKey]:
    return new_keys()
