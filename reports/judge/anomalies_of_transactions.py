"""Rules of transactions: copies in the copiers' topic, and who reads them. `anomalies.py` says how to read them."""

from __future__ import annotations

from reports.judge.anomaly import HISTORY, JOURNAL, Anomaly, delivered_again, out_of_order, readers_of

_COPIES = "copies in the copiers' topic and their markers"
_BOTH = "copies in the copiers' topic, records of a load in transactions, and markers"
_AUDITORS = f"auditors AS {readers_of('audit')}"

ANOMALIES_OF_TRANSACTIONS: tuple[Anomaly, ...] = (
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
        sql=out_of_order("copies WHERE outcome = 1"),
    ),
    Anomaly(
        name="aborted_read",
        family="transactions",
        title="Aborted, yet delivered (G1a)",
        rule="A read_committed consumer got a copy, or a record of a load in transactions, and the log does not show "
        "its transaction as committed.",
        evidence=_BOTH,
        sql="""SELECT DISTINCT a.cell, a.producer, a.incarnation, a.seq
FROM audit a JOIN copies c USING (cell, partition, "offset") WHERE c.outcome <> 1
UNION SELECT r.cell, r.producer, r.incarnation, r.seq FROM recv r
JOIN committed_readers e ON r.cell = e.cell AND coalesce(r.reader, 0) = e.reader
JOIN uncommitted u ON r.cell = u.cell AND r.partition = u.partition AND r."offset" = u."offset"
  AND r.producer = u.producer AND r.incarnation = u.incarnation AND r.seq = u.seq""",
    ),
    Anomaly(
        name="precommitted_read",
        family="transactions",
        title="Delivered before the commit",
        rule="A read_committed consumer got a copy before its copier asked for the commit. Or it got a record of a "
        "load in transactions before the last record of the same transaction was handed to the client. All records "
        "of a transaction have the time of its end, and no other one of the producer has it. Records of producers on "
        "load hosts do not count, because readers may have other clocks.",
        evidence=_BOTH,
        sql="""WITH ends AS (SELECT cell, producer, incarnation, acked_us, max(sent_us) AS last_us FROM send
  WHERE status = 0 AND acked_us >= 0 AND cell IN (SELECT cell FROM transacting)
  GROUP BY cell, producer, incarnation, acked_us)
SELECT DISTINCT a.cell, a.producer, a.incarnation, a.seq
FROM audit a JOIN copies c USING (cell, partition, "offset") JOIN transactions t
  ON t.cell = c.cell AND t.copier = c.copier AND t.copier_incarnation = c.copier_incarnation AND t.txn = c.txn
WHERE c.outcome = 1 AND a.polled_us < t.asked_us
UNION SELECT r.cell, r.producer, r.incarnation, r.seq FROM recv r
JOIN committed_readers e ON r.cell = e.cell AND coalesce(r.reader, 0) = e.reader
JOIN send s ON r.cell = s.cell AND r.producer = s.producer AND r.incarnation = s.incarnation AND r.seq = s.seq
JOIN ends t ON s.cell = t.cell AND s.producer = t.producer AND s.incarnation = t.incarnation
  AND s.acked_us = t.acked_us
WHERE s.status = 0 AND r.polled_us < t.last_us
  AND NOT EXISTS (SELECT 1 FROM clock_errors c WHERE c.cell = s.cell AND c.producer = s.producer)""",
    ),
    Anomaly(
        name="torn_txn",
        family="transactions",
        title="Transaction torn",
        rule="A copy is not committed, although other copies of its transaction are, or although the copier was told "
        "that the transaction is committed. Or a copy is committed, although the copier was told that its transaction "
        "is aborted. Or a record of a load in transactions is not committed, although others of its transaction are, "
        "of which the producer does not know how it ended. (If it knows that, the record is lost, or a phantom.) Where "
        "records of the load may have been removed, this is not judged.",
        evidence=_BOTH,
        sql="""WITH fates AS (SELECT cell, copier, copier_incarnation, txn, max(outcome) AS best FROM copies
  WHERE txn >= 0 GROUP BY ALL),
doubtful AS (SELECT s.*, EXISTS (SELECT 1 FROM log l WHERE l.cell = s.cell AND l.producer = s.producer
    AND l.incarnation = s.incarnation AND l.seq = s.seq) AS is_there
  FROM send s WHERE s.status = 2 AND s.acked_us >= 0 AND s.cell IN (SELECT cell FROM transacting)
    AND s.cell NOT IN (SELECT cell FROM removals))
SELECT DISTINCT c.cell, c.producer, c.incarnation, c.seq
FROM copies c JOIN fates f USING (cell, copier, copier_incarnation, txn)
LEFT JOIN transactions t USING (cell, copier, copier_incarnation, txn)
WHERE (c.outcome <> 1 AND (f.best = 1 OR t.is_committed = 1)) OR (c.outcome = 1 AND t.is_committed = 0)
UNION SELECT d.cell, d.producer, d.incarnation, d.seq FROM doubtful d WHERE NOT d.is_there AND EXISTS (
  SELECT 1 FROM doubtful o WHERE o.cell = d.cell AND o.producer = d.producer AND o.incarnation = d.incarnation
  AND o.acked_us = d.acked_us AND o.is_there)""",
    ),
    Anomaly(
        name="copy_passed_over",
        family="transactions",
        title="Committed, yet passed over",
        rule="The copiers' topic holds a committed copy at or below the last offset that a read_committed reader got "
        "from the partition, and the reader never got it there. So it saw only a part of the transaction, or nothing. "
        "If a reader begins at the end of the log, only copies above its first offset count.",
        evidence=_COPIES,
        sql=f"""WITH {_AUDITORS}
SELECT DISTINCT c.cell, c.producer, c.incarnation, c.seq FROM copies c JOIN auditors r USING (cell, partition)
WHERE c.outcome = 1 AND c."offset" BETWEEN r.first AND r.last AND NOT EXISTS (SELECT 1 FROM audit a
  WHERE a.cell = c.cell AND coalesce(a.reader, 0) = r.reader AND a.partition = c.partition AND a."offset" = c."offset"
  AND a.producer = c.producer AND a.incarnation = c.incarnation AND a.seq = c.seq)""",
    ),
    Anomaly(
        name="copy_delivered_twice",
        family="transactions",
        title="Copy delivered twice",
        rule="A read_committed reader got the same offset of the copiers' topic more than once.",
        evidence=_COPIES,
        sql=delivered_again("audit", "a"),
    ),
    Anomaly(
        name="copy_gone",
        family="transactions",
        title="Copy delivered and then gone",
        rule="A read_committed reader got an intact copy at an offset where the copiers' topic does not have it.",
        evidence=_COPIES,
        sql="""SELECT DISTINCT a.cell, a.producer, a.incarnation, a.seq FROM audit a WHERE a.crc_ok = 1 AND NOT EXISTS (
  SELECT 1 FROM copies c WHERE c.cell = a.cell AND c.partition = a.partition AND c."offset" = a."offset"
  AND c.producer = a.producer AND c.incarnation = a.incarnation AND c.seq = a.seq)""",
    ),
    Anomaly(
        name="copy_corrupt",
        family="transactions",
        title="Copy corrupt",
        rule="A copy in the copiers' topic, or as a reader got it, does not match the checksum of its content.",
        evidence=_COPIES,
        sql="""SELECT DISTINCT cell, producer, incarnation, seq FROM copies WHERE crc_ok = 0
UNION SELECT DISTINCT cell, producer, incarnation, seq FROM audit WHERE crc_ok = 0""",
    ),
    Anomaly(
        name="copy_unexpected",
        family="transactions",
        title="Copy of nothing",
        rule="The copiers' topic holds an intact committed copy of a record that no producer of this cell sent.",
        evidence=_COPIES,
        sql="""SELECT cell, producer, incarnation, seq FROM copies WHERE outcome = 1 AND crc_ok = 1
EXCEPT SELECT cell, producer, incarnation, seq FROM send""",
    ),
    Anomaly(
        name="zombie_write",
        family="transactions",
        title="Fenced producer wrote",
        rule="A batch is appended with a lower producer epoch than the partition had seen before from that producer "
        "id.",
        evidence=JOURNAL,
    ),
    Anomaly(
        name="conservation",
        family="transactions",
        title="Sum not kept",
        rule="Every transaction keeps a total, but a read shows another value of it than the first read.",
        evidence=HISTORY,
    ),
)
