"""Spark SQL on deliveries: records that readers got twice, never, out of order, or that the log does not have.

Deliveries are packed into runs of 64 offsets like the final log (`log_queries`), and compared with it run by run.
`SMALL(alias, view)` is a hint of `record_sets`: to broadcast, if the view has few rows.

Views needed: recv and log (runlog.streams.schema plus `cell`), those of `log_queries`, and the small tables
early_readers and commit_limits, which `record_sets.compare_sets` names.
"""

from __future__ import annotations

from runlog.streams.record_keys import TURNS

# What each consumer got, as runs like those of the final log. A consumer belongs to one reader.
READ_RUNS = """
SELECT cell, coalesce(reader, CAST(0 AS SMALLINT)) AS reader, consumer, partition, producer, incarnation,
       shiftright(offset, 6) AS block, seq - offset AS lead,
       bit_or(shiftleft(1L, CAST(offset & 63 AS INT))) AS bits, count(*) AS n, min(offset) AS first, max(offset) AS last
FROM recv
GROUP BY cell, coalesce(reader, CAST(0 AS SMALLINT)), consumer, partition, producer, incarnation, shiftright(offset, 6),
         seq - offset
"""

READ_WORDS = """
SELECT cell, reader, consumer, partition, block, bit_or(bits) AS bits, sum(n) AS n, min(first) AS first,
       max(last) AS last
FROM read_runs GROUP BY cell, reader, consumer, partition, block
"""

TWICE_WORDS = """
SELECT cell, consumer, partition, block FROM read_words GROUP BY cell, consumer, partition, block
HAVING sum(n) <> bit_count(bit_or(bits))
"""

DELIVERED_TWICE = """
SELECT cell, producer, incarnation, seq
FROM (SELECT /*+ SMALL(w, twice_words) */ r.*,
             count(*) OVER (PARTITION BY r.cell, r.consumer, r.partition, r.offset) AS times
      FROM recv r LEFT SEMI JOIN twice_words w
        ON r.cell = w.cell AND r.consumer = w.consumer AND r.partition = w.partition
       AND shiftright(r.offset, 6) = w.block)
WHERE times > 1
"""

# A reader gets everything once, whether its consumers have fixed partitions or are members of a group.
# `early_readers` (cell, reader, end_partition) begin at the log's start, of all partitions below the last.
READERS = """
SELECT /*+ BROADCAST(e) */ r.cell, r.reader, r.partition, IF(e.reader IS NULL, r.first, 0L) AS first, r.last
FROM (SELECT cell, reader, partition, min(first) AS first, max(last) AS last FROM read_words
      GROUP BY cell, reader, partition) r
LEFT JOIN early_readers e ON r.cell = e.cell AND r.reader = e.reader
"""

# Partitions with records from which an early reader got nothing, though it got records of other partitions.
UNREAD_PARTITIONS = """
SELECT DISTINCT p.cell, p.partition
FROM (SELECT /*+ BROADCAST(e) */ l.cell, l.partition, e.reader
      FROM (SELECT DISTINCT cell, partition FROM log_words) l JOIN early_readers e
        ON l.cell = e.cell WHERE l.partition < e.end_partition) p
LEFT SEMI JOIN readers s ON p.cell = s.cell AND p.reader = s.reader
LEFT ANTI JOIN readers r ON p.cell = r.cell AND p.reader = r.reader AND p.partition = r.partition
"""

UNREAD = """
SELECT /*+ BROADCAST(u) */ DISTINCT l.cell, l.producer, l.incarnation, l.seq
FROM log l LEFT SEMI JOIN unread_partitions u ON l.cell = u.cell AND l.partition = u.partition
"""

# Offsets of the final log, in words of 64, that a reader passed or has still before it.
UNDELIVERED = """
SELECT /*+ BROADCAST(r) */ l.cell, r.reader, l.partition, l.block, r.first, r.last,
       l.bits & ~coalesce(d.bits, 0L) AS bits
FROM log_words l JOIN readers r ON l.cell = r.cell AND l.partition = r.partition
LEFT JOIN (SELECT cell, reader, partition, block, bit_or(bits) AS bits FROM read_words
           GROUP BY cell, reader, partition, block) d
  ON l.cell = d.cell AND r.reader = d.reader AND l.partition = d.partition AND l.block = d.block
WHERE l.bits & ~coalesce(d.bits, 0L) <> 0
"""

NOT_DELIVERED = """
SELECT /*+ SMALL(m, undelivered, 64) */ DISTINCT l.cell, m.kind, l.producer, l.incarnation, l.seq
FROM log l JOIN
     (SELECT cell, partition, block * 64 + bit AS offset, IF(block * 64 + bit > last, 'unseen_pending',
             'lost_in_delivery') AS kind
      FROM undelivered LATERAL VIEW explode(sequence(0, 63)) bits_of_word AS bit
      WHERE bits & shiftleft(1L, bit) <> 0 AND block * 64 + bit >= first) m
  ON l.cell = m.cell AND l.partition = m.partition AND l.offset = m.offset
"""

# Blocks in which somebody got a record that the final log does not have there, or may have got another one of two.
READ_BLOCKS = """
SELECT r.cell, r.partition, r.block
FROM read_runs r LEFT JOIN log_runs l
  ON r.cell = l.cell AND r.partition = l.partition AND r.producer = l.producer AND r.incarnation = l.incarnation
 AND r.block = l.block AND r.lead = l.lead
WHERE r.bits & ~coalesce(l.bits, 0L) <> 0
UNION
SELECT cell, partition, block FROM crowded_blocks
"""

# What may have been removed since then is not looked for.
READ_ABOVE_HW = f"""
SELECT /*+ BROADCAST(i) */ DISTINCT r.cell, r.producer, r.incarnation, r.seq
FROM (SELECT /*+ SMALL(b, read_blocks) */ recv.* FROM recv LEFT SEMI JOIN read_blocks b
        ON recv.cell = b.cell AND recv.partition = b.partition AND shiftright(recv.offset, 6) = b.block
      WHERE crc_ok = 1) r
LEFT ANTI JOIN (SELECT /*+ SMALL(b, read_blocks) */ log.* FROM log LEFT SEMI JOIN read_blocks b
        ON log.cell = b.cell AND log.partition = b.partition AND shiftright(log.offset, 6) = b.block) l
  ON r.cell = l.cell AND r.partition = l.partition AND r.offset = l.offset AND r.producer = l.producer
 AND r.incarnation = l.incarnation AND r.seq = l.seq
LEFT ANTI JOIN removals i
  ON r.cell = i.cell AND r.partition = i.partition AND r.offset >= i.from_offset AND r.offset < i.end_offset
 AND i.needs_newer = 0
LEFT ANTI JOIN superseded w
  ON r.cell = w.cell AND r.partition = w.partition AND r.offset >= w.from_offset AND r.offset < w.end_offset
 AND r.seq & {TURNS - 1} = w.turn
"""

# Where a reader got another record than the log has at that offset: it never got the log's.
DELIVERED_OTHERS = """
SELECT DISTINCT l.cell, l.producer, l.incarnation, l.seq
FROM (SELECT /*+ SMALL(b, read_blocks) */ /*+ BROADCAST(r) */ log.*, r.reader FROM log
      LEFT SEMI JOIN read_blocks b
        ON log.cell = b.cell AND log.partition = b.partition AND shiftright(log.offset, 6) = b.block
      JOIN readers r ON log.cell = r.cell AND log.partition = r.partition AND log.offset BETWEEN r.first AND r.last) l
LEFT ANTI JOIN (SELECT /*+ SMALL(b, read_blocks) */ recv.* FROM recv LEFT SEMI JOIN read_blocks b
                  ON recv.cell = b.cell AND recv.partition = b.partition AND shiftright(recv.offset, 6) = b.block) d
  ON l.cell = d.cell AND l.reader = coalesce(d.reader, 0) AND l.partition = d.partition AND l.offset = d.offset
 AND l.producer = d.producer AND l.incarnation = d.incarnation AND l.seq = d.seq
"""

# Polls that do not follow on the one before of the same consumer and partition.
ODD_POLLS = """
SELECT cell, consumer, partition, polled_us, low, before
FROM (SELECT cell, consumer, partition, polled_us, min(offset) AS low,
             lag(max(offset)) OVER (PARTITION BY cell, consumer, partition ORDER BY polled_us) AS before
      FROM recv GROUP BY cell, consumer, partition, polled_us)
WHERE low <> before + 1
"""

NONMONOTONIC_POLL = """
SELECT /*+ SMALL(p, odd_polls) */ DISTINCT r.cell, r.producer, r.incarnation, r.seq
FROM recv r JOIN odd_polls p ON r.cell = p.cell AND r.consumer = p.consumer AND r.partition = p.partition
 AND r.polled_us = p.polled_us
WHERE p.low <= p.before AND r.offset <= p.before
"""

# Where polls left a gap, +1 at its first offset and -1 behind its last one: what has a sum above 0 so far lies in one.
# A gap may be as wide as offsets are: nothing here grows with it.
GAP_ENDS = """
SELECT cell, partition, stack(2, before + 1, 1L, low, -1L) AS (offset, step) FROM odd_polls WHERE low > before + 1
"""

GAP_BLOCKS = """
SELECT cell, partition, block
FROM (SELECT cell, partition, block, is_log, sum(step) OVER (PARTITION BY cell, partition ORDER BY block) AS gaps
      FROM (SELECT l.cell, l.partition, l.block, 0L AS step, true AS is_log
            FROM log_words l LEFT SEMI JOIN gap_ends g ON l.cell = g.cell AND l.partition = g.partition
            UNION ALL
            SELECT cell, partition, stack(2, shiftright(before + 1, 6), 1L, shiftright(low - 1, 6) + 1, -1L)
                     AS (block, step), false
            FROM odd_polls WHERE low > before + 1))
WHERE is_log AND gaps > 0
"""

POLL_SKIP = """
SELECT DISTINCT cell, producer, incarnation, seq
FROM (SELECT *, sum(step) OVER (PARTITION BY cell, partition ORDER BY offset) AS gaps
      FROM (SELECT /*+ SMALL(b, gap_blocks) */ cell, partition, offset, 0L AS step, true AS is_log, producer,
                   incarnation, seq
            FROM log LEFT SEMI JOIN gap_blocks b
              ON log.cell = b.cell AND log.partition = b.partition AND shiftright(log.offset, 6) = b.block
            UNION ALL
            SELECT cell, partition, offset, step, false, NULL, NULL, NULL FROM gap_ends))
WHERE is_log AND gaps > 0
"""

AGAIN_WORDS = """
SELECT cell, reader, partition, block FROM read_words GROUP BY cell, reader, partition, block
HAVING sum(n) <> bit_count(bit_or(bits))
"""

# Deliveries of an offset that its reader got more than once, each with the time of the next later one.
REDELIVERIES = """
SELECT * FROM (
  SELECT /*+ SMALL(w, again_words) */ r.cell, r.consumer, r.partition, r.producer, r.incarnation, r.seq, r.polled_us,
         w.reader, r.offset,
         count(*) OVER (PARTITION BY r.cell, w.reader, r.partition, r.offset) AS times,
         min(r.polled_us) OVER (PARTITION BY r.cell, w.reader, r.partition, r.offset ORDER BY r.polled_us
                                RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS next_us
  FROM recv r JOIN again_words w
    ON r.cell = w.cell AND coalesce(r.reader, CAST(0 AS SMALLINT)) = w.reader AND r.partition = w.partition
   AND shiftright(r.offset, 6) = w.block)
WHERE times > 1
"""

# `commit_limits`: cell, reader, limit_us. Polls stand for their records: all of a poll have its time. Only what comes
# after the record counts: a member that was frozen and begins again below it is given earlier ones first.
REDELIVERED_OVERDUE = """
SELECT /*+ SMALL(d, redeliveries) */ DISTINCT d.cell, d.producer, d.incarnation, d.seq
FROM (SELECT cell, consumer, partition, polled_us, max(offset) AS top FROM recv
      GROUP BY cell, consumer, partition, polled_us) x
JOIN (SELECT /*+ BROADCAST(l) */ r.*, l.limit_us FROM redeliveries r
      JOIN commit_limits l ON r.cell = l.cell AND r.reader = l.reader WHERE r.next_us IS NOT NULL) d
  ON x.cell = d.cell AND x.consumer = d.consumer AND x.partition = d.partition
WHERE x.top > d.offset AND x.polled_us < d.next_us AND x.polled_us - d.polled_us > d.limit_us
"""
