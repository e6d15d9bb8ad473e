"""For which configuration each anomaly is lawful, unlawful or impossible, with the reason and its source.

- Lawful: the protocol permits it, and a fault may cause it.
- Unlawful: a promise was broken.
- Impossible: the anomaly cannot exist in this configuration at all.

Every rule is a table of cases. The first case whose condition is true counts. The verdict quotes `rule`.
docs/reference/lawful.md is written from the same cases. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from reports.evidence.configuration import Configuration
from reports.judge.anomalies import BY_NAME

LAWFUL, UNLAWFUL, IMPOSSIBLE = "lawful", "unlawful", "impossible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    lawful: str
    reason: str
    source: str

    @property
    def permission(self) -> str:
        """Who is to blame for what was seen, in the words of a verdict."""
        return "your settings permit it" if self.lawful == LAWFUL else self.lawful


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a configuration. `text` completes "if ..." on the page."""

    text: str
    holds: Callable[[Configuration], bool]


@dataclass(frozen=True, slots=True)
class Case:
    condition: Condition
    ruling: Ruling


def rule(anomaly: str, configuration: Configuration) -> Ruling:
    """The ruling on one anomaly. KeyError for a name that `anomalies.py` does not list."""
    return next(case.ruling for case in RULES[anomaly] if case.condition.holds(configuration))


ALWAYS = Condition("", lambda c: True)
ACKS_0 = Condition("acks=0", lambda c: c.acks == "0")
ACKS_1 = Condition("acks=1", lambda c: c.acks == "1")
NOT_ACKS_ALL = Condition("acks is not all", lambda c: c.acks != "all")
ACKS_1_REPLICATED = Condition("acks=1, with two replicas or more", lambda c: c.acks == "1" and c.replication_factor > 1)
ONE_COPY = Condition("acks=1, or one replica", lambda c: c.acks == "1" or c.replication_factor == 1)
MIN_ISR_1 = Condition("min.insync.replicas=1", lambda c: c.min_isr < 2)
IDEMPOTENT = Condition("enable.idempotence=true", lambda c: c.idempotence)
NO_RETRIES = Condition("acks=0, or retries=0", lambda c: c.acks == "0" or c.retries == 0)
ONE_IN_FLIGHT = Condition("max.in.flight.requests.per.connection=1", lambda c: c.max_in_flight <= 1)
UNCLEAN = Condition("unclean.leader.election.enable=true", lambda c: c.unclean_election)
FORGETFUL = Condition(
    "a disk lost data in this cell that was not fsynced, and flush.messages is not 1",
    lambda c: c.lost_power and not c.flushes_each,
)
RECREATED = Condition("somebody deleted the topic in this cell and created it again", lambda c: c.topic_recreated)
TRUNCATED = Condition("a replica cut its log back in this cell", lambda c: c.truncated)
GROUP = Condition("a reader of the cell is a consumer group or a share group", lambda c: c.subscribes)
COMMITS_FIRST = Condition("a reader commits ahead of its processing", lambda c: c.commits_first)


def _case(condition: Condition, lawful: str, reason: str, source: str) -> Case:
    return Case(condition, Ruling(lawful=lawful, reason=reason, source=source))


def _lawful_since(case: Case, reason: str) -> Case:
    """The rule of an anomaly that follows from another damage. It is lawful if that damage is, for this reason. Other
    cases stay."""
    is_lawful = case.ruling.lawful == LAWFUL
    return replace(case, ruling=replace(case.ruling, reason=reason)) if is_lawful else case


def _always(lawful: str, reason: str, source: str) -> tuple[Case, ...]:
    return (_case(ALWAYS, lawful, reason, source),)


def _anew(reason: str) -> Case:
    return _case(RECREATED, LAWFUL, reason, "DeleteTopics, CreateTopics; KIP-516")


_OLD_POSITION = "a reader keeps its position by number, and the new topic may have grown past it by then"
_TOPIC_GONE = _anew("the records of a topic are deleted with it; the new topic of the same name has none of them")
_MEMORY_LOST = _case(
    FORGETFUL,
    LAWFUL,
    "replicas keep records in memory until the operating system writes them; a replica that lost them may lead",
    "flush.messages; KIP-966",
)
_NO_REPEAT = _case(NO_RETRIES, UNLAWFUL, "no request is ever repeated", "retries; acks")

_LOST = (
    _case(ACKS_0, IMPOSSIBLE, "nothing is acknowledged, so no acknowledged record can be lost", "acks"),
    _TOPIC_GONE,
    _case(
        UNCLEAN,
        LAWFUL,
        "a replica outside the ISR may become leader, and the records that it never had are lost",
        "unclean.leader.election.enable",
    ),
    _MEMORY_LOST,
    _case(
        ACKS_1_REPLICATED,
        LAWFUL,
        "the leader answers before its followers have the record; if it dies, they go on without it",
        "acks; KIP-101",
    ),
    _case(
        ONE_COPY,
        UNLAWFUL,
        "there is one copy; it can be lost only with its disk, and no scenario takes a disk away",
        "acks",
    ),
    _case(
        MIN_ISR_1,
        UNLAWFUL,
        "the ISR may shrink to one replica, but then only this one may lead; records are lost only with its disk",
        "min.insync.replicas; KIP-966",
    ),
    _case(
        ALWAYS,
        UNLAWFUL,
        "enough in-sync replicas (min.insync.replicas) had the record before the answer, and one of them must lead",
        "acks; min.insync.replicas",
    ),
)
# The sharp form of loss: the offset was given again.
_OFFSET_REUSED = tuple(_lawful_since(case, "later records get the offsets of lost ones") for case in _LOST)
# The other form: the offset is empty, and another copy of the record stayed somewhere.
_ACK_MISPLACED = tuple(
    _lawful_since(case, "the record at the acknowledged offset is gone, and another copy of it stayed")
    for case in _LOST
)
_GROWS = _case(ALWAYS, UNLAWFUL, "a log only grows at its end", "protocol")
_REALTIME = tuple(
    _lawful_since(case, "the offsets of lost records are given again")
    if case.ruling.lawful == LAWFUL
    else replace(_GROWS, condition=case.condition)
    for case in _LOST
    if case.ruling.lawful == LAWFUL or case.condition in (ACKS_0, ALWAYS)
)
_DUPLICATED = (
    _case(
        IDEMPOTENT,
        UNLAWFUL,
        "the broker recognises a repeated sequence and appends it once, within a producer's life",
        "enable.idempotence; KIP-98",
    ),
    _NO_REPEAT,
    _case(
        ALWAYS,
        LAWFUL,
        "a request whose answer was lost is repeated, and the broker cannot tell that it is a repetition",
        "retries; KIP-98",
    ),
)
_REORDERED = (
    _case(
        ACKS_0,
        LAWFUL,
        "the client waits for no answer, so bytes of a closed connection may arrive after those of the next one",
        "acks",
    ),
    _case(
        IDEMPOTENT,
        UNLAWFUL,
        "the broker refuses a batch whose predecessor is missing",
        "enable.idempotence; KIP-98",
    ),
    _case(
        ONE_IN_FLIGHT,
        UNLAWFUL,
        "the next request waits until this one has its outcome, retries included",
        "max.in.flight.requests.per.connection",
    ),
    _NO_REPEAT,
    _case(
        ALWAYS,
        LAWFUL,
        "a refused batch is sent again after batches that were in flight with it",
        "max.in.flight.requests.per.connection",
    ),
)
_DELIVERED_TWICE = (
    _case(
        GROUP,
        LAWFUL,
        "after a rebalance or a restart, records that were not committed come again",
        "subscribe(); at-least-once delivery",
    ),
    _anew("offsets begin again in the new topic, and a reader beyond its end goes back"),
    _case(
        TRUNCATED,
        LAWFUL,
        "offsets that a truncation removed are given again, and a reader beyond the end goes back",
        "KIP-320",
    ),
    _case(ALWAYS, UNLAWFUL, "a consumer with fixed partitions moves forward only", "assign()"),
)
_READ_ABOVE_HW = (
    _TOPIC_GONE,
    _MEMORY_LOST,
    _case(
        UNCLEAN,
        LAWFUL,
        "a leader from outside the ISR may lack records that consumers have read",
        "unclean.leader.election.enable",
    ),
    _case(
        ALWAYS,
        UNLAWFUL,
        "consumers get records below the high watermark, and every member of the ISR has these",
        "KIP-101; high watermark",
    ),
)
_HIGH_WATERMARK = (
    _MEMORY_LOST,
    _case(UNCLEAN, LAWFUL, "the new leader's log may end below it", "unclean.leader.election.enable"),
    _case(ALWAYS, UNLAWFUL, "a new leader comes from the ISR and has all records below it", "KIP-101; KIP-207"),
)
_ACKED_BELOW_MIN_ISR = (
    _case(NOT_ACKS_ALL, IMPOSSIBLE, "min.insync.replicas binds acks=all only", "min.insync.replicas"),
    _case(MIN_ISR_1, IMPOSSIBLE, "the ISR of a leader is never below one", "min.insync.replicas"),
    _case(ALWAYS, UNLAWFUL, "the leader must refuse: NOT_ENOUGH_REPLICAS", "min.insync.replicas"),
)
_TWO_LEADERS_ACK = (
    _case(ACKS_0, IMPOSSIBLE, "nothing is acknowledged", "acks"),
    _case(ACKS_1, LAWFUL, "a leader that does not know its successor yet still acknowledges alone", "acks; KIP-101"),
    _case(
        ALWAYS,
        UNLAWFUL,
        "followers of the newer epoch do not fetch from it, so its high watermark cannot move",
        "leader epochs, KIP-101",
    ),
)
_POLL_SKIP = (
    _anew(_OLD_POSITION),
    _case(
        GROUP,
        LAWFUL,
        "a partition that comes back after a rebalance goes on at the position of its last member",
        "subscribe()",
    ),
    _case(ALWAYS, UNLAWFUL, "a poll goes on where the one before ended", "assign()"),
)
_PASSED_OVER = (
    _anew(_OLD_POSITION),
    _case(
        COMMITS_FIRST,
        LAWFUL,
        "if the member dies between commit and processing, nobody processes the committed records",
        "at-most-once delivery",
    ),
    _case(ALWAYS, UNLAWFUL, "a reader gets every offset from its first to its last", "consumer protocol"),
)
_NEVER: dict[str, tuple[str, str]] = {
    "unexpected": ("a log holds what producers sent", "protocol"),
    "misrouted": (
        "the client chooses topic and partition, and brokers append where its request says: suspect the client",
        "client contract; Produce",
    ),
    "foreign": ("the topic is this run's own, and a log holds what producers sent", "protocol"),
    "answered_twice": ("a send has one outcome", "client contract"),
    "copy_corrupt": ("batches carry a CRC from producer to consumer, and copiers copy what they were given", "KIP-98"),
    "copy_unexpected": ("copiers copy what producers sent", "protocol"),
    "corrupt": ("batches carry a CRC from producer to consumer", "record batch v2"),
    "epoch_regression": ("epochs only grow, and each begins where the one before ended", "KIP-101"),
    "redelivered_overdue": ("with auto-commit an offset is committed once an interval", "auto.commit.interval.ms"),
    "copy_missing": (
        "offsets are committed together with the copies of their records, or not at all",
        "KIP-98; KIP-447",
    ),
    "copied_twice": ("the copy of a record is committed together with its offset, or not at all", "KIP-98; KIP-447"),
    "copy_reordered": ("a copier writes in the order in which it reads, and idempotence keeps it", "KIP-98"),
    "client_died": ("a client must survive faults of brokers, links and other clients", "robustness"),
    "aborted_read": ("read_committed leaves out what was aborted", "KIP-98"),
    "precommitted_read": ("read_committed ends at the last stable offset", "KIP-98"),
    "torn_txn": ("a transaction is committed in all its partitions or in none", "KIP-98"),
    "zombie_write": ("a producer epoch fences all below it", "KIP-98; KIP-360; KIP-890"),
    "conservation": ("if a transaction keeps a sum, every read_committed reader sees the same sum", "KIP-98"),
    "replica_divergence": (
        "a follower truncates where the leader's epochs show that the logs diverge",
        "KIP-101; KIP-279",
    ),
    "isr_never_recovers": ("a replica that has caught up rejoins the ISR", "KIP-497"),
    "two_controllers": ("a voter votes once in an epoch", "KIP-595"),
    "commit_regression": ("a commit of an older generation is refused", "group protocol"),
    "share_lost": ("a share group offers a record until it is accepted, rejected or archived", "KIP-932"),
    "share_after_done": ("an acknowledgement that is confirmed was written first, on the share coordinator", "KIP-932"),
    "share_over_limit": ("a record is archived after its last delivery", "share.delivery.count.limit; KIP-932"),
    "double_owner": ("in one generation a partition has one owner", "group protocol; KIP-429; KIP-848"),
    "dup_bound_exceeded": ("a member begins at what its group committed", "group protocol"),
    "stuck_consumer": ("records below the high watermark can be read", "consumer protocol"),
    "spurious_reset": ("auto.offset.reset acts only without a valid offset", "auto.offset.reset; KIP-320"),
    "no_recovery": ("with all brokers back every partition is led and in sync again", "replication protocol"),
    "crashed": ("no fault on links or clients may end a broker", "robustness"),
    "hang": ("every send has an outcome within delivery.timeout.ms", "delivery.timeout.ms, KIP-91"),
}

RULES: dict[str, tuple[Case, ...]] = {
    "lost": _LOST,
    "removed": _always(
        LAWFUL,
        "a topic keeps no more than its settings say, none of what somebody deletes, and if it is compacted, the last "
        "record of each key",
        "retention.bytes; retention.ms; cleanup.policy; DeleteRecords, KIP-107",
    ),
    "removed_in_doubt": _always(
        LAWFUL, "settings may permit it or somebody may have asked for it: it is never a fail", "cleanup.policy"
    ),
    "offset_reused": _OFFSET_REUSED,
    "ack_misplaced": _ACK_MISPLACED,
    "duplicated": _DUPLICATED,
    "reordered": _REORDERED,
    "lost_unacked": (
        _case(
            ACKS_0,
            LAWFUL,
            "nobody answers, so the client is not told of a record that is lost on the way, refused or truncated",
            "acks",
        ),
        _case(
            ALWAYS,
            UNLAWFUL,
            "the client said that the send was done. With these acks it may say so only when a broker has answered",
            "acks",
        ),
    ),
    "recovered": _always(LAWFUL, "an answer that never came says nothing about the append", "protocol"),
    "phantom": _always(
        UNLAWFUL,
        "a failure that is reported as certain must mean that nothing was or will be appended",
        "client contract; KIP-360",
    ),
    "read_above_hw": _READ_ABOVE_HW,
    "hw_regression": _HIGH_WATERMARK,
    "truncate_below_hw": _HIGH_WATERMARK,
    "acked_below_min_isr": _ACKED_BELOW_MIN_ISR,
    "two_leaders_ack": _TWO_LEADERS_ACK,
    "send_realtime_violation": _REALTIME,
    "dup_delivered": _DELIVERED_TWICE,
    "nonmonotonic_poll": _DELIVERED_TWICE,
    "lost_in_delivery": _PASSED_OVER,
    "redelivered": _DELIVERED_TWICE,
    "poll_skip": _POLL_SKIP,
    "unread": _always(
        LAWFUL, "a reader that has not reached the partition yet has read nothing of it", "consumer protocol"
    ),
    "copy_passed_over": _PASSED_OVER,
    "copy_delivered_twice": _DELIVERED_TWICE,
    "copy_gone": _READ_ABOVE_HW,
    "unseen_pending": _always(LAWFUL, "a stopped reader reads no further", "consumer protocol"),
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
    """Anomalies by typical configurations, in the catalogue's order, for the page and docs/reference/lawful.md."""
    return [(name, [rule(name, configuration) for configuration in TYPICAL]) for name in BY_NAME]
