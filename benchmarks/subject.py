"""One running cluster as the benchmark sees it: started and timed, loaded, its brokers' CPU time read, stopped.

Knows no other cluster and no result. The load runs in a process of its own (load.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.samples import Engine, Operation, Shape
from harness.clusters.admin import Admin
from harness.clusters.base import ClusterKey
from harness.clusters.factory import build_cluster
from harness.clusters.process_cluster import ProcessCluster
from harness.errors import EnvironmentFault

LOAD: Final = "benchmarks.load"
LOAD_TIMEOUT_S: Final = 150.0  # load.py gives up after 120 s by itself
HEALTHY_TIMEOUT_S: Final = 30.0
FILES_GONE_TIMEOUT_S: Final = 40.0
# Files of deleted topics go after a second; by default it is a minute, and Apache Kafka begins half a minute after its
# start, by when the disk may be full.
SETTINGS: Final = (("log.initial.task.delay.ms", "1000"), ("log.segment.delete.delay.ms", "1000"))
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
        key = ClusterKey(engine=engine, proxied=False, brokers=shape.brokers, settings=SETTINGS)
        self._cluster: ProcessCluster = build_cluster(key, directory, proxy_choice="none", lease=None, seed=0)
        self._admin = Admin(self._cluster.direct_addresses)
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

    def create_topic(self) -> str:
        """A new topic of one partition whose replicas are all in sync."""
        self._topics += 1
        topic = f"bench-{self._topics}"
        copies = self.shape.brokers
        self._admin.create_topic(topic, partitions=1, replication_factor=copies, config=self.shape.topic_config)
        if not self._cluster.wait_healthy(topic, timeout_s=HEALTHY_TIMEOUT_S, replication_factor=copies):
            raise EnvironmentFault(f"{self.engine}: {topic} had no full ISR within {HEALTHY_TIMEOUT_S:.0f} s")
        return topic

    def delete_topic(self, topic: str) -> None:
        """Returns when every broker has removed the files, so that the removal burdens no other load."""
        self._admin.delete_topic(topic)
        deadline_s = time.monotonic() + FILES_GONE_TIMEOUT_S
        while self._has_files(topic):
            if time.monotonic() > deadline_s:
                raise EnvironmentFault(f"{self.engine}: files of deleted {topic} stay on disk")
            time.sleep(0.05)

    def load(self, operation: Operation, topic: str, load_bytes: int, batch_bytes: int) -> Measured:
        bootstrap = self._cluster.bootstrap_servers
        command = [sys.executable, "-m", LOAD, operation, bootstrap, topic, str(load_bytes), str(batch_bytes)]
        before_s = self.cpu_s()
        done = subprocess.run(
            [*command, self.shape.acks],
            capture_output=True,
            text=True,
            timeout=LOAD_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
        broker_cpu_s = self.cpu_s() - before_s
        if done.returncode != 0:
            raise EnvironmentFault(f"{self.engine}: {operation} load failed: {done.stderr.strip()[-2000:]}")
        answer = json.loads(done.stdout.splitlines()[-1])
        return Measured(
            mb_per_s=answer["mb_per_s"],
            broker_cpu_s_per_gb=round(broker_cpu_s / (load_bytes / 1e9), 3),
            client_cpu_s_per_gb=round(answer["cpu_s"] / (load_bytes / 1e9), 3),
        )

    def cpu_s(self) -> float:
        """User and system time of all broker processes since they started, to 10 ms each."""
        pids = self._cluster.pids()
        if len(pids) != self.shape.brokers:
            raise EnvironmentFault(f"{self.engine}: expected {self.shape.brokers} brokers running, got {len(pids)}")
        return sum(_cpu_ticks(pid) for pid in pids.values()) / _TICKS_PER_S

    def _has_files(self, topic: str) -> bool:
        # Apache Kafka renames the directory to TOPIC-0.ID-delete until it removes it.
        names = (f"{topic}-0", f"{topic}-0.")
        for node in self._cluster.layout.nodes:
            if any(path.name == names[0] or path.name.startswith(names[1]) for path in node.log_dir.iterdir()):
                return True
        return False


def _cpu_ticks(pid: int) -> int:
    # The command name in parentheses may hold spaces: fields are counted after the last parenthesis.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
