"""One running cluster of the benchmark: starts and times it, loads it, reads its brokers' CPU time, stops it.

Knows no other cluster and no result. The load runs in a process of its own (replay.py, load.py or c_client.c).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import c_client, replay
from benchmarks.samples import Engine, Load, Operation, Shape
from harness.clusters.base import ClusterKey
from harness.clusters.factory import build_cluster
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.own_topics import OwnTopics
from harness.errors import EnvironmentFault

LOAD_TIMEOUT_S: Final = 150.0  # load.py gives up after 120 s by itself
HEALTHY_TIMEOUT_S: Final = 60.0
FILES_GONE_TIMEOUT_S: Final = 60.0
# Files of deleted topics go after 100 ms; by default it is a minute, and Apache Kafka begins half a minute after its
# start, by when the disk may be full.
# The same timeouts for both, so that a fail-over waits for the same.
SETTINGS: Final = (
    ("log.initial.task.delay.ms", "1000"),
    ("log.segment.delete.delay.ms", "100"),
    ("broker.session.timeout.ms", "3000"),
    ("broker.heartbeat.interval.ms", "500"),
    ("controller.quorum.election.timeout.ms", "1000"),
    ("controller.quorum.fetch.timeout.ms", "2000"),
    ("replica.lag.time.max.ms", "30000"),  # Apache Kafka's own; the harness's 4 s are for faults
)
FAIL_OVER_TIMEOUT_S: Final = 60.0
ATTEMPT_PAUSE_S: Final = 0.01
PYTHON: Final = (sys.executable, "-m")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    mb_per_s: float
    broker_cpu_s_per_gb: float
    client_cpu_s_per_gb: float


class Subject:
    """Use as a context manager: whatever happens, no broker is left and the logs are removed."""

    def __init__(self, engine: Engine, shape: Shape, directory: Path) -> None:
        self.engine = engine
        self.shape = shape
        self._directory = directory
        key = ClusterKey(engine=engine, proxied=False, brokers=shape.brokers, settings=SETTINGS)
        self._cluster: ProcessCluster = build_cluster(key, directory, proxy_choice="none", lease=None, seed=0)
        self._own = OwnTopics(Admin(self._cluster.direct_addresses))
        self._topics = 0
        self._first_launch_s: float | None = None
        self._cluster.on_process_event = self._note_launch
        self.prepare_s = 0.0
        self.answering_s = 0.0

    def __enter__(self) -> Subject:
        began_s = time.monotonic()
        try:
            self._cluster.start()
        except BaseException:
            self._cluster.stop()
            raise
        assert self._first_launch_s is not None, "a cluster that is up was launched"
        self.prepare_s = self._first_launch_s - began_s
        self.answering_s = time.monotonic() - self._first_launch_s
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.stop()
        self._cluster.remove_data()

    def _note_launch(self, kind: str, broker: int) -> None:
        if self._first_launch_s is None:
            self._first_launch_s = time.monotonic()

    def create_topic(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """A new topic whose replicas are all in sync; `config` beside that of the shape."""
        self._topics += 1
        topic = f"bench-{self._topics}"
        copies = self.shape.brokers
        config = {**self.shape.topic_config, **(config or {})}
        self._own.create(topic, partitions=partitions, replication_factor=copies, config=config)
        if not self._cluster.wait_healthy(topic, timeout_s=HEALTHY_TIMEOUT_S, replication_factor=copies):
            raise EnvironmentFault(f"{self.engine}: {topic} had no full ISR within {HEALTHY_TIMEOUT_S:.0f} s")
        return topic

    def delete_topic(self, topic: str) -> None:
        """Returns when every broker has removed the files, so that the removal burdens no other load."""
        self._own.delete(topic)
        deadline_s = time.monotonic() + FILES_GONE_TIMEOUT_S
        while self._has_files(topic):
            if time.monotonic() > deadline_s:
                raise EnvironmentFault(f"{self.engine}: files of deleted {topic} stay on disk")
            time.sleep(0.05)

    def back_memory(self, load_bytes: int) -> None:
        back_memory(self._directory, self.shape.brokers * load_bytes)

    def load(self, load: Load, operation: Operation, topic: str, load_bytes: int, batch_bytes: int) -> Measured:
        bootstrap = self._cluster.bootstrap_servers
        if load.program == "replay":
            options = [bootstrap, topic, "--bytes", str(load_bytes), "--batch-bytes", str(batch_bytes)]
            options += ["--acks", self.shape.acks, "--codec", load.codec, "--record-bytes", str(load.record_bytes)]
            options += ["--connections", str(load.connections), "--window", str(load.window)]
            command = ["benchmarks.replay", operation, *options]
            if load.partitions > 1:
                self._run(["benchmarks.replay", "prime", *options], "first write to each partition")
        else:
            command = [operation, bootstrap, topic, str(load_bytes), str(batch_bytes), self.shape.acks]
            command = command if load.program == "c" else ["benchmarks.load", *command]
        program = [c_client.client(self._directory)] if load.program == "c" else PYTHON
        before_s = self.cpu_s()
        answer = self._run(command, f"{operation} load", program)
        broker_cpu_s = self.cpu_s() - before_s
        return Measured(
            mb_per_s=answer["mb_per_s"],
            broker_cpu_s_per_gb=round(broker_cpu_s / (load_bytes / 1e9), 3),
            client_cpu_s_per_gb=round(answer["cpu_s"] / (load_bytes / 1e9), 3),
        )

    def latency(self, topic: str, *, rate: int, seconds: float) -> dict[str, float]:
        """Of acknowledgements at `rate` records a second; see latency.py."""
        command = ["benchmarks.latency", self._cluster.bootstrap_servers, topic, "--rate", str(rate)]
        command += ["--seconds", str(seconds), "--acks", self.shape.acks]
        found: dict[str, float] = self._run(command, "latency load")
        return found

    def _run(self, command: list[str], what: str, program: Sequence[str] = PYTHON) -> Any:  # what it prints as JSON
        done = subprocess.run(
            [*program, *command],
            capture_output=True,
            text=True,
            timeout=LOAD_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            raise EnvironmentFault(f"{self.engine}: {what} failed: {done.stderr.strip().splitlines()[-1:]}")
        return json.loads(done.stdout.splitlines()[-1])

    def fail_over_s(self) -> float:
        """From just before SIGKILL of a leader that is not the controller's to the first acknowledged write; then the
        broker is back and in sync."""
        topic = self._topic_led_apart_from_the_controller()
        leader = self._cluster.leader(topic, 0)
        assert leader is not None, "a topic with a full ISR has a leader"
        others = [str(address) for broker, address in self._cluster.broker_addresses().items() if broker != leader]
        began_s = time.monotonic()
        self._cluster.kill(leader)
        attempt = 0
        while not replay.can_write(others[attempt % len(others)], topic):
            attempt += 1
            if time.monotonic() - began_s > FAIL_OVER_TIMEOUT_S:
                raise EnvironmentFault(f"{self.engine}: no write to {topic} within {FAIL_OVER_TIMEOUT_S:.0f} s")
            time.sleep(ATTEMPT_PAUSE_S)
        seconds = time.monotonic() - began_s
        self._cluster.restart(leader)
        if not self._cluster.wait_healthy(topic, timeout_s=HEALTHY_TIMEOUT_S, replication_factor=self.shape.brokers):
            raise EnvironmentFault(f"{self.engine}: broker {leader} did not come back into the ISR")
        self.delete_topic(topic)
        return seconds

    def _topic_led_apart_from_the_controller(self) -> str:
        for _ in range(4 * self.shape.brokers):
            topic = self.create_topic()
            if self._cluster.leader(topic, 0) != self._cluster.controller():
                return topic
            self.delete_topic(topic)
        raise EnvironmentFault(f"{self.engine}: the controller led each of {4 * self.shape.brokers} new topics")

    def cpu_s(self) -> float:
        """User and system time of all broker processes since they started, to 10 ms each."""
        pids = self._cluster.pids()
        if len(pids) != self.shape.brokers:
            raise EnvironmentFault(f"{self.engine}: expected {self.shape.brokers} brokers running, got {len(pids)}")
        return sum(cpu_s(pid) for pid in pids.values())

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def only_pid(self) -> int:
        """Of a cluster of one broker."""
        (pid,) = self._cluster.pids().values()
        return pid

    def _has_files(self, topic: str) -> bool:
        # Apache Kafka renames a directory to TOPIC-PARTITION.ID-delete until it removes it.
        return any(
            path.name.startswith(f"{topic}-")
            for node in self._cluster.layout.nodes
            for directory in node.storage.log_directories
            for path in directory.iterdir()
        )


def cpu_s(pid: int) -> float:
    """User and system time of all threads of a process, to 10 ms."""
    # The command name in parentheses may hold spaces: fields are counted after the last parenthesis.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def back_memory(directory: Path, size_bytes: int) -> None:
    """Have the host back as much memory as the copies of a load take in the page cache, and leave it free.

    A virtual machine gives free pages back to its host; the first write to such a page costs ten times that to
    another, whoever's it is (measured: 0.4 against 4 GB/s). Both engines would pay it at random.
    """
    path, chunk = directory / "backing", bytes(1 << 20)
    with path.open("wb", buffering=0) as file:
        for _ in range(size_bytes // len(chunk) + 1):
            file.write(chunk)
    path.unlink()
