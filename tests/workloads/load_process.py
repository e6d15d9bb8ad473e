"""A load process as the harness drives it: its plan, its events, its rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runlog.streams.parquet import read_stream

TOPIC = "load"
PARTITIONS = 4
Event = dict[str, Any]


class Load:
    """A load process, its plan and the events it told."""

    def __init__(
        self,
        run_dir: Path,
        addresses: str,
        workload: Event,
        properties: Event | None = None,
        *,
        client: str = "confluent",
        topic: str = TOPIC,
        **plan_fields: Any,
    ) -> None:
        self.run_dir = run_dir
        self.process = subprocess.Popen(
            [sys.executable, "-m", "workloads"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=os.getcwd(),
        )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdout = self.process.stdout
        assert json.loads(self._stdout.readline()) == {"event": "ready"}
        self.t0_ns = time.monotonic_ns()
        linger = {} if client == "kafkajs" else {"linger.ms": 2}  # that client has none
        plan = {
            "run_dir": str(run_dir), "cell_id": "c1", "t0_monotonic_ns": self.t0_ns, "client": client,
            "bootstrap_servers": addresses, "topic": topic, "partitions": PARTITIONS, "seed": 5,
            "properties": {"acks": "all", **linger, **(properties or {})}, "workload": workload,
            **plan_fields,
        }  # fmt: skip
        self.process.stdin.write(json.dumps(plan) + "\n")
        self.process.stdin.flush()
        self.events: list[Event] = []

    def wait_phase(self, phase: str) -> None:
        for line in self._stdout:
            self.events.append(json.loads(line))
            if self.events[-1].get("phase") == phase:
                return
        raise AssertionError(f"no phase {phase}: {self.events[-3:]}")

    def wait_progress(self, is_far: Callable[[Event], bool]) -> None:
        for line in self._stdout:
            self.events.append(json.loads(line))
            if self.events[-1]["event"] == "progress" and is_far(self.events[-1]["progress"]):
                return
        raise AssertionError(f"it never got so far: {self.events[-3:]}")

    def finish(self, timeout_s: float = 60) -> int:
        """Read the rest of its events and return its exit code."""
        self.events.extend(json.loads(line) for line in self._stdout)
        code = self.process.wait(timeout=timeout_s)
        self.close()
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=60)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._stdout.close()

    def phase_us(self, phase: str) -> int:
        (start,) = [event["t_us"] for event in self.events if event.get("phase") == phase]
        assert isinstance(start, int)
        return start

    @property
    def done(self) -> Event:
        (done,) = [event for event in self.events if event["event"] == "done"]
        return done

    def rows(self, stream: str) -> list[Event]:
        rows: list[Event] = read_stream(self.run_dir, stream, "c1").to_pylist()
        return rows
