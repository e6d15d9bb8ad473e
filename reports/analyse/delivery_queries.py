"""Spark SQL on deliveries: records that readers got twice, never, out of order, or that the log does not have.

Deliveries are packed into runs of 64 offsets like the final log (`log_queries`), and compared with it run by run. A bit
of a run is one record at one offset. So what differs is opened from the bits, and no row of a stream is joined with
another one: if half of a log is unread, a join of rows would sort all of it. A record may come out several times,
`marks` folds that. `SMALL(alias, view)` is a hint of `record_sets`: to broadcast, if the view has few rows.

Views needed: recv and log (runlog.streams.schema plus `cell`), those of `log_queries`, and the small tables
early_readers and commit_limits, which `record_sets.compare_sets` names.
"""

from __future__ import annotations

from runlog.streams.record_keys import TURNS

# What each consumer got, as runs like those of the final log. A consumer belongs to one reader. `sound` are the records
# that came undamaged.
READ_RUNS = """
SELECT cell, coalesce(reader, CAST(0 AS SMALLINT)) AS reader, consumer, partition, producer, incarnation,
       shiftright(offset, 6) AS block, seq - offset AS lead,
       bit_or(shiftleft(1L, CAST(offset & 63 AS INT))) AS bits,
       bit_or(IF(crc_ok = 1, shiftleft(1L, CAST(offset & 63 AS INT)), 0L)) AS sound, count(*) AS n,
       min(offset) AS first, max(offset) AS last
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
SELECT cell, producer, incarnation, block * 64 + bit + lead AS seq
FROM (SELECT /*+ BROADCAST(u) */ l.* FROM log_runs l LEFT SEMI JOIN unread_partitions u
        ON l.cell = u.cell AND l.partition = u.partition)
LATERAL VIEW explode(sequence(0, 63)) bits_of_block AS bit WHERE bits & shiftleft(1L, bit) <> 0
"""

# Records of the final log that a reader did not get there: it passed them, or has them still before it. If it got
# another record at the offset, it never got the log's.
UNDELIVERED = """
SELECT /*+ BROADCAST(r) */ l.cell, l.producer, l.incarnation, l.block, l.lead, r.first, r.last,
       l.bits & ~coalesce(d.bits, 0L) AS bits
FROM log_runs l JOIN readers r ON l.cell = r.cell AND l.partition = r.partition
LEFT JOIN (SELECT cell, reader, partition, producer, incarnation, block, lead, bit_or(bits) AS bits FROM read_runs
           GROUP BY cell, reader, partition, producer, incarnation, block, lead) d
  ON l.cell = d.cell AND r.reader = d.reader AND l.partition = d.partition AND l.producer = d.producer
 AND l.incarnation = d.incarnation AND l.block = d.block AND l.lead = d.lead
WHERE l.bits & ~coalesce(d.bits, 0L) <> 0
"""

NOT_DELIVERED = """
SELECT cell, IF(block * 64 + bit > last, 'unseen_pending', 'lost_in_delivery') AS kind, producer, incarnation,
       block * 64 + bit + lead AS seq
FROM undelivered LATERAL VIEW explode(sequence(0, 63)) bits_of_block AS bit
WHERE bits & shiftleft(1L, bit) <> 0 AND block * 64 + bit >= first
"""

# Records that somebody got undamaged at an offset where the final log does not have them.
GONE = """
SELECT r.cell, r.partition, r.producer, r.incarnation, r.block, r.lead, r.sound & ~coalesce(l.bits, 0L) AS bits
FROM read_runs r LEFT JOIN log_runs l
  ON r.cell = l.cell AND r.partition = l.partition AND r.producer = l.producer AND r.incarnation = l.incarnation
 AND r.block = l.block AND r.lead = l.lead
WHERE r.sound & ~coalesce(l.bits, 0L) <> 0
"""

# What may have been removed since then is not looked for.
READ_ABOVE_HW = f"""
SELECT /*+ BROADCAST(i) */ r.cell, r.producer, r.incarnation, r.seq
FROM (SELECT cell, partition, producer, incarnation, block * 64 + bit AS offset, block * 64 + bit + lead AS seq
      FROM gone LATERAL VIEW explode(sequence(0, 63)) bits_of_block AS bit WHERE bits & shiftleft(1L, bit) <> 0) r
LEFT ANTI JOIN removals i
  ON r.cell = i.cell AND r.partition = i.partition AND r.offset >= i.from_offset AND r.offset < i.end_offset
 AND i.needs_newer = 0
LEFT ANTI JOIN superseded w
  ON r.cell = w.cell AND r.partition = w.partition AND r.offset >= w.from_offset AND r.offset < w.end_offset
 AND r.seq & {TURNS - 1} = w.turn
LEFT ANTI JOIN uncommitted u
  ON r.cell = u.cell AND r.partition = u.partition AND r.offset = u.offset AND r.producer = u.producer
 AND r.incarnation = u.incarnation AND r.seq = u.seq
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
SELECT /*+ SMALL(p, odd_polls) */ r.cell, r.producer, r.incarnation, r.seq
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
SELECT cell, producer, incarnation, seq
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
#
# Each redelivery asks for the highest offset among the polls of a span of time. A join of redeliveries with polls has
# as many rows as their product. So polls are numbered, and blocks of 1, 2, 4 ... neighbours have their highest offset
# (`_POLL_BLOCKS`). A span is cut into such blocks, two of a size at most (`_SPAN_BLOCKS`).
_POLLS = """
SELECT cell, consumer, partition, polled_us, max(offset) AS top FROM recv GROUP BY cell, consumer, partition, polled_us
"""
_SIZES = "LATERAL VIEW explode(sequence(0, 31)) sizes AS size"  # as powers of two: more polls than any cell has

_POLL_BLOCKS = f"""
SELECT cell, consumer, partition, size, shiftright(place, size) AS block, max(top) AS top
FROM (SELECT *, CAST(row_number() OVER (PARTITION BY cell, consumer, partition ORDER BY polled_us) AS BIGINT) - 1
                AS place FROM ({_POLLS}))
{_SIZES} GROUP BY cell, consumer, partition, size, shiftright(place, size)
"""

# Polls from number `low` up to `high` came later than the limit allows, and before the record was delivered again.
_SPANS = f"""
SELECT cell, consumer, partition, producer, incarnation, seq, offset, min(IF(is_end, NULL, polls)) AS low,
       min(IF(is_end, polls, NULL)) AS high
FROM (SELECT *, count_if(offset IS NULL) OVER (PARTITION BY cell, consumer, partition ORDER BY us) AS polls
      FROM (SELECT cell, consumer, partition, polled_us AS us, NULL AS producer, NULL AS incarnation, NULL AS seq,
                   NULL AS offset, NULL AS polled_us, false AS is_end
            FROM ({_POLLS})
            UNION ALL
            SELECT cell, consumer, partition, us, producer, incarnation, seq, offset, polled_us, is_end
            FROM (SELECT /*+ BROADCAST(l) */ r.*, l.limit_us FROM redeliveries r
                  JOIN commit_limits l ON r.cell = l.cell AND r.reader = l.reader WHERE r.next_us IS NOT NULL)
            LATERAL VIEW stack(2, polled_us + limit_us, false, next_us - 1, true) ends AS us, is_end))
WHERE offset IS NOT NULL
GROUP BY cell, consumer, partition, producer, incarnation, seq, offset, polled_us
"""

_SPAN_BLOCKS = f"""
SELECT cell, consumer, partition, producer, incarnation, seq, offset, size, block
FROM (SELECT *, shiftright(low + shiftleft(1L, size) - 1, size) AS first, shiftright(high, size) AS end
      FROM ({_SPANS}) {_SIZES})
LATERAL VIEW stack(2, IF(first & 1 = 1, first, NULL), IF(end & 1 = 1, end - 1, NULL)) blocks AS block
WHERE first < end AND block IS NOT NULL
"""

REDELIVERED_OVERDUE = f"""
SELECT d.cell, d.producer, d.incarnation, d.seq
FROM ({_SPAN_BLOCKS}) d JOIN ({_POLL_BLOCKS}) x
  ON x.cell = d.cell AND x.consumer = d.consumer AND x.partition = d.partition AND x.size = d.size AND x.block = d.block
WHERE x.top > d.offset
"""
