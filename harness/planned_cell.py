"""A cell before it runs: the record that it will write, and what only the harness must know to run it.

Pure. Shown by tests/harness/test_harness_plan.py.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.cluster_security import PLAINTEXT, ClusterSecurity
from harness.suite import KAFKA_DEFAULTS, KNOBS
from runlog.records.cell import (
    CellKind,
    CellRecord,
    CertificateReference,
    Expectations,
    TopicRecord,
    not_begun,
)
from runlog.records.workload import WorkloadRecord
from workloads.model import Workload, copy_topic, topic_names

# Kafka allows 249 characters. This leaves room for what is appended (-copy, -t12, a group's name).
_TOPIC_NAME_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    """A cell before it runs: the record that cell.json will get, and what only the harness must know to run it.

    The record has what the plan decides. Its workload, topic, engine and outcome come in when the cell is carried out
    (harness/run/cells/cell_record.py).
    """

    record: CellRecord
    workload: Workload
    brokers: int | None = None  # None: as many as the suite's cluster has
    releases: tuple[str, ...] = ()  # On Apache Kafka the brokers get these in turn; empty: the default.
    engines: Sequence[str] = ("reference", "kafka", "external")
    is_for_fault_hosts: bool = False  # an external cluster will do, if workers may break its brokers
    clients: Sequence[str] = ()  # empty: all
    scenario_reference: str = ""
    until_done: bool = False  # the load ends with the timeline; measure_ms is the longest
    security: ClusterSecurity = PLAINTEXT
    mark: str = ""  # It is the run's. Everything that the cell makes on a cluster begins with it.

    def secured(self, security: ClusterSecurity) -> PlannedCell:
        return replace(self, security=security, record=replace(self.record, security=security.label))

    def marked(self, mark: str) -> PlannedCell:
        """The cell as it is carried out: with the mark, so that its names on the cluster are unique."""
        return replace(self, mark=mark)

    # --- the fields of the record that the harness asks for most ---------------------------------------------------

    @property
    def cell_id(self) -> str:
        return self.record.cell_id

    @property
    def kind(self) -> CellKind:
        return self.record.kind

    @property
    def is_of_sweep(self) -> bool:
        """Whether it is a cell of the sweep, at the sweep's rate or at its ceiling."""
        return self.kind in (CellKind.SWEEP, CellKind.CEILING)

    @property
    def title(self) -> str:
        return self.record.title

    @property
    def client(self) -> str:
        return self.record.client

    @property
    def properties(self) -> Mapping[str, str]:
        return self.record.properties

    @property
    def repetition(self) -> int:
        assert self.record.repetition is not None
        return self.record.repetition

    @property
    def seed(self) -> int:
        assert self.record.seed is not None
        return self.record.seed

    @property
    def draw_seed(self) -> int:
        return self.record.draw_seed

    @property
    def fork(self) -> int:
        """Which of the sweep's clusters it runs on."""
        return self.record.fork or 1

    @property
    def baseline(self) -> bool:
        return self.record.baseline

    @property
    def log_directories(self) -> int:
        """Of each broker."""
        assert self.record.log_directories is not None
        return self.record.log_directories

    @property
    def racks(self) -> tuple[str, ...]:
        """Of the brokers, in turn."""
        return self.record.racks

    @property
    def topic_config(self) -> Mapping[str, str]:
        return self.record.topic.config

    @property
    def partitions(self) -> int:
        assert self.record.topic.partitions is not None
        return self.record.topic.partitions

    @property
    def replication_factor(self) -> int:
        assert self.record.topic.replication_factor is not None
        return self.record.topic.replication_factor

    # --- what follows from them ------------------------------------------------------------------------------------

    @property
    def topic_name(self) -> str:
        """The name of the topic. Names of groups and transactional ids begin with it too."""
        assert self.mark, "a cell that is carried out is marked: a bare cell id may be the name of anybody's topic"
        return own_name(self.mark, self.cell_id)

    @property
    def topic_names(self) -> tuple[str, ...]:
        """All topics of the cell; the first is `topic_name`."""
        return topic_names(self.topic_name, self.workload.topics)

    @property
    def all_topics(self) -> tuple[str, ...]:
        """All topics, with the one to which copiers write."""
        return (*self.topic_names, *((copy_topic(self.topic_name),) if self.workload.has_copiers else ()))

    @property
    def duration_ms(self) -> int:
        return self.workload.warmup_ms + self.workload.measure_ms


def new_record(
    *,
    cell_id: str,
    kind: CellKind,
    title: str,
    client: str,
    repetition: int,
    properties: Mapping[str, str],
    topic: TopicRecord,
    broker_settings: Mapping[str, str],
    log_directories: int,
    racks: tuple[str, ...],
    proxied: bool,
    seed: int,
) -> CellRecord:
    """What every planned cell has. The rest is empty: `replace` sets what this kind of cell has beside it."""
    return CellRecord(
        cell_id=cell_id,
        kind=kind,
        title=title,
        client=client,
        engine="",
        engine_version="",
        brokers=None,
        repetition=repetition,
        fork=None,
        order=None,
        scenario=None,
        case=None,
        damage=None,
        note="",
        about="",
        source="",
        changed="",
        properties=properties,
        topic=topic,
        workload=WorkloadRecord(sizes=None, corpus=None, locust=None),
        knobs=knobs_of(properties),
        factors={},
        baseline=False,
        expect=Expectations(),
        criteria=(),
        tags=(),
        has_faults=False,
        proxied=proxied,
        path="",
        seed=seed,
        command="",
        broker_settings=broker_settings,
        log_directories=log_directories,
        racks=racks,
        certificate=CertificateReference(),
        outcome=not_begun(),
    )


def knobs_of(properties: Mapping[str, str]) -> dict[str, str]:
    """The five settings that the reports compare."""
    return {name: properties.get(name, KAFKA_DEFAULTS[name]) for name in KNOBS}


def own_name(mark: str, text: str) -> str:
    """A legal topic name of at most 200 characters that begins with `mark`. Different texts give different names."""
    legal = re.sub(r"[^A-Za-z0-9._-]", "-", text)
    if legal != text or len(mark) + 1 + len(legal) > _TOPIC_NAME_MAX:
        digest = hashlib.blake2s(text.encode(errors="surrogatepass"), digest_size=6).hexdigest()
        legal = f"{legal[: _TOPIC_NAME_MAX - len(mark) - len(digest) - 2]}-{digest}"
    return f"{mark}-{legal}"
