"""The Spark SQL on a load that is sent in transactions.

All records that are decided with a transaction have the time of its end (`acked_us`), and no other transaction of the
producer has that time. So it names the transaction.

Views needed: send, recv, log, uncommitted (runlog.streams.schema plus `cell`), removals, and the small tables
committed_readers, clock_errors and transacting. tests/reports/test_reports_exactness.py compares it with plain Python.
"""

from __future__ import annotations

# `committed_readers` (cell, reader): those with isolation.level=read_committed, of a load in transactions.
_COMMITTED_READS = """
SELECT /*+ BROADCAST(e) */ r.* FROM recv r LEFT SEMI JOIN committed_readers e
  ON r.cell = e.cell AND coalesce(r.reader, CAST(0 AS SMALLINT)) = e.reader
"""

ABORTED_READ = f"""
SELECT r.cell, r.producer, r.incarnation, r.seq FROM ({_COMMITTED_READS}) r LEFT SEMI JOIN uncommitted u
  ON r.cell = u.cell AND r.partition = u.partition AND r.offset = u.offset AND r.producer = u.producer
 AND r.incarnation = u.incarnation AND r.seq = u.seq
"""

# `transacting`: the cells with such a load. The commit was asked for after the last record had been handed over. That
# time is by the clock of the producer: if this is the one of a load host, no reader's time is compared with it.
_TRANSACTIONS = """
SELECT /*+ BROADCAST(t) */ s.cell, s.producer, s.incarnation, s.acked_us, max(s.sent_us) AS last_us
FROM send s LEFT SEMI JOIN transacting t ON s.cell = t.cell
WHERE s.status = 0 AND s.acked_us >= 0 GROUP BY s.cell, s.producer, s.incarnation, s.acked_us
"""

PRECOMMITTED_READ = f"""
SELECT r.cell, r.producer, r.incarnation, r.seq
FROM ({_COMMITTED_READS}) r
JOIN (SELECT s.cell, s.producer, s.incarnation, s.seq, t.last_us FROM send s JOIN ({_TRANSACTIONS}) t
        ON s.cell = t.cell AND s.producer = t.producer AND s.incarnation = t.incarnation AND s.acked_us = t.acked_us
      LEFT ANTI JOIN clock_errors c ON s.cell = c.cell AND s.producer = c.producer WHERE s.status = 0) d
  ON r.cell = d.cell AND r.producer = d.producer AND r.incarnation = d.incarnation AND r.seq = d.seq
WHERE r.polled_us < d.last_us
"""

# Where records were removed, nobody knows whether one that is missing had been committed.
TORN = """
SELECT cell, producer, incarnation, seq
FROM (SELECT /*+ BROADCAST(t) */ s.cell, s.producer, s.incarnation, s.seq, l.seq IS NOT NULL AS is_there,
             max(IF(l.seq IS NOT NULL, 1, 0)) OVER (PARTITION BY s.cell, s.producer, s.incarnation, s.acked_us) AS some
      FROM send s LEFT SEMI JOIN transacting t ON s.cell = t.cell LEFT ANTI JOIN removals i ON s.cell = i.cell
      LEFT JOIN (SELECT DISTINCT cell, producer, incarnation, seq FROM log) l
        ON s.cell = l.cell AND s.producer = l.producer AND s.incarnation = l.incarnation AND s.seq = l.seq
      WHERE s.status = 2 AND s.acked_us >= 0)
WHERE some = 1 AND NOT is_there
"""
