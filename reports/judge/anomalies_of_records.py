"""Rules of what happens to records: durability, duplication and order. `anomalies.py` says how to read them."""

from __future__ import annotations

from reports.evidence.history import COMMIT_SLACK_US
from reports.judge.anomaly import (
    ANY_REMOVED,
    EVENTS,
    HISTORY,
    JOURNAL,
    MISROUTED,
    PLACED,
    READER,
    RECV,
    REMOVALS,
    REMOVED,
    Anomaly,
    delivered_again,
    is_removed,
    out_of_order,
    readers_of,
)

_READERS = f"""readers AS {readers_of("recv")},
delivered AS (SELECT DISTINCT cell, {READER} AS reader, partition, "offset", producer, incarnation, seq FROM recv)"""
_POLLS = """polls AS (SELECT cell, consumer, partition, polled_us, min("offset") AS low,
  lag(max("offset")) OVER (PARTITION BY cell, consumer, partition ORDER BY polled_us) AS before
  FROM recv GROUP BY cell, consumer, partition, polled_us)"""

ANOMALIES_OF_RECORDS: tuple[Anomaly, ...] = (
    # --- durability ---
    Anomaly(
        name="lost",
        family="durability",
        title="Lost after acknowledgement",
        rule="The client got a success for the record, and the final read of the log finds it at no offset. A record "
        "that is removed, or removed in doubt, is not lost.",
        sql=f"""SELECT DISTINCT cell, producer, incarnation, seq FROM send WHERE status = 0
EXCEPT SELECT cell, producer, incarnation, seq FROM log
EXCEPT {ANY_REMOVED}""",
    ),
    Anomaly(
        name="removed",
        family="durability",
        title="Removed lawfully",
        rule="The record was acknowledged or delivered, and the final read finds it at no offset. Below the start of "
        "the final log, retention or DeleteRecords had to remove it, or might do so: its segment was too much for "
        "retention.bytes or too old for retention.ms, or somebody asked for it. Or a compaction went over it, and the "
        "final log has a newer record of its key in that partition. No truncation had taken it before. This is no "
        "damage.",
        evidence=REMOVALS,
        sql=f"""{REMOVED} SELECT cell, producer, incarnation, seq FROM removed WHERE is_known = 1
INTERSECT SELECT * FROM missing""",
    ),
    Anomaly(
        name="removed_in_doubt",
        family="durability",
        title="Removed, and nobody knows why",
        rule="As `removed`, but nobody knows whether it was lawful. Without a journal that is so if retention.bytes "
        "and retention.ms do not explain where the log begins; if cleanup.policy has compact, of records with a newer "
        "one of their key, or of all that are gone if keys are not known. If records were removed, it is so too of a "
        "missing record whose offset nobody was told.",
        evidence=REMOVALS,
        sql=f"""{REMOVED} SELECT cell, producer, incarnation, seq FROM removed
INTERSECT SELECT * FROM missing EXCEPT SELECT cell, producer, incarnation, seq FROM removed WHERE is_known = 1""",
    ),
    Anomaly(
        name="misrouted",
        family="durability",
        title="In the wrong topic or partition",
        rule="The final read finds the record in a topic that its producer did not send it to, or in several "
        "partitions, or in none but other partitions than the client named. The client chooses both, and a broker "
        "appends where the request says. So the client is the suspect.",
        sql=MISROUTED,
    ),
    Anomaly(
        name="offset_reused",
        family="durability",
        title="Acknowledged offset holds another record",
        rule="The final read finds another record at the partition and offset of the record's acknowledgement. A "
        "misrouted record does not count.",
        sql=f"""WITH {PLACED} SELECT DISTINCT s.cell, s.producer, s.incarnation, s.seq
FROM placed s JOIN log l USING (cell, partition, "offset")
WHERE s.status = 0 AND s."offset" >= 0
  AND NOT (s.producer = l.producer AND s.incarnation = l.incarnation AND s.seq = l.seq)""",
    ),
    Anomaly(
        name="ack_misplaced",
        family="durability",
        title="Acknowledged where nothing is",
        rule="The final read finds the record, but not at the partition and offset of its acknowledgement. There it "
        "finds nothing: the offset is beyond the log's end or in a hole. (If another record is there, this is "
        "offset_reused. If the record is in another partition, it is misrouted. If it is nowhere, it is lost.) Offsets "
        "at which records may have been removed do not count.",
        sql=f"""WITH {PLACED} SELECT DISTINCT s.cell, s.producer, s.incarnation, s.seq FROM placed s
WHERE s.status = 0 AND s."offset" >= 0
  AND EXISTS (SELECT 1 FROM log l WHERE l.cell = s.cell AND l.producer = s.producer AND l.incarnation = s.incarnation
    AND l.seq = s.seq)
  AND NOT EXISTS (SELECT 1 FROM log l WHERE l.cell = s.cell AND l.partition = s.partition
    AND l."offset" = s."offset")
  AND NOT {is_removed("s")}""",
    ),
    Anomaly(
        name="answered_twice",
        family="durability",
        title="Answered twice",
        rule="The client reported two outcomes of one send: acknowledged twice, or acknowledged and failed. If the "
        "same outcome is recorded twice, the run log contradicts itself instead.",
        evidence="acknowledgements",
        sql="""SELECT cell, producer, incarnation, seq FROM send GROUP BY cell, producer, incarnation, seq
HAVING count(DISTINCT (status, partition, "offset", acked_us)) > 1""",
    ),
    Anomaly(
        name="lost_in_delivery",
        family="durability",
        title="Passed over in delivery",
        rule="The final read has the record at or below the last offset that a reader got from the partition, and the "
        "reader never got it there. If a reader begins at the end of the log (start: latest), only records between its "
        "first and its last offset count. A reader is all consumers of one name, with fixed partitions or in a group.",
        evidence=RECV,
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
        rule="The final read has the record after the last offset that a reader got from the partition. This is no "
        "damage: the reader was stopped before.",
        evidence=RECV,
        sql=f"""WITH {_READERS}
SELECT DISTINCT l.cell, l.producer, l.incarnation, l.seq FROM log l JOIN readers r USING (cell, partition)
WHERE l."offset" > r.last""",
    ),
    Anomaly(
        name="unread",
        family="durability",
        title="Never delivered",
        rule="The final read has the record. A reader that begins at the log's start got no record of this partition, "
        "but got records of other partitions. Partitions that were added to the topic count for groups only. This is "
        "no damage by itself, but the cell does not show whether delivery works there.",
        evidence=RECV,
        sql=f"""WITH {_READERS}
SELECT DISTINCT l.cell, l.producer, l.incarnation, l.seq FROM log l JOIN early_readers e ON l.cell = e.cell
WHERE l.partition < e.end_partition
  AND EXISTS (SELECT 1 FROM readers r WHERE r.cell = e.cell AND r.reader = e.reader)
  AND NOT EXISTS (SELECT 1 FROM readers r WHERE r.cell = e.cell AND r.reader = e.reader
    AND r.partition = l.partition)""",
    ),
    Anomaly(
        name="acked_below_min_isr",
        family="durability",
        title="Acknowledged below min.insync.replicas",
        rule="With acks=all, the leader appended a batch while it knew of fewer in-sync replicas than "
        "min.insync.replicas, and the batch was acknowledged before the leader knew of enough.",
        evidence=JOURNAL,
    ),
    Anomaly(
        name="hw_regression",
        family="durability",
        title="High watermark went back",
        rule="A broker shows consumers a lower end offset than it showed before. Two brokers are not compared: a new "
        "leader knows the high watermark of its last fetch, and may show less for a moment. A topic that is created "
        "anew begins again.",
        evidence=EVENTS,
    ),
    Anomaly(
        name="read_above_hw",
        family="durability",
        title="Delivered and then gone",
        rule="A consumer got an intact record at an offset where the final read does not have it. Offsets at which "
        "records may have been removed do not count. What the final read has there may be uncommitted.",
        evidence=RECV,
        sql=f"""SELECT DISTINCT r.cell, r.producer, r.incarnation, r.seq FROM recv r WHERE r.crc_ok = 1 AND NOT EXISTS (
  SELECT 1 FROM log l WHERE l.cell = r.cell AND l.partition = r.partition AND l."offset" = r."offset"
  AND l.producer = r.producer AND l.incarnation = r.incarnation AND l.seq = r.seq)
  AND NOT EXISTS (SELECT 1 FROM uncommitted u WHERE u.cell = r.cell AND u.partition = r.partition
    AND u."offset" = r."offset" AND u.producer = r.producer AND u.incarnation = r.incarnation AND u.seq = r.seq)
  AND NOT {is_removed("r")}""",
    ),
    Anomaly(
        name="lost_unacked",
        family="durability",
        title="Lost, never acknowledged",
        rule="The client counted the record as sent without an answer of a broker (acks=0: the outcome is unknown, "
        "without an error), and the final read finds it at no offset. This is a loss but breaks no promise, because "
        "nothing was acknowledged. A send that ended with an error does not count, nor does a record that is removed, "
        "or removed in doubt.",
        sql=f"""SELECT DISTINCT cell, producer, incarnation, seq FROM send WHERE status = 2 AND error = 0
EXCEPT SELECT cell, producer, incarnation, seq FROM log
EXCEPT {ANY_REMOVED}""",
    ),
    Anomaly(
        name="recovered",
        family="durability",
        title="Recovered",
        rule="The client does not know the outcome, and the final read finds the record. This is no damage. A "
        "misrouted record does not count.",
        sql=f"""SELECT cell, producer, incarnation, seq FROM send WHERE status = 2
INTERSECT SELECT cell, producer, incarnation, seq FROM log
EXCEPT SELECT cell, producer, incarnation, seq FROM send WHERE status <> 2
EXCEPT {MISROUTED}""",
    ),
    Anomaly(
        name="phantom",
        family="durability",
        title="Failed for certain, yet there",
        rule="The client got an error which means that nothing was appended, or the record's transaction was aborted, "
        "but the final read finds the record, and committed.",
        sql="""SELECT cell, producer, incarnation, seq FROM send WHERE status IN (1, 3)
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
        name="foreign",
        family="durability",
        title="Not of this run",
        rule="The final read finds records that no producer of the harness can have made. They have no identity, so "
        "they are only counted. Markers of transactions are not records.",
        evidence="final read",
    ),
    Anomaly(
        name="corrupt",
        family="durability",
        title="Corrupt",
        rule="The final read finds that the content of the record does not match its own checksum, or that its batch "
        "has a wrong CRC. A damaged record that a reader got counts too. So does a batch with a wrong CRC whose "
        "records cannot be read.",
        sql="SELECT DISTINCT cell, producer, incarnation, seq FROM log WHERE crc_ok = 0",
    ),
    # --- duplication ---
    Anomaly(
        name="duplicated",
        family="duplication",
        title="Duplicated in the log",
        rule="The final read finds the record at two offsets of a partition or more. Copies in several partitions are "
        "misrouted: a request that is repeated goes to the partition that it went to before.",
        sql="""SELECT DISTINCT cell, producer, incarnation, seq FROM log
GROUP BY cell, producer, incarnation, seq, partition HAVING count(DISTINCT "offset") > 1""",
    ),
    Anomaly(
        name="dup_delivered",
        family="duplication",
        title="Delivered twice",
        rule="One consumer received the same offset of the same partition more than once.",
        evidence=RECV,
        sql="""SELECT DISTINCT r.cell, r.producer, r.incarnation, r.seq FROM recv r JOIN (
  SELECT cell, consumer, partition, "offset" FROM recv GROUP BY cell, consumer, partition, "offset" HAVING count(*) > 1
) twice ON r.cell = twice.cell AND r.consumer = twice.consumer AND r.partition = twice.partition
  AND r."offset" = twice."offset" """,
    ),
    Anomaly(
        name="redelivered",
        family="duplication",
        title="Delivered again to its group",
        rule="A reader got the same offset of the same partition more than once, from any of its consumers.",
        evidence=RECV,
        sql=delivered_again("recv", "r"),
    ),
    Anomaly(
        name="redelivered_overdue",
        family="duplication",
        title="Delivered again, though its commit was due",
        rule="A group got a record again, although its offset should have been committed: its first consumer still got "
        f"later records of the partition more than the commit interval and {COMMIT_SLACK_US // 1_000_000} s after it. "
        "So redelivery is bounded by commit interval times rate. This is judged only for groups whose members are "
        "processes and not copiers, and only if faults act on clients alone. The longest freeze of a client is added "
        "to the time.",
        evidence=RECV,
        sql=f"""WITH again AS (SELECT cell, consumer, {READER} AS reader, partition, producer, incarnation, seq,
  "offset", polled_us,
  min(polled_us) OVER (PARTITION BY cell, {READER}, partition, "offset" ORDER BY polled_us
    RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS next_us FROM recv)
SELECT DISTINCT a.cell, a.producer, a.incarnation, a.seq FROM again a
JOIN commit_limits l ON a.cell = l.cell AND a.reader = l.reader
JOIN recv x ON x.cell = a.cell AND x.consumer = a.consumer AND x.partition = a.partition
WHERE x."offset" > a."offset" AND x.polled_us < a.next_us AND x.polled_us - a.polled_us > l.limit_us""",
    ),
    Anomaly(
        name="dup_bound_exceeded",
        family="duplication",
        title="Delivered again below the commit",
        rule="After an assignment, a member of a group begins below the offset that its group had committed. So "
        "records that were committed are delivered again.",
        evidence=HISTORY,
    ),
    # --- order ---
    Anomaly(
        name="reordered",
        family="order",
        title="Reordered in the log",
        rule="The record's first offset comes after the first offset of a record that the same producer sent later "
        "to the same partition.",
        sql=out_of_order("log"),
    ),
    Anomaly(
        name="nonmonotonic_poll",
        family="order",
        title="Poll went back",
        rule="A consumer polls an offset that is not above the highest offset of its previous poll of the partition.",
        evidence=RECV,
        sql=f"""WITH {_POLLS}
SELECT DISTINCT r.cell, r.producer, r.incarnation, r.seq FROM recv r JOIN polls p
  USING (cell, consumer, partition, polled_us)
WHERE p.low <= p.before AND r."offset" <= p.before""",
    ),
    Anomaly(
        name="poll_skip",
        family="order",
        title="Poll left a gap",
        rule="The final read has the record between the highest offset of one poll of a consumer and the lowest offset "
        "of its next poll. The record may come later. Offsets without a record are no gaps.",
        evidence=RECV,
        sql=f"""WITH {_POLLS}
SELECT DISTINCT l.cell, l.producer, l.incarnation, l.seq FROM log l JOIN polls p USING (cell, partition)
WHERE l."offset" > p.before AND l."offset" < p.low""",
    ),
    Anomaly(
        name="send_realtime_violation",
        family="order",
        title="Offset from the past",
        rule="An equal or higher offset of the partition had been acknowledged before the record was handed to the "
        "client. Times count in whole steps of 10 ms. Times of two load hosts are compared with the bounds of their "
        "clocks. Misrouted records do not count.",
        sql=f"""WITH {PLACED}, timed AS (SELECT s.*, coalesce(c.host, -1) AS host, c.error_us FROM placed s
  LEFT JOIN clock_errors c USING (cell, producer) WHERE s.status = 0 AND s."offset" >= 0 AND s.sent_us >= 0)
SELECT DISTINCT s.cell, s.producer, s.incarnation, s.seq FROM timed s
WHERE EXISTS (SELECT 1 FROM timed a WHERE a.cell = s.cell AND a.partition = s.partition AND a."offset" >= s."offset"
  AND CASE WHEN a.host = s.host THEN a.acked_us // 10000 < s.sent_us // 10000
      ELSE (a.acked_us + a.error_us) // 10000 < (s.sent_us - s.error_us) // 10000 END)""",
    ),
    Anomaly(
        name="epoch_regression",
        family="order",
        title="Leader epoch went back",
        rule="In the final log a batch has a lower leader epoch than one before it, or two epochs share offsets.",
        evidence="final read",
    ),
)
