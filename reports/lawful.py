"""For which configuration each anomaly is lawful, unlawful or impossible, with the reason and its source.

Lawful: the protocol permits it, a fault may cause it. Unlawful: a promise was broken. Impossible: it cannot be said
of this configuration at all. Pure; the page shows `table()` and the verdict quotes `rule`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from reports.anomalies import BY_NAME
from reports.evidence import deletions, recreations
from reports.model import Cell, Json

LAWFUL, UNLAWFUL, IMPOSSIBLE = "lawful", "unlawful", "impossible"


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
    lost_power: bool = False  # a disk forgot in this cell what was not fsynced
    flushes_each: bool = False
    records_deleted: bool = False  # somebody deleted records of the topic in this cell
    topic_recreated: bool = False  # somebody deleted the topic in this cell and created it anew
    subscribes: bool = False  # a reader is a consumer group
    commits_first: bool = False  # a reader commits what it has not processed yet

    def text(self) -> str:
        parts = [f"acks={self.acks}", f"idempotence {'on' if self.idempotence else 'off'}"]
        parts += [f"in-flight {self.max_in_flight}", f"RF {self.replication_factor}", f"min ISR {self.min_isr}"]
        return ", ".join(parts + (["unclean election"] if self.unclean_election else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    lawful: str
    reason: str
    source: str


def configuration_of(cell: Cell) -> Configuration:
    """What was in force, read back where the cell knows it."""
    client = cell.effective_client
    effective = cell.outcome.get("effective") or {}
    topic_part = cell.part("topic")
    topic: Json = {**_object(topic_part.get("config")), **_object(effective.get("topic"))}
    broker = _object(effective.get("broker"))

    def setting(name: str, default: str) -> str:
        return str(topic.get(name, broker.get(name, default))).strip().lower()

    acks = str(client.get("acks", "all")).strip().lower()
    return Configuration(
        acks="all" if acks in ("-1", "all") else acks,
        idempotence=str(client.get("enable.idempotence", "false")).strip().lower() == "true",
        max_in_flight=_whole(client.get("max.in.flight.requests.per.connection"), 5),
        retries=_whole(client.get("retries"), 2_147_483_647),
        replication_factor=_whole(topic_part.get("replication_factor"), 1),
        min_isr=_whole(setting("min.insync.replicas", "1"), 1),
        unclean_election=setting("unclean.leader.election.enable", "false") == "true",
        truncated=any(event.get("kind") == "truncated" for event in cell.events),
        lost_power=any(event.get("source") == "disk" for event in cell.events),
        records_deleted=bool(deletions(cell)),
        topic_recreated=bool(recreations(cell)),
        subscribes=any(
            isinstance(reader, dict) and reader.get("mode") == "group"
            for reader in cell.part("workload").get("readers") or ()
        ),
        commits_first=any(
            isinstance(reader, dict) and reader.get("commit") == "before"
            for reader in cell.part("workload").get("readers") or ()
        ),
        flushes_each=setting("flush.messages", setting("log.flush.interval.messages", "0")) == "1",
    )


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _whole(value: object, default: int) -> int:
    try:
        return int(str(value))
    except ValueError:
        return default


def rule(anomaly: str, configuration: Configuration) -> Ruling:
    """The ruling on one anomaly. KeyError for a name that `anomalies.py` does not list."""
    return _RULES[anomaly](configuration)


def _lost(c: Configuration) -> Ruling:
    if c.acks == "0":
        return Ruling(
            lawful=IMPOSSIBLE, reason="nothing is acknowledged, so nothing acknowledged can be lost", source="acks"
        )
    if c.records_deleted:
        return Ruling(
            lawful=LAWFUL, reason="what somebody deletes is gone, acknowledged or not", source="DeleteRecords; KIP-107"
        )
    if c.topic_recreated:
        return _anew("what was in a topic goes with it; the new one under its name has nothing of it")
    if c.unclean_election:
        return Ruling(
            lawful=LAWFUL,
            reason="a replica outside the ISR may become leader and drops what it never had",
            source="unclean.leader.election.enable",
        )
    if c.lost_power and not c.flushes_each:
        return Ruling(
            lawful=LAWFUL,
            reason="replicas keep records in memory until the operating system writes them; one that forgot may lead",
            source="flush.messages; KIP-966",
        )
    if c.acks == "1" and c.replication_factor > 1:
        return Ruling(
            lawful=LAWFUL,
            reason="the leader answers before its followers have the record; if it dies, they go on without it",
            source="acks; KIP-101",
        )
    if c.acks == "1" or c.replication_factor == 1:
        return Ruling(
            lawful=UNLAWFUL,
            reason="there is one copy: it is lost with its disk only, and no scenario here takes a disk away",
            source="acks",
        )
    if c.min_isr < 2:
        return Ruling(
            lawful=UNLAWFUL,
            reason="the ISR may shrink to one replica, but then only that one may lead: loss needs its disk",
            source="min.insync.replicas; KIP-966",
        )
    return Ruling(
        lawful=UNLAWFUL,
        reason=f"at least {c.min_isr} in-sync replicas had the record before the answer, and one of them must lead",
        source="acks; min.insync.replicas",
    )


def _anew(reason: str) -> Ruling:
    return Ruling(lawful=LAWFUL, reason=reason, source="DeleteTopics, CreateTopics; KIP-516")


def _duplicated(c: Configuration) -> Ruling:
    if c.idempotence:
        return Ruling(
            lawful=UNLAWFUL,
            reason="the broker recognises a repeated sequence and appends it once, within a producer's life",
            source="enable.idempotence; KIP-98",
        )
    if c.acks == "0" or c.retries == 0:
        return Ruling(lawful=UNLAWFUL, reason="no request is ever repeated", source="retries; acks")
    return Ruling(
        lawful=LAWFUL,
        reason="a request whose answer was lost is repeated, and nothing tells the broker so",
        source="retries; KIP-98",
    )


def _reordered(c: Configuration) -> Ruling:
    if c.idempotence:
        return Ruling(
            lawful=UNLAWFUL,
            reason="the broker refuses a batch whose predecessor is missing",
            source="enable.idempotence; KIP-98",
        )
    if c.max_in_flight <= 1:
        return Ruling(
            lawful=UNLAWFUL,
            reason="the next request waits until this one is settled, retries included",
            source="max.in.flight.requests.per.connection",
        )
    if c.acks == "0" or c.retries == 0:
        return Ruling(lawful=UNLAWFUL, reason="no request is ever repeated", source="retries; acks")
    return Ruling(
        lawful=LAWFUL,
        reason="a refused batch is repeated behind batches that were in flight with it",
        source="max.in.flight.requests.per.connection",
    )


def _delivered_twice(c: Configuration) -> Ruling:
    if c.subscribes:
        return Ruling(
            lawful=LAWFUL,
            reason="after a rebalance or a restart what was not committed comes again",
            source="subscribe(); at-least-once delivery",
        )
    if c.topic_recreated:
        return _anew("offsets begin again in the new topic, and a reader beyond its end goes back")
    if c.truncated:
        return Ruling(
            lawful=LAWFUL,
            reason="offsets that a truncation removed are given again, and a reader beyond the end goes back",
            source="KIP-320",
        )
    return Ruling(lawful=UNLAWFUL, reason=_READER, source="assign()")


def _always(lawful: str, reason: str, source: str) -> Callable[[Configuration], Ruling]:
    return lambda _: Ruling(lawful=lawful, reason=reason, source=source)


def _offset_reused(c: Configuration) -> Ruling:
    """The sharp form of loss: the offset was given again."""
    loss = _lost(replace(c, records_deleted=False))  # a deletion gives no offset again
    if loss.lawful != LAWFUL:
        return loss
    return Ruling(lawful=LAWFUL, reason="what is lost gives its offset to what comes after it", source=loss.source)


def _read_above_hw(c: Configuration) -> Ruling:
    if c.records_deleted or c.topic_recreated:
        return _lost(c)
    if c.lost_power and not c.flushes_each:
        return _lost(c)
    if c.unclean_election:
        return Ruling(
            lawful=LAWFUL,
            reason="a leader from outside the ISR may lack what consumers were given",
            source="unclean.leader.election.enable",
        )
    return Ruling(
        lawful=UNLAWFUL,
        reason="consumers get what lies below the high watermark, and every member of the ISR has that",
        source="KIP-101; high watermark",
    )


def _high_watermark(c: Configuration) -> Ruling:
    if c.lost_power and not c.flushes_each:
        return _lost(c)
    if c.unclean_election:
        return Ruling(
            lawful=LAWFUL,
            reason="the new leader's log may end below it",
            source="unclean.leader.election.enable",
        )
    return Ruling(
        lawful=UNLAWFUL,
        reason="a new leader comes from the ISR and has all that lies below",
        source="KIP-101; KIP-207",
    )


def _acked_below_min_isr(c: Configuration) -> Ruling:
    if c.acks != "all":
        return Ruling(lawful=IMPOSSIBLE, reason="min.insync.replicas binds acks=all only", source="min.insync.replicas")
    if c.min_isr < 2:
        return Ruling(lawful=IMPOSSIBLE, reason="the ISR of a leader is never below one", source="min.insync.replicas")
    return Ruling(lawful=UNLAWFUL, reason="the leader must refuse: NOT_ENOUGH_REPLICAS", source="min.insync.replicas")


def _two_leaders_ack(c: Configuration) -> Ruling:
    if c.acks == "0":
        return Ruling(lawful=IMPOSSIBLE, reason="nothing is acknowledged", source="acks")
    if c.acks == "1":
        return Ruling(
            lawful=LAWFUL,
            reason="a leader that does not know of its successor yet answers by itself",
            source="acks; KIP-101",
        )
    return Ruling(
        lawful=UNLAWFUL,
        reason="followers of the newer epoch do not fetch from it, so its high watermark cannot move",
        source="leader epochs, KIP-101",
    )


def _realtime(c: Configuration) -> Ruling:
    if _lost(c).lawful == LAWFUL:
        return Ruling(
            lawful=LAWFUL,
            reason="offsets that were lost are given again",
            source="unclean.leader.election.enable; acks",
        )
    return Ruling(lawful=UNLAWFUL, reason="a log only grows at its end", source="protocol")


def _poll_skip(c: Configuration) -> Ruling:
    if c.topic_recreated:
        return _anew(_OLD_POSITION)
    if c.subscribes:
        return Ruling(
            lawful=LAWFUL,
            reason="a partition that comes back after a rebalance goes on where another member had got to",
            source="subscribe()",
        )
    return Ruling(lawful=UNLAWFUL, reason="a poll goes on where the one before ended", source="assign()")


def _passed_over(c: Configuration) -> Ruling:
    if c.topic_recreated:
        return _anew(_OLD_POSITION)
    if c.commits_first:
        return Ruling(
            lawful=LAWFUL,
            reason="what is committed ahead of its processing is nobody's when the member dies in between",
            source="at-most-once delivery",
        )
    return Ruling(
        lawful=UNLAWFUL, reason="a reader gets every offset between its first and its last", source="consumer protocol"
    )


def _phantom(_: Configuration) -> Ruling:
    return Ruling(
        lawful=UNLAWFUL,
        reason="a failure that is reported as certain must mean that nothing was or will be appended",
        source="client contract; KIP-360",
    )


_OLD_POSITION = "a reader keeps its position by number, and the new topic may have grown past it by then"
_READER = "a consumer with fixed partitions moves forward only"
_NEVER: dict[str, tuple[str, str]] = {
    "unexpected": ("a log holds what producers sent", "protocol"),
    "corrupt": ("batches carry a CRC from producer to consumer", "record batch v2"),
    "epoch_regression": ("epochs only grow, and each begins where the one before ended", "KIP-101"),
    "redelivered_overdue": ("with auto-commit an offset is committed once an interval", "auto.commit.interval.ms"),
    "copy_missing": ("offsets are committed with what was made of their records, or not at all", "KIP-98; KIP-447"),
    "copied_twice": ("what was made of a record is committed with its offset, or not at all", "KIP-98; KIP-447"),
    "copy_reordered": ("a copier writes in the order in which it reads, and idempotence keeps it", "KIP-98"),
    "client_died": ("a client outlives what happens to brokers, links and its peers", "robustness"),
    "aborted_read": ("read_committed leaves out what was aborted", "KIP-98"),
    "precommitted_read": ("read_committed ends at the last stable offset", "KIP-98"),
    "torn_txn": ("a transaction is committed in all its partitions or in none", "KIP-98"),
    "zombie_write": ("a producer epoch fences all below it", "KIP-98; KIP-360; KIP-890"),
    "conservation": ("a transaction that keeps a sum keeps it for every read_committed reader", "KIP-98"),
    "replica_divergence": ("a follower truncates where the leader's epochs say that the logs part", "KIP-101; KIP-279"),
    "isr_never_recovers": ("a replica that has caught up is taken back", "KIP-497"),
    "two_controllers": ("a voter votes once in an epoch", "KIP-595"),
    "commit_regression": ("a commit of an older generation is refused", "group protocol"),
    "double_owner": ("in one generation a partition has one owner", "group protocol; KIP-429; KIP-848"),
    "dup_bound_exceeded": ("a member begins at what its group committed", "group protocol"),
    "stuck_consumer": ("what is below the high watermark can be read", "consumer protocol"),
    "spurious_reset": ("auto.offset.reset acts only without a valid offset", "auto.offset.reset; KIP-320"),
    "no_recovery": ("with all brokers back every partition is led and in sync again", "replication protocol"),
    "crashed": ("no fault on links or clients may end a broker", "robustness"),
    "hang": ("every send has an outcome within delivery.timeout.ms", "delivery.timeout.ms, KIP-91"),
}

_RULES: dict[str, Callable[[Configuration], Ruling]] = {
    "lost": _lost,
    "offset_reused": _offset_reused,
    "duplicated": _duplicated,
    "reordered": _reordered,
    "recovered": _always(LAWFUL, "an answer that never came says nothing about the append", "protocol"),
    "phantom": _phantom,
    "read_above_hw": _read_above_hw,
    "hw_regression": _high_watermark,
    "truncate_below_hw": _high_watermark,
    "acked_below_min_isr": _acked_below_min_isr,
    "two_leaders_ack": _two_leaders_ack,
    "send_realtime_violation": _realtime,
    "dup_delivered": _delivered_twice,
    "nonmonotonic_poll": _delivered_twice,
    "lost_in_delivery": _passed_over,
    "redelivered": _delivered_twice,
    "poll_skip": _poll_skip,
    "unseen_pending": _always(LAWFUL, "a reader that is stopped has not read on", "consumer protocol"),
    "rebalance_storm": _always(LAWFUL, "members that come and go make the group rebalance each time", "group protocol"),
    "harness_error": _always(IMPOSSIBLE, "it says nothing about cluster or client", "harness"),
    **{name: _always(UNLAWFUL, reason, source) for name, (reason, source) in _NEVER.items()},
}

TYPICAL: tuple[Configuration, ...] = (
    Configuration(acks="0"),
    Configuration(acks="1"),
    Configuration(acks="all", min_isr=2),
    Configuration(acks="all", min_isr=2, unclean_election=True),
    Configuration(acks="all", min_isr=2, max_in_flight=1),
    Configuration(acks="all", min_isr=2, idempotence=True),
)


def table() -> list[tuple[str, list[Ruling]]]:
    """Anomalies by typical configurations, in the catalogue's order, for the page and docs/lawful.md."""
    return [(name, [rule(name, configuration) for configuration in TYPICAL]) for name in BY_NAME]
