"""Spark SQL on the final log by offsets: its order, and its agreement with the acknowledgements, in all cells at once.

Offsets are packed into runs of 64 (`LOG_RUNS`). Acknowledged and stored offsets are compared run by run. Only
irregular runs reach the sort or are opened, from their bits. A record may come out several times, `marks` folds that.

Views needed: send and log (runlog.streams.schema plus `cell`), and those of `identity_queries` and `place_queries`.
"""

from __future__ import annotations

from runlog.streams.record_keys import TURNS

# The final log as runs: what one producer has in a block of 64 offsets with one distance of seq from offset (`lead`).
# Nothing is summed up or hashed: a bit says that this very record stands at this very offset, since its seq is
# offset + lead. So two sets of runs are equal if and only if they hold the same records at the same offsets.
LOG_RUNS = """
SELECT cell, partition, producer, incarnation, shiftright(offset, 6) AS block, seq - offset AS lead,
       bit_or(shiftleft(1L, CAST(offset & 63 AS INT))) AS bits, count(*) AS n, min(offset) AS first, max(offset) AS last
FROM log GROUP BY cell, partition, producer, incarnation, shiftright(offset, 6), seq - offset
"""

# The same without whose records they are: which offsets of a block hold something, and how many records there are.
LOG_WORDS = """
SELECT cell, partition, block, bit_or(bits) AS bits, sum(n) AS n FROM log_runs GROUP BY cell, partition, block
"""

# A final read gives an offset once. Where it does not (a part that is there twice), no bits stand for records.
CROWDED_BLOCKS = "SELECT cell, partition, block FROM log_words WHERE n <> bit_count(bits)"

# What the final log holds of each partition.
LOG_ENDS = """
SELECT cell, partition, max(last) + 1 AS end_offset, sum(n) AS records FROM log_runs GROUP BY cell, partition
"""

REPEATED_ROWS = """
SELECT cell, sum(IF(stream = 'send', n, 0)) AS send_rows, sum(IF(stream = 'log', n, 0)) AS log_rows
FROM (SELECT cell, 'send' AS stream, sum(n - outcomes) AS n FROM answers GROUP BY cell
      UNION ALL
      SELECT l.cell, 'log', sum(l.n - bit_count(l.bits)) FROM log_words l LEFT SEMI JOIN crowded_blocks c
        ON l.cell = c.cell AND l.partition = c.partition AND l.block = c.block GROUP BY l.cell)
GROUP BY cell
"""

# A run is in order within itself. One without a gap fills its offsets, so that no other run can begin inside of it.
BROKEN_RUNS = """
SELECT cell, partition, producer, incarnation, block, lead, bits FROM log_runs
WHERE bit_count(bits) <> last - first + 1
UNION
SELECT r.cell, r.partition, r.producer, r.incarnation, r.block, r.lead, r.bits
FROM log_runs r LEFT SEMI JOIN crowded_blocks c ON r.cell = c.cell AND r.partition = c.partition AND r.block = c.block
"""

_OF_PRODUCER = "PARTITION BY cell, partition, producer, incarnation ORDER BY offset"

# `top` is the highest seq at a lower offset, or at the same one where a block is crowded: there, runs are opened.
LATE_RUNS = f"""
SELECT cell, partition, producer, incarnation, offset, low, high, top
FROM (SELECT *, greatest(max(high) OVER ({_OF_PRODUCER} RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
                         max(low) OVER ({_OF_PRODUCER} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)) AS top
      FROM (SELECT cell, partition, producer, incarnation, block * 64 + bit AS offset, block * 64 + bit + lead AS low,
                   block * 64 + bit + lead AS high
            FROM broken_runs LATERAL VIEW explode(sequence(0, 63)) bits_of_block AS bit
            WHERE bits & shiftleft(1L, bit) <> 0
            UNION ALL
            SELECT r.cell, r.partition, r.producer, r.incarnation, r.first, r.first + r.lead, r.last + r.lead
            FROM log_runs r LEFT ANTI JOIN broken_runs b
              ON r.cell = b.cell AND r.partition = b.partition AND r.producer = b.producer
             AND r.incarnation = b.incarnation AND r.block = b.block AND r.lead = b.lead))
WHERE low < top
"""

# The late ones are opened, and later copies of a record that had come in time are taken out.
REORDERED = """
SELECT /*+ SMALL(d, duplicates) */ c.cell, c.producer, c.incarnation, c.seq
FROM (SELECT cell, partition, producer, incarnation, seq, min(offset + seq - low) AS offset
      FROM late_runs LATERAL VIEW explode(sequence(low, least(high, top - 1))) inside AS seq
      GROUP BY cell, partition, producer, incarnation, seq) c
LEFT JOIN duplicates d
  ON c.cell = d.cell AND c.partition = d.partition AND c.producer = d.producer
 AND c.incarnation = d.incarnation AND c.seq = d.seq
WHERE d.first_offset IS NULL OR d.first_offset = c.offset
"""

# Acknowledgements of records that the final log does not have at the partition and offset that they name.
ASTRAY = """
SELECT a.cell, a.partition, a.producer, a.incarnation, a.block, a.lead, a.bits & ~coalesce(l.bits, 0L) AS bits
FROM (SELECT cell, partition, producer, incarnation, shiftright(offset, 6) AS block, seq - offset AS lead,
             bit_or(shiftleft(1L, CAST(offset & 63 AS INT))) AS bits
      FROM send WHERE status = 0 AND offset >= 0
      GROUP BY cell, partition, producer, incarnation, shiftright(offset, 6), seq - offset) a
LEFT JOIN log_runs l
  ON a.cell = l.cell AND a.partition = l.partition AND a.producer = l.producer AND a.incarnation = l.incarnation
 AND a.block = l.block AND a.lead = l.lead
WHERE a.bits & ~coalesce(l.bits, 0L) <> 0
"""

# Of those, where nothing is instead, and where nothing was removed either; none that is misrouted.
MISPLACED = f"""
SELECT /*+ BROADCAST(i) */ m.cell, m.producer, m.incarnation, m.seq
FROM (SELECT cell, partition, producer, incarnation, block * 64 + bit AS offset, block * 64 + bit + lead AS seq
      FROM (SELECT a.*, a.bits & ~coalesce(l.bits, 0L) AS empty
            FROM astray a LEFT JOIN log_words l ON a.cell = l.cell AND a.partition = l.partition AND a.block = l.block)
      LATERAL VIEW explode(sequence(0, 63)) bits_of_block AS bit
      WHERE empty & shiftleft(1L, bit) <> 0) m
LEFT ANTI JOIN removals i
  ON m.cell = i.cell AND m.partition = i.partition AND m.offset >= i.from_offset AND m.offset < i.end_offset
 AND i.needs_newer = 0
LEFT ANTI JOIN superseded w
  ON m.cell = w.cell AND m.partition = w.partition AND m.offset >= w.from_offset AND m.offset < w.end_offset
 AND m.seq & {TURNS - 1} = w.turn
LEFT ANTI JOIN misrouted r
  ON m.cell = r.cell AND m.producer = r.producer AND m.incarnation = r.incarnation AND m.seq = r.seq
"""

ACK_MISPLACED = """
SELECT /*+ SMALL(m, misplaced) */ l.cell, l.producer, l.incarnation, l.seq
FROM log l JOIN misplaced m
  ON l.cell = m.cell AND l.producer = m.producer AND l.incarnation = m.incarnation AND l.seq = m.seq
"""

# Of the same acknowledgements, where another record is instead.
OFFSET_REUSED = """
SELECT m.cell, m.producer, m.incarnation, m.seq
FROM (SELECT cell, producer, incarnation, block * 64 + bit + lead AS seq
      FROM (SELECT a.*, a.bits & l.bits AS taken
            FROM astray a JOIN log_words l ON a.cell = l.cell AND a.partition = l.partition AND a.block = l.block)
      LATERAL VIEW explode(sequence(0, 63)) bits_of_block AS bit
      WHERE taken & shiftleft(1L, bit) <> 0) m
LEFT ANTI JOIN misrouted r
  ON m.cell = r.cell AND m.producer = r.producer AND m.incarnation = r.incarnation AND m.seq = r.seq
"""

# Where the log has two records at one offset, the acknowledged one may be there too: rows are compared with rows.
OFFSET_SHARED = """
SELECT s.cell, s.producer, s.incarnation, s.seq
FROM (SELECT /*+ SMALL(b, crowded_blocks) */ p.* FROM placed p LEFT SEMI JOIN crowded_blocks b
        ON p.cell = b.cell AND p.partition = b.partition AND shiftright(p.offset, 6) = b.block
      WHERE status = 0 AND offset >= 0) s
JOIN (SELECT /*+ SMALL(b, crowded_blocks) */ log.* FROM log LEFT SEMI JOIN crowded_blocks b
        ON log.cell = b.cell AND log.partition = b.partition AND shiftright(log.offset, 6) = b.block) l
  ON s.cell = l.cell AND s.partition = l.partition AND s.offset = l.offset
WHERE NOT (s.producer = l.producer AND s.incarnation = l.incarnation AND s.seq = l.seq)
"""

# `clock_errors` (cell, producer, host, error_us): only of cells with producers on load hosts. Times of one host
# are compared as they are (a clock for each host), and those of all hosts (clock -2) as far as the bounds allow. A host
# without a bound is compared with no other.
_TIMED = """(
SELECT s.cell, s.partition, coalesce(c.host, -1L) AS clock, s.sent_us, s.acked_us, s.offset, s.producer, s.incarnation,
       s.seq
FROM placed s LEFT JOIN clock_errors c ON s.cell = c.cell AND s.producer = c.producer
WHERE s.status = 0 AND s.offset >= 0 AND s.sent_us >= 0
UNION ALL
SELECT s.cell, s.partition, -2L, s.sent_us - c.error_us, s.acked_us + c.error_us, s.offset, s.producer, s.incarnation,
       s.seq
FROM placed s JOIN clock_errors c ON s.cell = c.cell AND s.producer = c.producer
WHERE s.status = 0 AND s.offset >= 0 AND s.sent_us >= 0 AND c.error_us IS NOT NULL
)"""

# Time in bins of 10 ms: the highest offset that was acknowledged in an earlier bin, against sends handed over in this.
REALTIME_BINS = f"""
SELECT cell, partition, clock, bin, top
FROM (SELECT cell, partition, clock, bin, lowest,
             max(high) OVER (PARTITION BY cell, partition, clock ORDER BY bin
                             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS top
      FROM (SELECT cell, partition, clock, bin, max(high) AS high, min(lowest) AS lowest
            FROM (SELECT cell, partition, clock, stack(2, acked_bin, high, CAST(NULL AS BIGINT),
                                                       sent_bin, CAST(NULL AS BIGINT), lowest) AS (bin, high, lowest)
                  FROM (SELECT cell, partition, clock, acked_us DIV 10000 AS acked_bin, sent_us DIV 10000 AS sent_bin,
                               max(offset) AS high, min(offset) AS lowest
                        FROM {_TIMED}
                        GROUP BY cell, partition, clock, acked_us DIV 10000, sent_us DIV 10000))
            GROUP BY cell, partition, clock, bin))
WHERE lowest <= top
"""

SEND_REALTIME_VIOLATION = f"""
SELECT /*+ SMALL(b, realtime_bins) */ s.cell, s.producer, s.incarnation, s.seq
FROM {_TIMED} s JOIN realtime_bins b
  ON s.cell = b.cell AND s.partition = b.partition AND s.clock = b.clock AND s.sent_us DIV 10000 = b.bin
WHERE s.offset <= b.top
"""
