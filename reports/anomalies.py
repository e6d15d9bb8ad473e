"""Every anomaly and its exact rule, in this one place: in words for the page, in plain SQL where it strikes records.

The SQL is the definition, written for clearness; `queries.py` computes the same much faster. Each statement gives
(cell, producer, incarnation, seq), once per record. The tests run it in DuckDB and demand the same sets of Spark. Rules
without SQL are computed from events by `happenings.py` and `history.py`, where each is one small function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Family = Literal["durability", "duplication", "order", "transactions", "replication", "groups", "liveness", "meta"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """`sql` is empty for what strikes no single record, or needs the brokers' journals."""

    name: str
    family: Family
    title: str
    rule: str
    sql: str = ""
    evidence: str = "acknowledgements and final read"


_RECV = "deliveries"
_JOURNAL = "brokers' journals"
_EVENTS = "brokers' journals and the harness's probes"
_HISTORY = "clients' history of groups and transactions"
_COPIES = "copies in the copiers' topic and their markers"
_READER = "coalesce(reader, 0)"
_READERS = f"""readers AS (SELECT cell, {_READER} AS reader, partition, min("offset") AS first, max("offset") AS last
  FROM recv GROUP BY ALL),
delivered AS (SELECT DISTINCT cell, {_READER} AS reader, partition, "offset", producer, incarnation, seq FROM recv)"""
_POLLS = """polls AS (SELECT cell, consumer, partition, polled_us, min("offset") AS low,
  lag(max("offset")) OVER (PARTITION BY cell, consumer, partition ORDER BY polled_us) AS before
  FROM recv GROUP BY cell, consumer, partition, polled_us)"""

ANOMALIES: tuple[Anomaly, ...] = (
    # --- durability ---
    Anomaly(
        name="lost",
        family="durability",
        title="Lost after acknowledgement",
        rule="The client got a success for the record, and the final read of the log finds it at no offset.",
        sql="""SELECT DISTINCT cell, producer, incarnation, seq FROM send WHERE status = 0
EXCEPT SELECT cell, producer, incarnation, seq FROM log""",
    ),
    Anomaly(
        name="offset_reused",
        family="durability",
        title="Acknowledged offset holds another record",
        rule="The final read finds another record at the partition and offset of the record's acknowledgement.",
        sql="""SELECT DISTINCT s.cell, s.producer, s.incarnation, s.seq
FROM send s JOIN log l USING (cell, partition, "offset")
WHERE s.status = 0 AND s."offset" >= 0
  AND NOT (s.producer = l.producer AND s.incarnation = l.incarnation AND s.seq = l.seq)""",
    ),
    Anomaly(
        name="lost_in_delivery",
        family="durability",
        title="Passed over in delivery",
        rule="The final read has the record between the first and the last offset that a reader got of the partition, "
        "and the reader never got it there. A reader is all consumers of one name, of fixed partitions or in a group.",
        evidence=_RECV,
        sql=f"""WITH {_READERS}
SELECT DISTINCT l.cell, l.producer, l.incarnation, l.seq FROM log l JOIN readers r USING (cell, partition)
WHERE l."offset" BETWEEN r.first AND r.last AND NOT EXISTS (SELECT 1 FROM delivered d WHERE d.cell = l.cell
  AND d.reader = r.reader AND d.partition = l.partition AND d."offset" = l."offset" AND d.producer = l.producer
  AND d.incarnation = l.incarnation AND d.seq = l.seq)""",
    ),
    Anomaly(
        name="unseen_pending",
        family="durability",
        title="Not delivered yet",
        rule="The final read has the record behind the last offset that a reader got of the partition. No damage: a "
        "reader that was stopped.",
        evidence=_RECV,
        sql=f"""WITH {_READERS}
SELECT DISTINCT l.cell, l.producer, l.incarnation, l.seq FROM log l JOIN readers r USING (cell, partition)
WHERE l."offset" > r.last""",
    ),
    Anomaly(
        name="acked_below_min_isr",
        family="durability",
        title="Acknowledged below min.insync.replicas",
        rule="With acks=all, a batch that the leader appended while it knew of fewer in-sync replicas than "
        "min.insync.replicas, acknowledged before it knew of enough.",
        evidence=_JOURNAL,
    ),
    Anomaly(
        name="hw_regression",
        family="durability",
        title="High watermark went back",
        rule="The end offset that consumers are shown is lower than one that they were shown before.",
        evidence=_EVENTS,
    ),
    Anomaly(
        name="read_above_hw",
        family="durability",
        title="Delivered and then gone",
        rule="A consumer got an intact record at an offset where the final read does not have it.",
        evidence=_RECV,
        sql="""SELECT DISTINCT r.cell, r.producer, r.incarnation, r.seq FROM recv r WHERE r.crc_ok = 1 AND NOT EXISTS (
  SELECT 1 FROM log l WHERE l.cell = r.cell AND l.partition = r.partition AND l."offset" = r."offset"
  AND l.producer = r.producer AND l.incarnation = r.incarnation AND l.seq = r.seq)""",
    ),
    Anomaly(
        name="recovered",
        family="durability",
        title="Recovered",
        rule="The client could not know, and the final read finds the record. No damage: neither lost nor promised.",
        sql="""SELECT cell, producer, incarnation, seq FROM send WHERE status = 2
INTERSECT SELECT cell, producer, incarnation, seq FROM log
EXCEPT SELECT cell, producer, incarnation, seq FROM send WHERE status <> 2""",
    ),
    Anomaly(
        name="phantom",
        family="durability",
        title="Failed for certain, yet there",
        rule="The client got a failure that means that nothing was appended, and the final read finds the record.",
        sql="""SELECT cell, producer, incarnation, seq FROM send WHERE status = 1
INTERSECT SELECT cell, producer, incarnation, seq FROM log
EXCEPT SELECT cell, producer, incarnation, seq FROM send WHERE status = 0""",
    ),
    Anomaly(
        name="unexpected",
        family="durability",
        title="Never sent",
        rule="The final read finds a record that no producer of this cell sent.",
        sql="""SELECT cell, producer, incarnation, seq FROM log
EXCEPT SELECT cell, producer, incarnation, seq FROM send""",
    ),
    Anomaly(
        name="corrupt",
        family="durability",
        title="Corrupt",
        rule="The final read finds the record with content that does not match its own checksum, or in a batch with a "
        "wrong CRC.",
        sql="SELECT DISTINCT cell, producer, incarnation, seq FROM log WHERE crc_ok = 0",
    ),
    # --- duplication ---
    Anomaly(
        name="duplicated",
        family="duplication",
        title="Duplicated in the log",
        rule="The final read finds the record at two offsets or more.",
        sql="""SELECT cell, producer, incarnation, seq FROM log
GROUP BY cell, producer, incarnation, seq HAVING count(*) > 1""",
    ),
    Anomaly(
        name="dup_delivered",
        family="duplication",
        title="Delivered twice",
        rule="One consumer received the same offset of the same partition more than once.",
        evidence=_RECV,
        sql="""SELECT DISTINCT r.cell, r.producer, r.incarnation, r.seq FROM recv r JOIN (
  SELECT cell, consumer, partition, "offset" FROM recv GROUP BY cell, consumer, partition, "offset" HAVING count(*) > 1
) twice ON r.cell = twice.cell AND r.consumer = twice.consumer AND r.partition = twice.partition
  AND r."offset" = twice."offset" """,
    ),
    Anomaly(
        name="redelivered",
        family="duplication",
        title="Delivered again to its group",
        rule="A reader got the same offset of the same partition more than once, by whichever of its consumers.",
        evidence=_RECV,
        sql=f"""SELECT DISTINCT r.cell, r.producer, r.incarnation, r.seq FROM recv r JOIN (
  SELECT cell, {_READER} AS reader, partition, "offset" FROM recv GROUP BY ALL HAVING count(*) > 1
) twice ON r.cell = twice.cell AND coalesce(r.reader, 0) = twice.reader AND r.partition = twice.partition
  AND r."offset" = twice."offset" """,
    ),
    Anomaly(
        name="redelivered_overdue",
        family="duplication",
        title="Delivered again, though its commit was due",
        rule="A group got a record again, and the consumer that had it first was given later records of the partition "
        "longer than the commit interval and 2 s after it: its offset should have been committed. So redelivery is "
        "bounded by commit interval times rate. Judged where faults act on clients only.",
        evidence=_RECV,
        sql=f"""WITH again AS (SELECT cell, consumer, {_READER} AS reader, partition, producer, incarnation, seq,
  "offset", polled_us,
  lead(polled_us) OVER (PARTITION BY cell, {_READER}, partition, "offset" ORDER BY polled_us) AS next_us FROM recv)
SELECT DISTINCT a.cell, a.producer, a.incarnation, a.seq FROM again a
JOIN commit_limits l ON a.cell = l.cell AND a.reader = l.reader
JOIN recv x ON x.cell = a.cell AND x.consumer = a.consumer AND x.partition = a.partition
WHERE x."offset" > a."offset" AND x.polled_us < a.next_us AND x.polled_us - a.polled_us > l.limit_us""",
    ),
    Anomaly(
        name="dup_bound_exceeded",
        family="duplication",
        title="Delivered again below the commit",
        rule="A member of a group begins, after an assignment, at an offset below what its group had committed: more "
        "than the uncommitted window comes again.",
        evidence=_HISTORY,
    ),
    # --- order ---
    Anomaly(
        name="reordered",
        family="order",
        title="Reordered in the log",
        rule="The record's first offset comes after the first offset of a record that the same producer sent later "
        "to the same partition.",
        sql="""WITH firsts AS (SELECT cell, partition, producer, incarnation, seq, min("offset") AS first_offset
  FROM log GROUP BY cell, partition, producer, incarnation, seq),
running AS (SELECT *, max(seq) OVER (PARTITION BY cell, partition, producer, incarnation ORDER BY first_offset) AS top
  FROM firsts)
SELECT DISTINCT cell, producer, incarnation, seq FROM running WHERE seq < top""",
    ),
    Anomaly(
        name="nonmonotonic_poll",
        family="order",
        title="Poll went back",
        rule="A consumer polls an offset that is not above the highest one of its poll before, of the same partition.",
        evidence=_RECV,
        sql=f"""WITH {_POLLS}
SELECT DISTINCT r.cell, r.producer, r.incarnation, r.seq FROM recv r JOIN polls p
  USING (cell, consumer, partition, polled_us)
WHERE p.low <= p.before AND r."offset" <= p.before""",
    ),
    Anomaly(
        name="poll_skip",
        family="order",
        title="Poll left a gap",
        rule="The final read has the record between the highest offset of one poll and the lowest of the next, of "
        "one consumer. It may come later. Holes in the log are no gaps.",
        evidence=_RECV,
        sql=f"""WITH {_POLLS}
SELECT DISTINCT l.cell, l.producer, l.incarnation, l.seq FROM log l JOIN polls p USING (cell, partition)
WHERE l."offset" > p.before AND l."offset" < p.low""",
    ),
    Anomaly(
        name="send_realtime_violation",
        family="order",
        title="Offset from the past",
        rule="The record is acknowledged at an offset that is not above one that was acknowledged before the record "
        "was handed to the client. Times count in whole steps of 10 ms.",
        sql="""SELECT DISTINCT s.cell, s.producer, s.incarnation, s.seq FROM send s
WHERE s.status = 0 AND s."offset" >= 0 AND s.sent_us >= 0 AND EXISTS (SELECT 1 FROM send a WHERE a.cell = s.cell
  AND a.partition = s.partition AND a.status = 0 AND a."offset" >= s."offset" AND a.sent_us >= 0
  AND a.acked_us // 10000 < s.sent_us // 10000)""",
    ),
    Anomaly(
        name="epoch_regression",
        family="order",
        title="Leader epoch went back",
        rule="In the final log a batch has a lower leader epoch than one before it, or two epochs share offsets.",
        evidence="final read",
    ),
    # --- transactions ---
    Anomaly(
        name="copy_missing",
        family="transactions",
        title="Not copied",
        rule="The final read finds the record, and no committed copy of it is in the copiers' topic.",
        evidence=_COPIES,
        sql="""SELECT cell, producer, incarnation, seq FROM log JOIN copying USING (cell)
EXCEPT SELECT cell, producer, incarnation, seq FROM copies WHERE outcome = 1""",
    ),
    Anomaly(
        name="copied_twice",
        family="transactions",
        title="Copied twice",
        rule="The copiers' topic holds two committed copies of the record or more.",
        evidence=_COPIES,
        sql="""SELECT cell, producer, incarnation, seq FROM copies WHERE outcome = 1
GROUP BY cell, producer, incarnation, seq HAVING count(*) > 1""",
    ),
    Anomaly(
        name="copy_reordered",
        family="transactions",
        title="Copied out of order",
        rule="The record's first committed copy comes after the first one of a record that the same producer sent "
        "later to the same partition.",
        evidence=_COPIES,
        sql="""WITH firsts AS (SELECT cell, partition, producer, incarnation, seq, min("offset") AS first_offset
  FROM copies WHERE outcome = 1 GROUP BY cell, partition, producer, incarnation, seq),
running AS (SELECT *, max(seq) OVER (PARTITION BY cell, partition, producer, incarnation ORDER BY first_offset) AS top
  FROM firsts)
SELECT DISTINCT cell, producer, incarnation, seq FROM running WHERE seq < top""",
    ),
    Anomaly(
        name="aborted_read",
        family="transactions",
        title="Aborted, yet delivered (G1a)",
        rule="A read_committed consumer got a copy whose transaction the log does not show as committed.",
        evidence=_COPIES,
        sql="""SELECT DISTINCT a.cell, a.producer, a.incarnation, a.seq
FROM audit a JOIN copies c USING (cell, partition, "offset") WHERE c.outcome <> 1""",
    ),
    Anomaly(
        name="precommitted_read",
        family="transactions",
        title="Delivered before the commit",
        rule="A read_committed consumer got a copy before its copier asked for the commit.",
        evidence=_COPIES,
        sql="""SELECT DISTINCT a.cell, a.producer, a.incarnation, a.seq
FROM audit a JOIN copies c USING (cell, partition, "offset") JOIN transactions t
  ON t.cell = c.cell AND t.copier = c.copier AND t.copier_incarnation = c.copier_incarnation AND t.txn = c.txn
WHERE c.outcome = 1 AND a.polled_us < t.asked_us""",
    ),
    Anomaly(
        name="torn_txn",
        family="transactions",
        title="Transaction torn",
        rule="A copy that is not committed, of a transaction of which other copies are or which the copier was told "
        "is committed; or a committed one of a transaction which the copier was told is aborted.",
        evidence=_COPIES,
        sql="""WITH fates AS (SELECT cell, copier, copier_incarnation, txn, max(outcome) AS best FROM copies
  WHERE txn >= 0 GROUP BY ALL)
SELECT DISTINCT c.cell, c.producer, c.incarnation, c.seq
FROM copies c JOIN fates f USING (cell, copier, copier_incarnation, txn)
LEFT JOIN transactions t USING (cell, copier, copier_incarnation, txn)
WHERE (c.outcome <> 1 AND (f.best = 1 OR t.is_committed = 1)) OR (c.outcome = 1 AND t.is_committed = 0)""",
    ),
    Anomaly(
        name="zombie_write",
        family="transactions",
        title="Fenced producer wrote",
        rule="A batch is appended with a producer epoch below one that the partition had of that producer id before.",
        evidence=_JOURNAL,
    ),
    Anomaly(
        name="conservation",
        family="transactions",
        title="Sum not kept",
        rule="A total that every transaction keeps is read with another value than at first.",
        evidence=_HISTORY,
    ),
    # --- replication ---
    Anomaly(
        name="replica_divergence",
        family="replication",
        title="Replicas differ",
        rule="After healing, two replicas hold another batch (leader epoch or CRC) at an offset that both have.",
        evidence="segment files of all replicas",
    ),
    Anomaly(
        name="isr_never_recovers",
        family="replication",
        title="ISR stays short",
        rule="At the end of the cell, all faults healed, a partition has fewer in-sync replicas than replicas.",
        evidence=_EVENTS,
    ),
    Anomaly(
        name="two_leaders_ack",
        family="replication",
        title="Acknowledged by a deposed leader",
        rule="A batch that a leader appended under an older epoch, after a leader of a newer epoch had appended to the "
        "same partition, is acknowledged at an offset that the newer leader had not given.",
        evidence=_JOURNAL,
    ),
    Anomaly(
        name="truncate_below_hw",
        family="replication",
        title="Truncated below the high watermark",
        rule="A replica cuts its log back below an end offset that consumers were shown before.",
        evidence=_EVENTS,
    ),
    Anomaly(
        name="two_controllers",
        family="replication",
        title="Two controllers in one epoch",
        rule="Two brokers say that they were elected controller in the same epoch.",
        evidence=_JOURNAL,
    ),
    # --- groups ---
    Anomaly(
        name="commit_regression",
        family="groups",
        title="Committed offset went back",
        rule="A group's committed offset of a partition is lower than before, without a reset between.",
        evidence=_HISTORY,
    ),
    Anomaly(
        name="double_owner",
        family="groups",
        title="Two owners",
        rule="A member is assigned a partition in a generation in which another member holds it, or before its owner, "
        "alive and not hindered by a fault, has let go of it.",
        evidence=_HISTORY,
    ),
    Anomaly(
        name="rebalance_storm",
        family="groups",
        title="Rebalance storm",
        rule="More than 20 generations of a group within a minute.",
        evidence=_HISTORY,
    ),
    Anomaly(
        name="stuck_consumer",
        family="groups",
        title="Stuck consumer",
        rule="A member's position stands still for 10 s while there is something to read; or a group had not been "
        "given all of a partition when the drain was over.",
        evidence=_HISTORY + ", harness",
    ),
    Anomaly(
        name="spurious_reset",
        family="groups",
        title="Reset without a cause",
        rule="A consumer's position is reset although its offset was in range and committed.",
        evidence=_HISTORY,
    ),
    # --- liveness ---
    Anomaly(
        name="no_recovery",
        family="liveness",
        title="Cluster did not recover",
        rule="45 s after the last fault was healed, a partition has no leader or no full ISR.",
        evidence="harness",
    ),
    Anomaly(
        name="crashed",
        family="liveness",
        title="Broker crashed",
        rule="A broker process ended that the harness had neither killed nor stopped, whose disk had not failed and "
        "from which no fault kept descriptors or memory.",
        evidence="harness",
    ),
    Anomaly(
        name="hang",
        family="liveness",
        title="Client hung",
        rule="The load did not come to its end within its planned time, its drain and 45 s.",
        evidence="harness",
    ),
    Anomaly(
        name="client_died",
        family="liveness",
        title="Client gave up",
        rule="A member or copier process ended, and no fault had ended it.",
        evidence="harness",
    ),
    Anomaly(
        name="harness_error",
        family="meta",
        title="Harness failed",
        rule="The cell could not be carried out, and neither cluster nor client is to blame. Never a pass.",
        evidence="harness",
    ),
)
BY_NAME: dict[str, Anomaly] = {anomaly.name: anomaly for anomaly in ANOMALIES}
# Not computed: cycles between transactions (G0, G1c), because Kafka's transactions interleave by design and reads of
# keys by other transactions are not recorded; LSO stalls (hanging transactions), which no stream shows.
