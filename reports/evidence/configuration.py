"""The settings in effect and the events of a cell that decide what may happen to its records.

Pure. `judge/lawful.py` has the rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from reports.evidence.topic_events import recreations
from reports.read.cell import Cell
from runlog.records.cluster_kinds import Source
from runlog.records.partition import Truncated
from runlog.records.workload import GROUP, SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    acks: str = "all"
    idempotence: bool = False
    max_in_flight: int = 5
    retries: int = 2_147_483_647
    replication_factor: int = 3
    min_isr: int = 1
    unclean_election: bool = False
    truncated: bool = False  # a log was cut back in this cell
    lost_power: bool = False  # a disk lost in this cell what was not fsynced
    flushes_each: bool = False
    topic_recreated: bool = False  # somebody deleted the topic in this cell and created it anew
    subscribes: bool = False  # a reader is a consumer group
    commits_first: bool = False  # a reader commits what it has not processed yet

    def text(self) -> str:
        parts = [f"acks={self.acks}", f"idempotence {'on' if self.idempotence else 'off'}"]
        parts += [f"in-flight {self.max_in_flight}", f"RF {self.replication_factor}", f"min ISR {self.min_isr}"]
        return ", ".join(parts + (["unclean election"] if self.unclean_election else []))


def configuration_of(cell: Cell) -> Configuration:
    """The settings in effect, read back where the cell knows them."""
    client = cell.effective_client
    effective = cell.record.outcome.effective
    topic = {**cell.record.topic.config, **effective.topic}

    def setting(name: str, default: str) -> str:
        return topic.get(name, effective.broker.get(name, default)).strip().lower()

    return Configuration(
        acks=acks_of(cell),
        idempotence=is_idempotent(cell),
        max_in_flight=_whole(client.get("max.in.flight.requests.per.connection"), 5),
        retries=_whole(client.get("retries"), 2_147_483_647),
        replication_factor=cell.record.topic.replication_factor or 1,
        min_isr=_whole(setting("min.insync.replicas", "1"), 1),
        unclean_election=setting("unclean.leader.election.enable", "false") == "true",
        truncated=any(isinstance(event, Truncated) and event.restarted_at is None for event in cell.cluster_events),
        lost_power=any(isinstance(event, Truncated) and event.source is Source.DISK for event in cell.cluster_events),
        topic_recreated=bool(recreations(cell)),
        subscribes=any(reader.mode in (GROUP, SHARE) for reader in cell.record.workload.readers),
        commits_first=any(reader.commit == "before" for reader in cell.record.workload.readers),
        flushes_each=setting("flush.messages", setting("log.flush.interval.messages", "0")) == "1",
    )


def promise_of(own: Configuration) -> Configuration:
    """What producer and topic decide, without what was done to the cell and without its readers."""
    return Configuration(
        acks=own.acks,
        idempotence=own.idempotence,
        max_in_flight=own.max_in_flight,
        replication_factor=own.replication_factor,
        min_isr=own.min_isr,
        unclean_election=own.unclean_election,
    )


def acks_of(cell: Cell) -> str:
    """0, 1 or all."""
    acks = cell.effective_client.get("acks", "all").strip().lower()
    return "all" if acks == "-1" else acks


def is_acknowledged(cell: Cell) -> bool:
    """Whether a broker tells the client that a record is in the log."""
    return acks_of(cell) != "0"


def is_idempotent(cell: Cell) -> bool:
    return cell.effective_client.get("enable.idempotence", "false").strip().lower() == "true"


def _whole(value: str | None, default: int) -> int:
    try:
        return default if value is None else int(value)
    except ValueError:
        return default
