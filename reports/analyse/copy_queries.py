"""The Spark SQL on copies: what copiers wrote, how their transactions ended, and what read_committed readers got.

Views needed: log, send, copies, audit (runlog.streams.schema plus `cell`) and the small tables copying, transactions
and early_readers. tests/reports/test_reports_exactness.py compares it with plain Python.
"""

from __future__ import annotations

# Copies are made in chaos cells only, some ten thousand of them: plain joins do.

# `copying`: the cells with copiers.
MISSING = """
SELECT /*+ BROADCAST(c) */ l.cell, 'copy_missing' AS kind, l.producer, l.incarnation, l.seq
FROM log l LEFT SEMI JOIN copying c ON l.cell = c.cell
LEFT ANTI JOIN (SELECT * FROM copies WHERE outcome = 1) d
  ON l.cell = d.cell AND l.producer = d.producer AND l.incarnation = d.incarnation AND l.seq = d.seq
"""

# Without a row in `copies` there are none. `transactions`, as copiers were told: cell, copier, copier_incarnation, txn,
# is_committed, asked_us.
OF_COPIES = """
SELECT cell, 'copied_twice' AS kind, producer, incarnation, seq FROM copies WHERE outcome = 1
GROUP BY cell, producer, incarnation, seq HAVING count(*) > 1
UNION ALL
SELECT cell, 'copy_reordered', producer, incarnation, seq
FROM (SELECT *, max(seq) OVER (PARTITION BY cell, partition, producer, incarnation ORDER BY first_offset) AS top
      FROM (SELECT cell, partition, producer, incarnation, seq, min(offset) AS first_offset
            FROM copies WHERE outcome = 1 GROUP BY cell, partition, producer, incarnation, seq))
WHERE seq < top
UNION ALL
SELECT c.cell, 'torn_txn', c.producer, c.incarnation, c.seq
FROM (SELECT *, max(outcome) OVER (PARTITION BY cell, copier, copier_incarnation, txn) AS best
      FROM copies WHERE txn >= 0) c
LEFT JOIN transactions t ON t.cell = c.cell AND t.copier = c.copier AND t.copier_incarnation = c.copier_incarnation
 AND t.txn = c.txn
WHERE (c.outcome <> 1 AND (c.best = 1 OR t.is_committed = 1)) OR (c.outcome = 1 AND t.is_committed = 0)
UNION ALL
SELECT cell, 'copy_corrupt', producer, incarnation, seq FROM copies WHERE crc_ok = 0
UNION ALL
SELECT c.cell, 'copy_unexpected', c.producer, c.incarnation, c.seq
FROM (SELECT * FROM copies WHERE outcome = 1 AND crc_ok = 1) c LEFT ANTI JOIN send s
  ON c.cell = s.cell AND c.producer = s.producer AND c.incarnation = s.incarnation AND c.seq = s.seq
"""

# Without a row in `audit` there are none.
OF_AUDIT = """
SELECT cell, 'copy_delivered_twice' AS kind, producer, incarnation, seq
FROM (SELECT *, count(*) OVER (PARTITION BY cell, coalesce(reader, 0), partition, offset) AS times FROM audit)
WHERE times > 1
UNION ALL
SELECT a.cell, 'copy_gone', a.producer, a.incarnation, a.seq
FROM (SELECT * FROM audit WHERE crc_ok = 1) a LEFT ANTI JOIN copies c
  ON a.cell = c.cell AND a.partition = c.partition AND a.offset = c.offset AND a.producer = c.producer
 AND a.incarnation = c.incarnation AND a.seq = c.seq
UNION ALL
SELECT cell, 'copy_corrupt', producer, incarnation, seq FROM audit WHERE crc_ok = 0
"""

# These need both.
OF_BOTH = """
SELECT a.cell, 'aborted_read' AS kind, a.producer, a.incarnation, a.seq
FROM audit a JOIN copies c ON a.cell = c.cell AND a.partition = c.partition AND a.offset = c.offset
WHERE c.outcome <> 1
UNION ALL
SELECT a.cell, 'precommitted_read', a.producer, a.incarnation, a.seq
FROM audit a JOIN copies c ON a.cell = c.cell AND a.partition = c.partition AND a.offset = c.offset
JOIN transactions t ON t.cell = c.cell AND t.copier = c.copier AND t.copier_incarnation = c.copier_incarnation
 AND t.txn = c.txn
WHERE c.outcome = 1 AND a.polled_us < t.asked_us
UNION ALL
SELECT c.cell, 'copy_passed_over', c.producer, c.incarnation, c.seq
FROM (SELECT /*+ BROADCAST(e) */ c.*, r.reader
      FROM copies c
      JOIN (SELECT cell, coalesce(reader, CAST(0 AS SMALLINT)) AS reader, partition, min(offset) AS first,
                   max(offset) AS last FROM audit GROUP BY cell, coalesce(reader, CAST(0 AS SMALLINT)), partition) r
        ON c.cell = r.cell AND c.partition = r.partition
      LEFT JOIN early_readers e ON r.cell = e.cell AND r.reader = e.reader
      WHERE c.outcome = 1 AND c.offset <= r.last AND c.offset >= IF(e.reader IS NULL, r.first, 0L)) c
LEFT ANTI JOIN audit a
  ON c.cell = a.cell AND c.reader = coalesce(a.reader, 0) AND c.partition = a.partition AND c.offset = a.offset
 AND c.producer = a.producer AND c.incarnation = a.incarnation AND c.seq = a.seq
"""
