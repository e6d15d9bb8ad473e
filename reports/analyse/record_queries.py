"""The Spark SQL on records: which are lost, duplicated, late or delivered wrongly, in all cells at once.

It uses scans and hash aggregates, never a join of records to records.

- Loss, duplicates and strays: records are packed into words of 64 sequence numbers, so N records shuffle N/64 rows.
  Only words that look wrong are opened.
- Offsets: they are packed into runs of 64 (`LOG_RUNS`). What was answered, stored and delivered is compared run by run.
  Only irregular runs reach the sort or are opened.
- No hash and no sum stands for equality: all comparisons are of bit sets, in which each bit is one record.

`record_sets.py` runs the statements in their order, and `mark_queries.py` says which of them tell an anomaly.
tests/reports/test_reports_exactness.py shows that they are exact.
Views needed: send, recv, log, copies, audit (runlog.streams.schema plus `cell`) and the small tables that
`record_sets.compare_sets` names.
"""

from __future__ import annotations

# Words in which something is not as it should be; `acked`, `other`, `present` are bit sets over seq & 63.
BAD_WORDS = """
SELECT cell, producer, incarnation, word, coalesce(acked, 0L) AS acked, coalesce(other, 0L) AS other,
       coalesce(let_go, 0L) AS let_go,
       coalesce(failed, 0L) AS failed, coalesce(sends, 0L) AS sends, coalesce(present, 0L) AS present,
       coalesce(copies, 0L) AS copies
FROM (SELECT cell, producer, incarnation, shiftright(seq, 6) AS word,
             bit_or(IF(status = 0, shiftleft(1L, CAST(seq & 63 AS INT)), 0L)) AS acked,
             bit_or(IF(status <> 0, shiftleft(1L, CAST(seq & 63 AS INT)), 0L)) AS other,
             bit_or(IF(status = 2 AND error = 0, shiftleft(1L, CAST(seq & 63 AS INT)), 0L)) AS let_go,
             bit_or(IF(status = 1, shiftleft(1L, CAST(seq & 63 AS INT)), 0L)) AS failed, count(*) AS sends
      FROM send GROUP BY cell, producer, incarnation, shiftright(seq, 6))
FULL OUTER JOIN
     (SELECT cell, producer, incarnation, shiftright(seq, 6) AS word,
             bit_or(shiftleft(1L, CAST(seq & 63 AS INT))) AS present, count(*) AS copies
      FROM log GROUP BY cell, producer, incarnation, shiftright(seq, 6))
USING (cell, producer, incarnation, word)
WHERE coalesce(acked, 0L) & ~coalesce(present, 0L) <> 0
   OR coalesce(let_go, 0L) & ~coalesce(present, 0L) <> 0
   OR coalesce(present, 0L) & ~coalesce(acked, 0L) <> 0
   OR coalesce(copies, 0L) <> bit_count(coalesce(present, 0L))
   OR coalesce(sends, 0L) <> bit_count(coalesce(acked, 0L) | coalesce(other, 0L))
"""

# Of those, the ones with more rows than records.
CROWDED_SEND_WORDS = "SELECT cell, producer, incarnation, word FROM bad_words WHERE sends <> bit_count(acked | other)"
CROWDED_LOG_WORDS = "SELECT cell, producer, incarnation, word FROM bad_words WHERE copies <> bit_count(present)"

# Sends with more than one row: outcomes that differ are two answers, equal ones a row that is there twice.
ANSWERS = """
SELECT /*+ BROADCAST(b) */ s.cell, s.producer, s.incarnation, s.seq, count(*) AS n,
       count(DISTINCT s.status, s.partition, s.offset, s.acked_us) AS outcomes
FROM send s LEFT SEMI JOIN crowded_send_words b
  ON s.cell = b.cell AND s.producer = b.producer AND s.incarnation = b.incarnation AND shiftright(s.seq, 6) = b.word
GROUP BY s.cell, s.producer, s.incarnation, s.seq HAVING count(*) > 1
"""

REPEATED_ROWS = """
SELECT cell, sum(IF(stream = 'send', n, 0)) AS send_rows, sum(IF(stream = 'log', n, 0)) AS log_rows
FROM (SELECT cell, 'send' AS stream, sum(n - outcomes) AS n FROM answers GROUP BY cell
      UNION ALL
      SELECT l.cell, 'log', sum(l.n - bit_count(l.bits)) FROM log_words l LEFT SEMI JOIN crowded_blocks c
        ON l.cell = c.cell AND l.partition = c.partition AND l.block = c.block GROUP BY l.cell)
GROUP BY cell
"""

# What the final log holds of each partition.
LOG_ENDS = """
SELECT cell, partition, max(last) + 1 AS end_offset, sum(n) AS records FROM log_runs GROUP BY cell, partition
"""

# Records behind the bits of the bad words.
STRAYS = """
SELECT cell, kind, producer, incarnation, word * 64 + bit AS seq
FROM (SELECT cell, producer, incarnation, word,
             stack(5, 'lost', acked & ~present, 'lost_unacked', let_go & ~present,
                      'recovered', other & present & ~acked & ~failed,
                      'phantom', failed & present & ~acked,
                      'unexpected', present & ~(acked | other)) AS (kind, bits)
      FROM bad_words)
LATERAL VIEW explode(sequence(0, 63)) bits_of_word AS bit
WHERE bits & shiftleft(1L, bit) <> 0
"""

DUPLICATES = """
SELECT /*+ BROADCAST(b) */ l.cell, l.producer, l.incarnation, l.seq, l.partition, min(l.offset) AS first_offset,
       count(DISTINCT l.offset) AS copies
FROM log l LEFT SEMI JOIN crowded_log_words b
  ON l.cell = b.cell AND l.producer = b.producer AND l.incarnation = b.incarnation AND shiftright(l.seq, 6) = b.word
GROUP BY l.cell, l.producer, l.incarnation, l.seq, l.partition
"""

EXTRA_COPIES = """
SELECT cell, sum(copies - 1) AS extra_copies
FROM (SELECT cell, sum(copies) AS copies FROM duplicates GROUP BY cell, producer, incarnation, seq) GROUP BY cell
"""

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

# A run is in order within itself. One without a gap fills its offsets, so that no other run can begin inside of it.
BROKEN_RUNS = """
SELECT cell, partition, producer, incarnation, block, lead FROM log_runs WHERE bit_count(bits) <> last - first + 1
UNION
SELECT r.cell, r.partition, r.producer, r.incarnation, r.block, r.lead
FROM log_runs r LEFT SEMI JOIN crowded_blocks c ON r.cell = c.cell AND r.partition = c.partition AND r.block = c.block
"""

_OF_PRODUCER = "PARTITION BY cell, partition, producer, incarnation ORDER BY offset"

# `top` is the highest seq at a lower offset, or at the same one where a block is crowded: there, runs are opened.
LATE_RUNS = f"""
SELECT cell, partition, producer, incarnation, offset, low, high, top
FROM (SELECT *, greatest(max(high) OVER ({_OF_PRODUCER} RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
                         max(low) OVER ({_OF_PRODUCER} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)) AS top
      FROM (SELECT /*+ BROADCAST(b) */ l.cell, l.partition, l.producer, l.incarnation, l.offset, l.seq AS low,
                   l.seq AS high
            FROM log l LEFT SEMI JOIN broken_runs b
              ON l.cell = b.cell AND l.partition = b.partition AND l.producer = b.producer
             AND l.incarnation = b.incarnation AND shiftright(l.offset, 6) = b.block AND l.seq - l.offset = b.lead
            UNION ALL
            SELECT r.cell, r.partition, r.producer, r.incarnation, r.first, r.first + r.lead, r.last + r.lead
            FROM log_runs r LEFT ANTI JOIN broken_runs b
              ON r.cell = b.cell AND r.partition = b.partition AND r.producer = b.producer
             AND r.incarnation = b.incarnation AND r.block = b.block AND r.lead = b.lead))
WHERE low < top
"""


# The late ones are opened, and later copies of a record that had come in time are taken out.
REORDERED = """
SELECT /*+ BROADCAST(d) */ c.cell, c.producer, c.incarnation, c.seq
FROM (SELECT cell, partition, producer, incarnation, seq, min(offset + seq - low) AS offset
      FROM late_runs LATERAL VIEW explode(sequence(low, least(high, top - 1))) inside AS seq
      GROUP BY cell, partition, producer, incarnation, seq) c
LEFT JOIN duplicates d
  ON c.cell = d.cell AND c.partition = d.partition AND c.producer = d.producer
 AND c.incarnation = d.incarnation AND c.seq = d.seq
WHERE d.first_offset IS NULL OR d.first_offset = c.offset
"""


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
FROM (SELECT /*+ BROADCAST(w) */ r.*, count(*) OVER (PARTITION BY r.cell, r.consumer, r.partition, r.offset) AS times
      FROM recv r LEFT SEMI JOIN twice_words w
        ON r.cell = w.cell AND r.consumer = w.consumer AND r.partition = w.partition
       AND shiftright(r.offset, 6) = w.block)
WHERE times > 1
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

# Blocks in which an acknowledged offset may hold another record: the only ones to look into.
OFFSET_BLOCKS = """
SELECT cell, partition, block FROM astray UNION SELECT cell, partition, block FROM crowded_blocks
"""


# Of those, where nothing is instead.
MISPLACED = """
SELECT cell, producer, incarnation, block * 64 + bit + lead AS seq
FROM (SELECT a.*, a.bits & ~coalesce(l.bits, 0L) AS empty
      FROM astray a LEFT JOIN log_words l ON a.cell = l.cell AND a.partition = l.partition AND a.block = l.block)
LATERAL VIEW explode(sequence(0, 63)) bits_of_block AS bit
WHERE empty & shiftleft(1L, bit) <> 0
"""

ACK_MISPLACED = """
SELECT /*+ BROADCAST(m) */ DISTINCT l.cell, l.producer, l.incarnation, l.seq
FROM log l JOIN misplaced m
  ON l.cell = m.cell AND l.producer = m.producer AND l.incarnation = m.incarnation AND l.seq = m.seq
"""

OFFSET_REUSED = """
SELECT DISTINCT s.cell, s.producer, s.incarnation, s.seq
FROM (SELECT /*+ BROADCAST(b) */ send.* FROM send LEFT SEMI JOIN offset_blocks b
        ON send.cell = b.cell AND send.partition = b.partition AND shiftright(send.offset, 6) = b.block
      WHERE status = 0 AND offset >= 0) s
JOIN (SELECT /*+ BROADCAST(b) */ log.* FROM log LEFT SEMI JOIN offset_blocks b
        ON log.cell = b.cell AND log.partition = b.partition AND shiftright(log.offset, 6) = b.block) l
  ON s.cell = l.cell AND s.partition = l.partition AND s.offset = l.offset
WHERE NOT (s.producer = l.producer AND s.incarnation = l.incarnation AND s.seq = l.seq)
"""

# Time in bins of 10 ms: the highest offset that was acknowledged in an earlier bin, against sends handed over in this.
REALTIME_BINS = """
SELECT cell, partition, bin, top
FROM (SELECT cell, partition, bin, lowest,
             max(high) OVER (PARTITION BY cell, partition ORDER BY bin
                             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS top
      FROM (SELECT cell, partition, bin, max(high) AS high, min(lowest) AS lowest
            FROM (SELECT cell, partition, stack(2, acked_bin, high, CAST(NULL AS BIGINT),
                                                sent_bin, CAST(NULL AS BIGINT), lowest) AS (bin, high, lowest)
                  FROM (SELECT cell, partition, acked_us DIV 10000 AS acked_bin, sent_us DIV 10000 AS sent_bin,
                               max(offset) AS high, min(offset) AS lowest
                        FROM send WHERE status = 0 AND offset >= 0 AND sent_us >= 0
                        GROUP BY cell, partition, acked_us DIV 10000, sent_us DIV 10000))
            GROUP BY cell, partition, bin))
WHERE lowest <= top
"""


SEND_REALTIME_VIOLATION = """
SELECT /*+ BROADCAST(b) */ s.cell, s.producer, s.incarnation, s.seq
FROM send s JOIN realtime_bins b ON s.cell = b.cell AND s.partition = b.partition AND s.sent_us DIV 10000 = b.bin
WHERE s.status = 0 AND s.offset >= 0 AND s.sent_us >= 0 AND s.offset <= b.top
"""

# A reader gets everything once, whether its consumers have fixed partitions or are members of a group.
# `early_readers` (cell, reader, end_partition) begin at the log's start, of all partitions below the last.
READERS = """
SELECT /*+ BROADCAST(e) */ r.cell, r.reader, r.partition, IF(e.reader IS NULL, r.first, 0L) AS first, r.last
FROM (SELECT cell, reader, partition, min(first) AS first, max(last) AS last FROM read_words
      GROUP BY cell, reader, partition) r
LEFT JOIN early_readers e ON r.cell = e.cell AND r.reader = e.reader
"""

# Partitions with records of which an early reader got nothing, though it got something.
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
SELECT /*+ BROADCAST(m) */ DISTINCT l.cell, m.kind, l.producer, l.incarnation, l.seq
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


READ_ABOVE_HW = """
SELECT DISTINCT r.cell, r.producer, r.incarnation, r.seq
FROM (SELECT /*+ BROADCAST(b) */ recv.* FROM recv LEFT SEMI JOIN read_blocks b
        ON recv.cell = b.cell AND recv.partition = b.partition AND shiftright(recv.offset, 6) = b.block
      WHERE crc_ok = 1) r
LEFT ANTI JOIN (SELECT /*+ BROADCAST(b) */ log.* FROM log LEFT SEMI JOIN read_blocks b
        ON log.cell = b.cell AND log.partition = b.partition AND shiftright(log.offset, 6) = b.block) l
  ON r.cell = l.cell AND r.partition = l.partition AND r.offset = l.offset AND r.producer = l.producer
 AND r.incarnation = l.incarnation AND r.seq = l.seq
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
SELECT /*+ BROADCAST(p) */ DISTINCT r.cell, r.producer, r.incarnation, r.seq
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
      FROM (SELECT /*+ BROADCAST(b) */ cell, partition, offset, 0L AS step, true AS is_log, producer, incarnation, seq
            FROM log LEFT SEMI JOIN gap_blocks b
              ON log.cell = b.cell AND log.partition = b.partition AND shiftright(log.offset, 6) = b.block
            UNION ALL
            SELECT cell, partition, offset, step, false, NULL, NULL, NULL FROM gap_ends))
WHERE is_log AND gaps > 0
"""

# Where a reader got another record than the log has at that offset: it never got the log's.
DELIVERED_OTHERS = """
SELECT DISTINCT l.cell, l.producer, l.incarnation, l.seq
FROM (SELECT /*+ BROADCAST(b), BROADCAST(r) */ log.*, r.reader FROM log
      LEFT SEMI JOIN read_blocks b
        ON log.cell = b.cell AND log.partition = b.partition AND shiftright(log.offset, 6) = b.block
      JOIN readers r ON log.cell = r.cell AND log.partition = r.partition AND log.offset BETWEEN r.first AND r.last) l
LEFT ANTI JOIN (SELECT /*+ BROADCAST(b) */ recv.* FROM recv LEFT SEMI JOIN read_blocks b
                  ON recv.cell = b.cell AND recv.partition = b.partition AND shiftright(recv.offset, 6) = b.block) d
  ON l.cell = d.cell AND l.reader = coalesce(d.reader, 0) AND l.partition = d.partition AND l.offset = d.offset
 AND l.producer = d.producer AND l.incarnation = d.incarnation AND l.seq = d.seq
"""

# An interval may be as wide as offsets are: `shift` is how wide its blocks are, so that it has but a few hundred.
INTERVAL_BLOCKS = """
SELECT * FROM intervals
LATERAL VIEW explode(sequence(shiftright(from_offset, CAST(shift AS INT)),
                              shiftright(end_offset - 1, CAST(shift AS INT)))) blocks AS block
"""

FROM_INTERVALS = """
SELECT /*+ BROADCAST(i) */ DISTINCT s.cell, i.kind, s.producer, s.incarnation, s.seq
FROM (SELECT /*+ BROADCAST(w) */ * FROM send CROSS JOIN interval_shifts w WHERE status = 0 AND offset >= 0) s
JOIN interval_blocks i
  ON s.cell = i.cell AND s.partition = i.partition AND s.width = i.shift AND shiftright(s.offset, s.width) = i.block
WHERE s.offset >= i.from_offset AND s.offset < i.end_offset AND i.kind IN ('acked_below_min_isr', 'two_leaders_ack')
  AND s.acked_us >= i.after_us AND s.acked_us < i.before_us
"""

AGAIN_WORDS = """
SELECT cell, reader, partition, block FROM read_words GROUP BY cell, reader, partition, block
HAVING sum(n) <> bit_count(bit_or(bits))
"""

# Deliveries of an offset that its reader got more than once, each with the time of the next later one.
REDELIVERIES = """
SELECT * FROM (
  SELECT /*+ BROADCAST(w) */ r.cell, r.consumer, r.partition, r.producer, r.incarnation, r.seq, r.polled_us, w.reader,
         r.offset,
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
SELECT /*+ BROADCAST(d) */ DISTINCT d.cell, d.producer, d.incarnation, d.seq
FROM (SELECT cell, consumer, partition, polled_us, max(offset) AS top FROM recv
      GROUP BY cell, consumer, partition, polled_us) x
JOIN (SELECT /*+ BROADCAST(l) */ r.*, l.limit_us FROM redeliveries r
      JOIN commit_limits l ON r.cell = l.cell AND r.reader = l.reader WHERE r.next_us IS NOT NULL) d
  ON x.cell = d.cell AND x.consumer = d.consumer AND x.partition = d.partition
WHERE x.top > d.offset AND x.polled_us < d.next_us AND x.polled_us - d.polled_us > d.limit_us
"""

# Of every width that intervals have (`interval_shifts`).
PREDICTED_LOST = """
SELECT /*+ BROADCAST(i) */ s.cell, i.kind, s.producer, s.incarnation, s.seq
FROM (SELECT /*+ BROADCAST(w) */ * FROM send CROSS JOIN interval_shifts w WHERE status = 0 AND offset >= 0) s
JOIN interval_blocks i
  ON s.cell = i.cell AND s.partition = i.partition AND s.width = i.shift AND shiftright(s.offset, s.width) = i.block
WHERE s.offset >= i.from_offset AND s.offset < i.end_offset AND i.kind = 'lost'
  AND s.acked_us >= i.after_us AND s.acked_us < i.before_us
"""

PREDICTED_IN_LOG = """
SELECT /*+ BROADCAST(i) */ l.cell, i.kind, l.producer, l.incarnation, l.seq
FROM (SELECT /*+ BROADCAST(w) */ * FROM log CROSS JOIN interval_shifts w) l
JOIN interval_blocks i
  ON l.cell = i.cell AND l.partition = i.partition AND l.width = i.shift AND shiftright(l.offset, l.width) = i.block
WHERE l.offset >= i.from_offset AND l.offset < i.end_offset AND i.kind IN ('duplicated', 'reordered')
"""

# Runs of neighbouring sequence numbers, at most {limit} a set; count and hash are of the whole set.
RANGES = """
SELECT cell, kind, part, producer, incarnation, first_seq, last_seq, total, hash
FROM (SELECT *, sum(n) OVER whole AS total, bit_xor(part_hash) OVER whole AS hash,
             row_number() OVER (PARTITION BY cell, kind, part ORDER BY producer, incarnation, first_seq) AS place
      FROM (SELECT cell, kind, part, producer, incarnation, min(seq) AS first_seq, max(seq) AS last_seq, count(*) AS n,
                   bit_xor(xxhash64(producer, incarnation, seq)) AS part_hash
            FROM (SELECT *, seq - row_number() OVER (PARTITION BY cell, kind, part, producer, incarnation
                                                     ORDER BY seq) AS island FROM marks)
            GROUP BY cell, kind, part, producer, incarnation, island)
      WINDOW whole AS (PARTITION BY cell, kind, part))
WHERE place <= {limit}
"""
