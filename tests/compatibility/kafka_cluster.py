"""Apache Kafka as a cluster of the same kind as our own: the same brokers, listeners, users, directories and settings.

What Apache Kafka has no such default for, or does not take, is changed here and nowhere else: `properties` says what.
Shown by tests/compatibility/test_compatibility_beside_kafka.py.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

from harness.clusters.kafka.jars import ensure_jars, java_command
from tests.broker_node.cluster_helper import Cluster
from tests.patience import QUIET_S, run_command

CLUSTER_ID = "HjP9mNqZTyWYx2iFkqkC8Q"
HEAP = "512m"
_STOPPED_BY_SIGTERM = 128 + signal.SIGTERM  # the exit code of a JVM after a clean stop
_INTERVAL = "group.consumer.{}heartbeat.interval.ms"


class KafkaCluster(Cluster):
    """`kill`, `terminate`, `start` and the addresses are those of `Cluster`."""

    def properties(self, broker: int) -> dict[str, object]:
        """A reference broker takes as many replicas of internal topics as there are voters, advertises every listener
        of clients, and has no lower limit for the interval of heartbeats. For Apache Kafka that is written down."""
        asked = super().properties(broker)
        replicas = min(3, len(self.ids))
        own: dict[str, object] = {
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in self.ports[broker]),
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": min(2, replicas),
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": min(2, replicas),
        }
        interval = asked.get(_INTERVAL.format(""))
        if interval is not None:
            own[_INTERVAL.format("min.")] = interval
        asked = {name: value for name, value in asked.items() if not name.startswith("harness.")}
        return {**own, **asked, "advertised.listeners": self._advertised(broker, asked)}

    def _advertised(self, broker: int, asked: Mapping[str, object]) -> str:
        own = {name: f"{name}://127.0.0.1:{port}" for name, port in self.ports[broker].items() if name != "CONTROLLER"}
        given = str(asked.get("advertised.listeners", ""))
        named = {each.split("://")[0]: each for each in given.split(",") if each}
        return ",".join({**own, **named}.values())

    def command(self, properties: Path) -> list[str]:
        logging = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
        return [*_java(HEAP), *logging, "-cp", f"{ensure_jars()}/*", "kafka.Kafka", str(properties)]

    def start(self, broker: int) -> None:
        """The first start makes the log directories."""
        if not (self.log_dir(broker) / "meta.properties").is_file():
            tool = [*_java("256m"), "-cp", f"{ensure_jars()}/*", "kafka.tools.StorageTool"]
            path = self.write_properties(broker)
            done = run_command([*tool, "format", "-t", CLUSTER_ID, "-c", str(path)])
            assert done.returncode == 0, f"{path} cannot be formatted: {(done.stdout + done.stderr)[-2000:]}"
        super().start(broker)

    def terminate(self, broker: int, quiet_s: float = QUIET_S) -> int:
        code = super().terminate(broker, quiet_s)
        return 0 if code == _STOPPED_BY_SIGTERM else code


def _java(heap: str) -> list[str]:
    """Without the slower compiler: the brokers of both clusters share the machine with the test."""
    return [java_command(), f"-Xmx{heap}", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
