"""The cluster of a conformance check: one broker of the reference cluster, its logs, its groups, and its freezes.

Everything that a client says is compared with what is read here, by the harness's own client, directly.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

from broker.door.batches import decode_fetched
from broker.door.clients import Admin, KafkaError, NewTopic, Producer, TopicPartition
from broker.door.questions import deleted_records
from chaos.lease import Lease
from harness.clusters.base import ClusterKey
from harness.clusters.factory import build_cluster
from harness.clusters.requests.log_reader import TopicLogReader
from harness.clusters.requests.probe import ask_leader
from harness.conformance.judge import Log, Logged
from harness.errors import EnvironmentFault
from harness.fixtures.committed import RecordStatus, records_of
from harness.lease_root import lease_root

BROKER: Final = 1
PARTITIONS: Final = 3
_SETTLED_S: Final = 1.0  # a log that has not grown for so long has all that was under way
_SETTLED_MAX_S: Final = 20.0
_ASK_MS: Final = 20_000
_SETTINGS: Final = {
    "default.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "5",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
}


class World:
    """A context manager: the broker lives as long as the block."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lease = Lease(lease_root())
        self._directory = tempfile.TemporaryDirectory(prefix="kafka-harness-check-")
        key = ClusterKey(engine="reference", proxied=False, brokers=1, settings=tuple(sorted(_SETTINGS.items())))
        try:
            self._cluster = build_cluster(
                key, Path(self._directory.name), proxy_choice="embedded", lease=self._lease, seed=0
            )
        except BaseException:
            self._lease.close()
            self._directory.cleanup()
            raise

    def __enter__(self) -> World:
        try:
            self._cluster.start()
            timeouts = {"default.api.timeout.ms": _ASK_MS, "request.timeout.ms": _ASK_MS // 2}
            self.admin = Admin({"bootstrap.servers": self.bootstrap_servers, **timeouts})
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.admin.close()
        self._end()

    def _end(self) -> None:
        self._cluster.stop()
        self._lease.close()
        self._directory.cleanup()

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    def name(self, what: str) -> str:
        """A name of a topic, a group or a transaction that no trial had before."""
        return f"{what}-{next(self._numbers)}"

    def topic(self, what: str, *, config: Mapping[str, str] | None = None) -> str:
        """The name of a new topic with PARTITIONS partitions."""
        topic = self.name(what)
        self.admin.create_topics([NewTopic(topic, PARTITIONS, 1, config or {})])
        if not self._cluster.wait_healthy(topic, timeout_s=_ASK_MS / 1_000, replication_factor=1):
            raise EnvironmentFault(f"topic {topic} has no leader after {_ASK_MS // 1_000} s")
        return topic

    def fill(self, topic: str, records: Sequence[tuple[int, bytes | None, bytes]]) -> None:
        """Append (partition, key, value) with the harness's own producer."""
        with Producer({"bootstrap.servers": self.bootstrap_servers, "acks": "all", "linger.ms": "5"}) as producer:
            futures = [producer.send(topic, value, key, partition) for partition, key, value in records]
            producer.flush(_ASK_MS / 1_000)
            for future in futures:
                future.get(0)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Those with a lower offset."""
        answer, problem = ask_leader(
            lambda: self._cluster.probe_of_leader(topic, partition),
            deleted_records(TopicPartition(topic, partition), before, _ASK_MS),
            timeout_s=_ASK_MS / 1_000,
            again=(),
        )
        if answer is None:
            raise EnvironmentFault(f"the first records of {topic}-{partition} cannot be deleted: {problem}")

    def log(self, topic: str, *, may_grow: bool = False) -> Log:
        """All records of a topic. `may_grow`: some may be under way, so it is read when nothing arrives any more."""
        if may_grow:
            self._settle(topic)
        reader = self._reader(topic)
        found: list[Logged] = []
        for partition in range(PARTITIONS):
            batches = list(reader.batches(partition, reader.end_offset(partition)))
            headers = [each[4] for batch in batches for each in decode_fetched(batch)]
            for record, own in zip(records_of(partition, batches), headers, strict=True):
                if record.status is not RecordStatus.MARKER:
                    found.append(
                        Logged(
                            partition=partition,
                            offset=record.offset,
                            key=record.key,
                            value=record.value,
                            headers=tuple((name, value) for name, value in own),
                            status=record.status.value,
                        )
                    )
        return Log(topic, found)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """What the coordinator has of this group, by partition."""
        found = self.admin.groups.offsets(group)
        return {each.partition: at.offset for each, at in found.items() if each.topic == topic}

    def members(self, group: str) -> int:
        try:
            return len(self.admin.groups.describe(group).members)
        except KafkaError:
            return 0

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The broker does nothing, and closes no connection. What reaches it meanwhile, it does afterwards."""
        self._cluster.pause(BROKER)
        try:
            yield
        finally:
            self._cluster.resume(BROKER)

    def _settle(self, topic: str) -> None:
        deadline_s = time.monotonic() + _SETTLED_MAX_S
        seen: list[int] = []
        still_since_s = time.monotonic()
        while time.monotonic() - still_since_s < _SETTLED_S and time.monotonic() < deadline_s:
            try:
                reader = self._reader(topic)
                ends = [reader.end_offset(partition) for partition in range(PARTITIONS)]
            except TimeoutError:
                ends = []
            if ends != seen:
                seen, still_since_s = ends, time.monotonic()
            time.sleep(_SETTLED_S / 10)

    def _reader(self, topic: str) -> TopicLogReader:
        return TopicLogReader(topic, lambda partition: self._cluster.probe_of_leader(topic, partition))
