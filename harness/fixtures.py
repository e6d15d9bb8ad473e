"""Clusters and faults for a user's own tests, without a run directory. The pytest plugin hands them out.

They also work without pytest. Faults go through the same timeline as in a run, so they are leased, proved and healed in
the same way. A fault without proof is an error, because a test that passes without its fault has shown nothing. Shown
by tests/harness/test_harness_pytest_plugin.py.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar, cast

from pydantic import ValidationError

from broker.wire.errors import ProtocolError
from broker.wire.records import decode_fetched
from chaos import timeline
from chaos.lease import Lease, default_root
from chaos.model import Scenario, Topic
from chaos.reap import reap
from harness.caught_up import group_lag
from harness.clusters.admin import Admin
from harness.clusters.base import ClusterKey, Engine
from harness.clusters.factory import build_cluster
from harness.clusters.log_reader import TopicLogReader
from harness.clusters.own_topics import OwnTopics
from harness.clusters.process_cluster import ProcessCluster
from harness.errors import EnvironmentFault, HarnessError, UsageError
from harness.journal_cuts import cuts_since
from harness.loss_words import ACKNOWLEDGED, SHOWN, Value, faults_of, loss_lines, lost
from harness.run.timeline_driver import CellPort
from harness.run.unsynced_writes import drop_unsynced
from harness.suite_source import nearest
from runlog.records.codec import to_json

HEALTH_TIMEOUT_S: Final = 45.0
HEAL_TIMEOUT_S: Final = 30.0
# For `Chaos.during`. A scenario ends by itself; this limits one whose conditions are never met.
SCENARIO_TIMEOUT_S: Final = 180.0
DEFAULT_TOPIC: Final = Topic(partitions=1, replication_factor=3, config={"min.insync.replicas": "2"})

Item = TypeVar("Item")


class Inconclusive(HarnessError):
    """A fault was not applied, or left no proof. The test cannot say anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioChoice:
    scenario: Scenario
    case: str

    @classmethod
    def of(cls, scenario: Scenario, case: str | None) -> ScenarioChoice:
        """The client's settings are the user's own, so the case only matters for the topic's settings. The default is
        the first case."""
        if case is not None and case not in scenario.cases:
            raise UsageError(f"scenario {scenario.name} has no case {case!r}{nearest(case, list(scenario.cases))}")
        return cls(scenario=scenario, case=case or next(iter(scenario.cases)))

    @property
    def topic(self) -> Topic:
        return self.scenario.topic.model_copy(update={"config": self.scenario.topic_config_of(self.case)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of the log, read after the faults by a reader that had no part in the test."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class KafkaCluster:
    """A running cluster and one topic of it. Addresses are the proxies', so every fault reaches the client."""

    def __init__(self, cluster: ProcessCluster, lease: Lease, topic: str, topic_settings: Topic) -> None:
        self.processes, self.lease, self.topic = cluster, lease, topic
        self.since_ns = time.monotonic_ns()  # zero of the fault times of this test
        self.fault_events: list[dict[str, object]] = []  # as in faults.jsonl: applied, proved, healed
        self.handed_out: set[bytes] = set()  # values that `values` and `records` have given
        self.topics: list[str] = []
        self.own_topics = OwnTopics(Admin(cluster.direct_addresses))
        self.create_topic(
            topic,
            partitions=topic_settings.partitions,
            replication_factor=topic_settings.replication_factor,
            config=topic_settings.config,
        )

    @property
    def bootstrap_servers(self) -> str:
        """Comma-separated host:port, as every client takes it."""
        return self.processes.bootstrap_servers

    def create_topic(
        self, name: str, *, partitions: int = 1, replication_factor: int = 3, config: Mapping[str, str] | None = None
    ) -> None:
        """Returns when every replica is in the ISR."""
        self.topics.append(name)
        self.own_topics.create(name, partitions=partitions, replication_factor=replication_factor, config=config or {})
        if not self.processes.wait_healthy(name, timeout_s=HEALTH_TIMEOUT_S, replication_factor=replication_factor):
            raise EnvironmentFault(f"topic {name} had no full ISR after {HEALTH_TIMEOUT_S:.0f} s")

    @property
    def acked(self) -> int:
        """The number of records that the whole ISR has. The `acked` conditions of a scenario use it, because the client
        is not ours."""
        total = 0
        state = self.processes.state(self.topic)
        for partition in () if state is None else state.partitions:
            with contextlib.suppress(OSError, TimeoutError):
                total += self._reader(self.topic).end_offset(partition)
        return total

    @property
    def members(self) -> None:
        """The clients are the test's own: no fault acts on them."""
        return None

    def coordinator(self) -> int | None:
        """The coordinator of a consumer group. The groups of a test are not known here, so this target stays empty."""
        return None

    def transaction_coordinator(self) -> int | None:
        """Likewise of transactions."""
        return None

    def drop_unsynced(self, broker_id: int, account: Path, writeback_ms: int, torn_bytes: int) -> Mapping[str, int]:
        """The fault power_loss: cut the files of a dead broker to what its disk would have kept. Bytes that were cut,
        by file."""
        state = self.processes.state(self.topic)
        directories = {
            partition: self.processes.partition_directory(broker_id, self.topic, partition)
            for partition in (() if state is None else state.partitions)
        }
        return drop_unsynced(
            account,
            broker=broker_id,
            topic=self.topic,
            directories={partition: path for partition, path in directories.items() if path is not None},
            writeback_ms=writeback_ms,
            torn_bytes=torn_bytes,
            t_us=time.monotonic_ns() // 1000,
        ).bytes_by_file

    def leader(self, partition: int = 0) -> int | None:
        return self.processes.leader(self.topic, partition)

    def isr(self, partition: int = 0) -> tuple[int, ...]:
        return self.processes.isr(self.topic, partition)

    def wait_healthy(self) -> None:
        """All brokers up, all replicas in sync. EnvironmentFault after 45 s."""
        self.processes.ensure_all_running()
        if not self.processes.wait_healthy(None, timeout_s=HEALTH_TIMEOUT_S):
            raise EnvironmentFault(f"the cluster was not healthy again within {HEALTH_TIMEOUT_S:.0f} s")

    def records(self, topic: str | None = None) -> list[Record]:
        """The whole log of the test's topic, in the order of partitions and offsets. Waits until it is healthy.
        EnvironmentFault when a leader does not answer in time, or serves what is no log."""
        name = topic or self.topic
        self.wait_healthy()
        state = self.processes.state(name)
        if state is None or not state.partitions:
            raise HarnessError(f"no broker knows topic {name}")
        reader = self._reader(name)
        found: list[Record] = []
        for partition in sorted(state.partitions):
            try:
                found += _records_of(reader, partition)
            except (ProtocolError, TimeoutError) as error:
                raise EnvironmentFault(f"the log of {name}-{partition} cannot be read: {error}") from error
        self.handed_out.update(record.value for record in found if record.value is not None)
        return found

    def wait_caught_up(self, group: str, topic: str | None = None, *, timeout_s: float = 60.0) -> None:
        """Until the group has committed all that the topic holds now: then what its consumers did not get is lost, and
        not only unread. They must go on polling, and commit. Inconclusive, with the lag, after `timeout_s`."""
        name = topic or self.topic
        self.wait_healthy()
        state = self.processes.state(name)
        reader = self._reader(name)
        ends = {partition: reader.end_offset(partition) for partition in (() if state is None else state.partitions)}
        servers = self.processes.direct_bootstrap_servers
        if behind := group_lag(group, name, ends, bootstrap_servers=servers, timeout_s=timeout_s):
            raise Inconclusive(f"group {group} has not caught up with {name} within {timeout_s:.0f} s: {behind}")

    def assert_none_lost(self, acknowledged: Collection[Value], *, shown: int | None = SHOWN) -> None:
        """Every value is in the topic's log. AssertionError says how many are gone, under which faults, and which
        offsets were cut off; `shown=None` prints all of them."""
        if gone := lost(acknowledged, self.values()):
            raise AssertionError("\n".join(self.loss_lines(gone, len(acknowledged), ACKNOWLEDGED, shown=shown)))

    def loss_lines(self, gone: Sequence[Value], of: int, what: str, *, shown: int | None = SHOWN) -> list[str]:
        """What to tell of records that a test misses: `loss_words`, with this test's faults and journals."""
        cuts = cuts_since(self.processes.journal_paths().values(), self.topics, self.since_ns)
        return loss_lines(gone, of, what, faults=faults_of(self.fault_events), cuts=cuts, shown=shown)

    def _reader(self, topic: str) -> TopicLogReader:
        return TopicLogReader(topic, lambda partition: self.processes.probe_of_leader(topic, partition))

    def values(self, topic: str | None = None) -> list[bytes]:
        """Values in the log, in order; tombstones left out."""
        return [record.value for record in self.records(topic) if record.value is not None]


def _records_of(reader: TopicLogReader, partition: int) -> Iterator[Record]:
    for batch in reader.batches(partition, reader.end_offset(partition)):
        for offset, _timestamp, key, value, _headers in decode_fetched(batch):
            yield Record(partition=partition, offset=offset, key=key, value=value)


class Chaos:
    """Faults on one cluster. `close` heals whatever is left."""

    def __init__(self, cluster: KafkaCluster, choice: ScenarioChoice | None) -> None:
        self._cluster, self._choice = cluster, choice
        self.events = cluster.fault_events  # as in faults.jsonl; times since the test got its cluster
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._result: timeline.TimelineResult | None = None

    def during(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, one by one, while the scenario's faults come and go. Ends when the scenario is over and healed.

        Inconclusive if a fault was not proved, or if the items end first.
        """
        self.begin()
        deadline = time.monotonic() + SCENARIO_TIMEOUT_S
        for item in items:
            if not self.is_running:
                self.finish()
                return
            if time.monotonic() > deadline:
                raise Inconclusive(f"the scenario did not end within {SCENARIO_TIMEOUT_S:.0f} s")
            yield item
        if self.is_running:
            raise Inconclusive("the items ran out before the scenario had ended: give more, e.g. itertools.count()")
        self.finish()

    def begin(self) -> None:
        """Start the scenario of the test's marker beside the test. `finish` waits for it."""
        if self._choice is None:
            raise UsageError("no scenario: mark the test with @pytest.mark.chaos(NAME), or use chaos.inject()")
        if self._thread is not None:
            raise UsageError("the scenario of this test has begun already")
        scenario, case = self._choice.scenario, self._choice.case
        self._thread = threading.Thread(target=self._run, args=(scenario, case), name="chaos", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait for the scenario's end. Inconclusive when a step failed or a fault left no proof."""
        assert self._thread is not None, "begin() comes first"
        self._thread.join(timeout=SCENARIO_TIMEOUT_S)
        if self._thread.is_alive() or self._result is None:
            raise Inconclusive(f"the scenario did not end within {SCENARIO_TIMEOUT_S:.0f} s")
        _check(self._result)

    @contextmanager
    def inject(self, fault: str, target: str | None = None, **parameters: int | str) -> Iterator[None]:
        """One fault while inside: `with chaos.inject("pause", "leader"):`. It is proved before the body begins, or at
        its end if only traffic can prove it. It is healed afterwards."""
        step: dict[str, object] = {"id": "fault", "fault": fault, "with": parameters}
        if target is not None:
            step["target"] = target
        step["for"] = "60m"  # longer than any body
        document = {
            "name": "inject", "title": fault, "damage": "none", "source": "a test", "cases": {"only": {"title": fault}},
            "timeline": [step],
        }  # fmt: skip
        try:
            scenario = Scenario.model_validate(document)
        except ValidationError as error:
            reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
            raise UsageError(f"chaos.inject({fault!r}): {reason}") from error
        first_event = len(self.events)
        stop = threading.Event()
        results: list[timeline.TimelineResult] = []
        clock = timeline.RunningClock(t0_monotonic_ns=self._cluster.since_ns, stop=stop)
        thread = threading.Thread(
            target=lambda: results.append(self._carry_out(scenario, "only", clock)), name="chaos", daemon=True
        )
        thread.start()
        decisive = {"applied"} if scenario.timeline[0].spec.is_proved_at_heal else {"proved", "not_effective"}
        try:
            while thread.is_alive() and not decisive & {event["phase"] for event in self.events[first_event:]}:
                thread.join(0.02)
            yield
        finally:
            stop.set()
            thread.join(HEAL_TIMEOUT_S)
        if not results:
            raise Inconclusive(f"{fault} was not healed within {HEAL_TIMEOUT_S:.0f} s")
        _check(results[0])

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(HEAL_TIMEOUT_S)

    @property
    def is_running(self) -> bool:
        """Whether the scenario that `begin` started has not ended yet."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self, scenario: Scenario, case: str) -> None:
        clock = timeline.RunningClock(t0_monotonic_ns=self._cluster.since_ns, stop=self._stop)
        self._result = self._carry_out(scenario, case, clock)

    def _carry_out(self, scenario: Scenario, case: str, clock: timeline.Clock) -> timeline.TimelineResult:
        return timeline.run(
            scenario,
            case,
            CellPort(self._cluster.processes, self._cluster),
            lambda line: self.events.append(to_json(line)),
            clock=clock,
            topic=self._cluster.topic,
            measure_start_us=clock.now_us(),
            lease=self._cluster.lease,
        )


def _check(result: timeline.TimelineResult) -> None:
    if result.problem not in ("", "stopped"):
        raise Inconclusive(f"the faults were not carried out: {result.problem}")
    if result.unproved:
        raise Inconclusive(f"without effect: {', '.join(result.unproved)}")


class ClusterPool:
    """Running clusters by their settings: a test gets one that is healthy, or a new one. `close` ends all."""

    def __init__(self, *, engine: str, proxy_choice: str, directory: Path) -> None:
        self._engine, self._proxy_choice, self._directory = cast(Engine, engine), proxy_choice, directory
        self._numbers = itertools.count(1)
        root = default_root(os.environ)
        reap(root)
        self._lease = Lease(root)
        self._clusters: dict[ClusterKey, ProcessCluster] = {}

    def borrow(self, choice: ScenarioChoice | None) -> KafkaCluster:
        """A cluster with a topic that no test had before."""
        settings = {} if choice is None else dict(choice.scenario.broker_settings)
        key = ClusterKey(
            engine=self._engine,
            proxied=True,
            brokers=3,
            settings=tuple(sorted(settings.items())),
            journal_appends=False,
        )
        cluster = self._clusters.get(key)
        if cluster is None:
            cluster = self._start(key)
        topic = f"test-{next(self._numbers)}"
        return KafkaCluster(cluster, self._lease, topic, DEFAULT_TOPIC if choice is None else choice.topic)

    def give_back(self, cluster: KafkaCluster) -> None:
        """A cluster that does not become healthy again is ended, so the next test starts on a new one."""
        try:
            cluster.wait_healthy()
        except HarnessError:
            for key, known in list(self._clusters.items()):
                if known is cluster.processes:
                    del self._clusters[key]
            cluster.processes.stop()
            raise

    def close(self) -> None:
        for cluster in self._clusters.values():
            cluster.stop()
        self._clusters.clear()
        self._lease.close()

    def _start(self, key: ClusterKey) -> ProcessCluster:
        cluster = build_cluster(
            key,
            self._directory / f"cluster-{next(self._numbers)}",
            proxy_choice=self._proxy_choice,
            lease=self._lease,
            seed=0,
        )
        try:
            cluster.start()
        except BaseException:
            cluster.stop()
            raise
        self._clusters[key] = cluster
        return cluster
