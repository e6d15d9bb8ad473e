"""The Spark SQL of the analysis: scans and hash aggregates over all cells at once, never a join of records to records.

Views needed: send, recv, log, batches (runlog.schema plus `cell`), windows (one row a cell), intervals (predictions).
Loss, duplicates and strays go through words of 64 sequence numbers, so that N records shuffle N/64 rows; only words
that look wrong are opened. Order is judged by blocks of offsets; only irregular blocks reach the sort. Latencies are
counted in bins of ln(us)*128, which is 0.8 % wide and can be added up over slots, partitions and cells.
"""

from __future__ import annotations

LATENCY_BINS_PER_E_FOLD = 128
SLOT_BINS_PER_E_FOLD = 32
BOOTSTRAP_BLOCKS = 20

# Words in which something is not as it should be; `acked`, `other`, `present` are bit sets over seq & 63.
BAD_WORDS = """
SELECT cell, producer, incarnation, word, coalesce(acked, 0L) AS acked, coalesce(other, 0L) AS other,
       coalesce(failed, 0L) AS failed, coalesce(present, 0L) AS present, coalesce(copies, 0L) AS copies
FROM (SELECT cell, producer, incarnation, shiftright(seq, 6) AS word,
             bit_or(IF(status = 0, shiftleft(1L, CAST(seq & 63 AS INT)), 0L)) AS acked,
             bit_or(IF(status <> 0, shiftleft(1L, CAST(seq & 63 AS INT)), 0L)) AS other,
             bit_or(IF(status = 1, shiftleft(1L, CAST(seq & 63 AS INT)), 0L)) AS failed
      FROM send GROUP BY cell, producer, incarnation, shiftright(seq, 6))
FULL OUTER JOIN
     (SELECT cell, producer, incarnation, shiftright(seq, 6) AS word,
             bit_or(shiftleft(1L, CAST(seq & 63 AS INT))) AS present, count(*) AS copies
      FROM log GROUP BY cell, producer, incarnation, shiftright(seq, 6))
USING (cell, producer, incarnation, word)
WHERE coalesce(acked, 0L) & ~coalesce(present, 0L) <> 0
   OR coalesce(present, 0L) & ~coalesce(acked, 0L) <> 0
   OR coalesce(copies, 0L) <> bit_count(coalesce(present, 0L))
"""

# Records behind the bits of the bad words.
STRAYS = """
SELECT cell, kind, producer, incarnation, word * 64 + bit AS seq
FROM (SELECT cell, producer, incarnation, word,
             stack(4, 'lost', acked & ~present, 'recovered', other & present & ~acked & ~failed,
                      'phantom', failed & present & ~acked,
                      'unexpected', present & ~(acked | other)) AS (kind, bits)
      FROM bad_words)
LATERAL VIEW explode(sequence(0, 63)) bits_of_word AS bit
WHERE bits & shiftleft(1L, bit) <> 0
"""

DUPLICATES = """
SELECT /*+ BROADCAST(b) */ l.cell, l.producer, l.incarnation, l.seq, l.partition, min(l.offset) AS first_offset,
       count(*) AS copies
FROM log l LEFT SEMI JOIN (SELECT * FROM bad_words WHERE copies <> bit_count(present)) b
  ON l.cell = b.cell AND l.producer = b.producer AND l.incarnation = b.incarnation AND shiftright(l.seq, 6) = b.word
GROUP BY l.cell, l.producer, l.incarnation, l.seq, l.partition
"""

EXTRA_COPIES = "SELECT cell, sum(copies) - count(*) AS extra_copies FROM duplicates GROUP BY cell"

# Records of one producer between which seq and offset grow in step: in order within themselves. Without a gap no other
# run can begin inside. The block keeps apart what has the same difference by chance.
ORDER_RUNS = """
SELECT cell, partition, producer, incarnation, shiftright(offset, 8) AS block, seq - offset AS lead,
       min(offset) AS offset, min(seq) AS low, max(seq) AS high,
       count(*) = max(offset) - min(offset) + 1 AS is_whole
FROM log GROUP BY cell, partition, producer, incarnation, shiftright(offset, 8), seq - offset
"""

BROKEN_RUNS = "SELECT cell, partition, producer, incarnation, block, lead FROM order_runs WHERE NOT is_whole"


LATE_RUNS = """
SELECT cell, partition, producer, incarnation, offset, low, high, top
FROM (SELECT *, max(high) OVER (PARTITION BY cell, partition, producer, incarnation ORDER BY offset
                                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS top
      FROM (SELECT /*+ BROADCAST(b) */ l.cell, l.partition, l.producer, l.incarnation, l.offset, l.seq AS low,
                   l.seq AS high
            FROM log l LEFT SEMI JOIN broken_runs b
              ON l.cell = b.cell AND l.partition = b.partition AND l.producer = b.producer
             AND l.incarnation = b.incarnation AND shiftright(l.offset, 8) = b.block AND l.seq - l.offset = b.lead
            UNION ALL
            SELECT cell, partition, producer, incarnation, offset, low, high FROM order_runs WHERE is_whole))
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


# The final log in words of 64 offsets: which are there, and one hash of what they hold.
LOG_WORDS = """
SELECT cell, partition, shiftright(offset, 6) AS block, bit_or(shiftleft(1L, CAST(offset & 63 AS INT))) AS bits,
       bit_xor(xxhash64(offset, producer, incarnation, seq)) AS h
FROM log GROUP BY cell, partition, shiftright(offset, 6)
"""

# The same of what each consumer got. A consumer belongs to one reader.
READ_WORDS = """
SELECT cell, coalesce(reader, CAST(0 AS SMALLINT)) AS reader, consumer, partition, shiftright(offset, 6) AS block,
       bit_or(shiftleft(1L, CAST(offset & 63 AS INT))) AS bits,
       bit_xor(xxhash64(offset, producer, incarnation, seq)) AS h, count(*) AS n,
       min(offset) AS first, max(offset) AS last
FROM recv GROUP BY cell, coalesce(reader, CAST(0 AS SMALLINT)), consumer, partition, shiftright(offset, 6)
"""

TWICE_WORDS = "SELECT cell, consumer, partition, block FROM read_words WHERE n <> bit_count(bits)"

DELIVERED_TWICE = """
SELECT cell, producer, incarnation, seq
FROM (SELECT /*+ BROADCAST(w) */ r.*, count(*) OVER (PARTITION BY r.cell, r.consumer, r.partition, r.offset) AS times
      FROM recv r LEFT SEMI JOIN twice_words w
        ON r.cell = w.cell AND r.consumer = w.consumer AND r.partition = w.partition
       AND shiftright(r.offset, 6) = w.block)
WHERE times > 1
"""


# Blocks of offsets at which acknowledgements and final log do not hold the same records: the only ones to look into.
OFFSET_BLOCKS = """
SELECT s.cell, s.partition, s.block
FROM (SELECT cell, partition, shiftright(offset, 6) AS block, bit_xor(xxhash64(offset, producer, incarnation, seq)) AS h
      FROM send WHERE status = 0 AND offset >= 0 GROUP BY cell, partition, shiftright(offset, 6)) s
LEFT JOIN log_words l ON s.cell = l.cell AND s.partition = l.partition AND s.block = l.block
WHERE s.h <> coalesce(l.h, 0L)
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
READERS = """
SELECT cell, reader, partition, min(first) AS first, max(last) AS last FROM read_words GROUP BY cell, reader, partition
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

# Blocks in which a consumer got other records than the final log has; full and equal ones cancel out.
READ_BLOCKS = """
SELECT r.cell, r.partition, r.block
FROM read_words r LEFT JOIN log_words l ON r.cell = l.cell AND r.partition = l.partition AND r.block = l.block
WHERE l.h IS NULL OR l.h <> r.h
GROUP BY r.cell, r.partition, r.block
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

POLL_SKIP = """
SELECT /*+ BROADCAST(p) */ DISTINCT l.cell, l.producer, l.incarnation, l.seq
FROM log l JOIN (SELECT cell, partition, low, before, block FROM odd_polls
                 LATERAL VIEW explode(sequence(shiftright(before + 1, 6), shiftright(low - 1, 6))) blocks AS block
                 WHERE low > before + 1) p
  ON l.cell = p.cell AND l.partition = p.partition AND shiftright(l.offset, 6) = p.block
WHERE l.offset > p.before AND l.offset < p.low
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

FROM_INTERVALS = """
SELECT /*+ BROADCAST(i) */ DISTINCT s.cell, i.kind, s.producer, s.incarnation, s.seq
FROM send s JOIN interval_blocks i
  ON s.cell = i.cell AND s.partition = i.partition AND shiftright(s.offset, 6) = i.block
 AND s.offset >= i.from_offset AND s.offset < i.end_offset
WHERE i.kind IN ('acked_below_min_isr', 'two_leaders_ack') AND s.status = 0 AND s.offset >= 0
  AND s.acked_us >= i.after_us AND s.acked_us < i.before_us
"""

AGAIN_WORDS = """
SELECT cell, reader, partition, block FROM read_words GROUP BY cell, reader, partition, block
HAVING sum(n) <> bit_count(bit_or(bits))
"""

# Deliveries of an offset that its reader got more than once, each with the time of the next.
REDELIVERIES = """
SELECT * FROM (
  SELECT /*+ BROADCAST(w) */ r.cell, r.consumer, r.partition, r.producer, r.incarnation, r.seq, r.polled_us, w.reader,
         r.offset,
         count(*) OVER (PARTITION BY r.cell, w.reader, r.partition, r.offset) AS times,
         lead(r.polled_us) OVER (PARTITION BY r.cell, w.reader, r.partition, r.offset ORDER BY r.polled_us) AS next_us
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

# `copying`: the cells with copiers. `transactions`: cell, copier, copier_incarnation, txn, is_committed, asked_us, as
# copiers were told. Copies are made in chaos cells only, some ten thousand of them: plain joins do.
COPY_ANOMALIES = """
SELECT /*+ BROADCAST(c) */ l.cell, 'copy_missing' AS kind, l.producer, l.incarnation, l.seq
FROM log l LEFT SEMI JOIN copying c ON l.cell = c.cell
LEFT ANTI JOIN (SELECT * FROM copies WHERE outcome = 1) d
  ON l.cell = d.cell AND l.producer = d.producer AND l.incarnation = d.incarnation AND l.seq = d.seq
UNION ALL
SELECT cell, 'copied_twice', producer, incarnation, seq FROM copies WHERE outcome = 1
GROUP BY cell, producer, incarnation, seq HAVING count(*) > 1
UNION ALL
SELECT cell, 'copy_reordered', producer, incarnation, seq
FROM (SELECT *, max(seq) OVER (PARTITION BY cell, partition, producer, incarnation ORDER BY first_offset) AS top
      FROM (SELECT cell, partition, producer, incarnation, seq, min(offset) AS first_offset
            FROM copies WHERE outcome = 1 GROUP BY cell, partition, producer, incarnation, seq))
WHERE seq < top
UNION ALL
SELECT a.cell, 'aborted_read', a.producer, a.incarnation, a.seq
FROM audit a JOIN copies c ON a.cell = c.cell AND a.partition = c.partition AND a.offset = c.offset
WHERE c.outcome <> 1
UNION ALL
SELECT a.cell, 'precommitted_read', a.producer, a.incarnation, a.seq
FROM audit a JOIN copies c ON a.cell = c.cell AND a.partition = c.partition AND a.offset = c.offset
JOIN transactions t ON t.cell = c.cell AND t.copier = c.copier AND t.copier_incarnation = c.copier_incarnation
 AND t.txn = c.txn
WHERE c.outcome = 1 AND a.polled_us < t.asked_us
UNION ALL
SELECT c.cell, 'torn_txn', c.producer, c.incarnation, c.seq
FROM (SELECT *, max(outcome) OVER (PARTITION BY cell, copier, copier_incarnation, txn) AS best
      FROM copies WHERE txn >= 0) c
LEFT JOIN transactions t ON t.cell = c.cell AND t.copier = c.copier AND t.copier_incarnation = c.copier_incarnation
 AND t.txn = c.txn
WHERE (c.outcome <> 1 AND (c.best = 1 OR t.is_committed = 1)) OR (c.outcome = 1 AND t.is_committed = 0)
"""

OBSERVED = f"""
SELECT cell, kind, producer, incarnation, seq FROM ({STRAYS})
UNION ALL SELECT cell, 'duplicated', producer, incarnation, seq FROM duplicates
          GROUP BY cell, producer, incarnation, seq HAVING sum(copies) > 1
UNION ALL SELECT cell, 'reordered', producer, incarnation, seq FROM ({REORDERED})
UNION ALL SELECT cell, 'dup_delivered', producer, incarnation, seq FROM ({DELIVERED_TWICE})
UNION ALL SELECT cell, 'corrupt', producer, incarnation, seq FROM log WHERE crc_ok = 0
UNION ALL SELECT cell, 'offset_reused', producer, incarnation, seq FROM ({OFFSET_REUSED})
UNION ALL SELECT cell, 'send_realtime_violation', producer, incarnation, seq FROM ({SEND_REALTIME_VIOLATION})
UNION ALL SELECT cell, kind, producer, incarnation, seq FROM ({NOT_DELIVERED})
UNION ALL SELECT cell, 'lost_in_delivery', producer, incarnation, seq FROM ({DELIVERED_OTHERS})
UNION ALL SELECT cell, 'read_above_hw', producer, incarnation, seq FROM ({READ_ABOVE_HW})
UNION ALL SELECT cell, 'nonmonotonic_poll', producer, incarnation, seq FROM ({NONMONOTONIC_POLL})
UNION ALL SELECT cell, 'poll_skip', producer, incarnation, seq FROM ({POLL_SKIP})
UNION ALL SELECT cell, kind, producer, incarnation, seq FROM ({FROM_INTERVALS})
UNION ALL SELECT DISTINCT cell, 'redelivered', producer, incarnation, seq FROM redeliveries
UNION ALL SELECT cell, 'redelivered_overdue', producer, incarnation, seq FROM ({REDELIVERED_OVERDUE})
UNION ALL SELECT DISTINCT cell, kind, producer, incarnation, seq FROM ({COPY_ANOMALIES})
"""

PREDICTED = """
SELECT /*+ BROADCAST(i) */ s.cell, i.kind, s.producer, s.incarnation, s.seq
FROM send s JOIN interval_blocks i
  ON s.cell = i.cell AND s.partition = i.partition AND shiftright(s.offset, 6) = i.block
 AND s.offset >= i.from_offset AND s.offset < i.end_offset
WHERE i.kind = 'lost' AND s.status = 0 AND s.offset >= 0
  AND s.acked_us >= i.after_us AND s.acked_us < i.before_us
UNION ALL
SELECT /*+ BROADCAST(i) */ l.cell, i.kind, l.producer, l.incarnation, l.seq
FROM log l JOIN interval_blocks i
  ON l.cell = i.cell AND l.partition = i.partition AND shiftright(l.offset, 6) = i.block
 AND l.offset >= i.from_offset AND l.offset < i.end_offset
WHERE i.kind IN ('duplicated', 'reordered')
"""

INTERVAL_BLOCKS = """
SELECT * FROM intervals
LATERAL VIEW explode(sequence(shiftright(from_offset, 6), shiftright(end_offset - 1, 6))) blocks AS block
WHERE end_offset > from_offset
"""

MARKS = f"""
SELECT cell, kind, producer, incarnation, seq,
       CASE WHEN max(observed) = 1 AND max(predicted) = 1 THEN 'both'
            WHEN max(observed) = 1 THEN 'only_observed' ELSE 'only_predicted' END AS part
FROM (SELECT *, 1 AS observed, 0 AS predicted FROM ({OBSERVED})
      UNION ALL SELECT *, 0, 1 FROM ({PREDICTED}))
GROUP BY cell, kind, producer, incarnation, seq
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

# Sends by the slots of their three times (-1: outside of the cell's span): few rows, from which counts and rates come.
SEND_SLOTS = """
SELECT cell, inside, status, intended_slot, sent_slot, acked_slot, acked_inside, count(*) AS n, sum(size_bytes) AS bytes
FROM (SELECT /*+ BROADCAST(w) */ s.cell, s.status, s.size_bytes,
             s.intended_us >= w.start_us AND s.intended_us < w.end_us AS inside,
             s.status = 0 AND s.acked_us >= w.start_us AND s.acked_us < w.end_us AS acked_inside,
             IF(s.intended_us >= w.first_us AND s.intended_us < w.last_us,
                (s.intended_us - w.first_us) DIV w.slot_us, -1L) AS intended_slot,
             IF(s.sent_us >= w.first_us AND s.sent_us < w.last_us,
                (s.sent_us - w.first_us) DIV w.slot_us, -1L) AS sent_slot,
             IF(s.status = 0 AND s.acked_us >= w.first_us AND s.acked_us < w.last_us,
                (s.acked_us - w.first_us) DIV w.slot_us, -1L) AS acked_slot
      FROM send s JOIN windows w ON s.cell = w.cell)
GROUP BY cell, inside, status, intended_slot, sent_slot, acked_slot, acked_inside
"""

RECV_SLOTS = """
SELECT cell, inside, slot, count(*) AS n, count_if(crc_ok = 0) AS corrupt
FROM (SELECT /*+ BROADCAST(w) */ r.cell, r.crc_ok, r.intended_us >= w.start_us AND r.intended_us < w.end_us AS inside,
             IF(r.polled_us >= w.first_us AND r.polled_us < w.last_us,
                (r.polled_us - w.first_us) DIV w.slot_us, -1L) AS slot
      FROM recv r JOIN windows w ON r.cell = w.cell)
GROUP BY cell, inside, slot
"""

COUNTS_SEND = """
SELECT cell, sum(IF(inside, n, 0)) AS sent, sum(IF(inside AND status = 0, n, 0)) AS acked,
       sum(IF(inside AND status = 1, n, 0)) AS failed, sum(IF(inside AND status = 2, n, 0)) AS unknown,
       sum(n) AS sent_total, sum(IF(status = 0, n, 0)) AS acked_total,
       sum(IF(status = 1, n, 0)) AS failed_total, sum(IF(status = 2, n, 0)) AS unknown_total,
       sum(IF(inside AND status = 0, bytes, 0)) AS acked_bytes, sum(IF(acked_inside, n, 0)) AS acks_in_window
FROM send_slots GROUP BY cell
"""


COUNTS_LOG = """
SELECT /*+ BROADCAST(w) */ l.cell, count(*) AS log_total,
       count_if(l.intended_us >= w.start_us AND l.intended_us < w.end_us) AS log_in_window
FROM log l JOIN windows w ON l.cell = w.cell GROUP BY l.cell
"""

COUNTS_RECV = """
SELECT cell, sum(n) AS received_total, sum(IF(inside, n, 0)) AS received_in_window, sum(corrupt) AS corrupt_received
FROM recv_slots GROUP BY cell
"""


# What happened in each slot of time; a slot counts from the cell's start.
RATES = """
SELECT cell, slot, sum(intended) AS intended, sum(sent) AS sent, sum(acked) AS acked, sum(received) AS received
FROM (SELECT cell, stack(3, intended_slot, n, 0L, 0L, sent_slot, 0L, n, 0L, acked_slot, 0L, 0L, n)
                   AS (slot, intended, sent, acked), 0L AS received
      FROM send_slots
      UNION ALL
      SELECT cell, slot, 0L, 0L, 0L, n FROM recv_slots)
WHERE slot >= 0 GROUP BY cell, slot
"""


LATENCY_KIND_NAMES = "array('corrected', 'uncorrected', 'schedule_lag', 'end_to_end')"

# One row a record and kind of latency, which is an index into the names.
_SAMPLES = """
SELECT cell, kind, us, intended_us >= start_us AND intended_us < end_us AS inside,
       IF(kind = 2, 0, CAST(floor((intended_us - first_us) / slot_us) AS INT)) AS slot
FROM (SELECT /*+ BROADCAST(w) */ s.cell, s.intended_us, w.start_us, w.end_us, w.first_us, w.slot_us,
             stack(3, 0, IF(s.status = 0, s.acked_us - s.intended_us, NULL),
                      1, IF(s.status = 0, s.acked_us - s.sent_us, NULL),
                      2, IF(s.sent_us >= 0, s.sent_us - s.intended_us, NULL)) AS (kind, us)
      FROM send s JOIN windows w ON s.cell = w.cell
      UNION ALL
      SELECT /*+ BROADCAST(w) */ r.cell, r.intended_us, w.start_us, w.end_us, w.first_us, w.slot_us,
             3, r.polled_us - r.intended_us
      FROM recv r JOIN windows w ON r.cell = w.cell)
WHERE us IS NOT NULL
"""


def _bin(per_e_fold: int) -> str:
    return f"CAST(floor(ln(CAST(greatest(us, 1L) AS DOUBLE)) * {per_e_fold}) AS INT)"


# The measured window of each cell, in fine bins. It and the next are two scans of all samples: fine bins of every time
# bucket, from which both could be added up, would be nearly as many groups as there are samples.
LATENCIES = f"""
SELECT cell, element_at({LATENCY_KIND_NAMES}, kind + 1) AS kind, bin, n, low, high, total, negative
FROM (SELECT cell, kind, {_bin(LATENCY_BINS_PER_E_FOLD)} AS bin, count(*) AS n, min(us) AS low, max(us) AS high,
             sum(us) AS total, count_if(us < 0) AS negative
      FROM ({_SAMPLES}) WHERE inside GROUP BY cell, kind, {_bin(LATENCY_BINS_PER_E_FOLD)})
"""

# Every time bucket in coarse bins (3 % wide). Schedule lag has no buckets of time.
SLOT_LATENCIES = f"""
SELECT cell, element_at({LATENCY_KIND_NAMES}, kind + 1) AS kind, slot, bin, n, low, high, total
FROM (SELECT cell, kind, slot, {_bin(SLOT_BINS_PER_E_FOLD)} AS bin, count(*) AS n, min(us) AS low, max(us) AS high,
             sum(us) AS total
      FROM ({_SAMPLES}) WHERE kind <> 2 AND slot >= 0 GROUP BY cell, kind, slot, {_bin(SLOT_BINS_PER_E_FOLD)})
"""

# The window's buckets folded into a few blocks, to draw from for the interval of the p99.
LATENCY_BLOCKS = f"""
SELECT cell, kind, block, bin, sum(n) AS n
FROM (SELECT /*+ BROADCAST(w) */ l.cell, l.kind, l.bin, l.n,
             CAST(floor((w.first_us + l.slot * w.slot_us - w.start_us) * {BOOTSTRAP_BLOCKS} / (w.end_us - w.start_us))
                  AS INT) AS block
      FROM slot_latencies l JOIN windows w ON l.cell = w.cell WHERE w.end_us > w.start_us)
WHERE block >= 0 AND block < {BOOTSTRAP_BLOCKS}
GROUP BY cell, kind, block, bin
"""

LATENCY_SLOTS = f"""
SELECT cell, kind, slot, max(n_slot) AS n, min(low) AS min_us, max(high) AS max_us, sum(total) / max(n_slot) AS mean_us,
       least(max(high), exp((min(IF(rank_bin >= ceil(0.99 * n_slot), bin, NULL)) + 0.5)
                            / {SLOT_BINS_PER_E_FOLD})) AS p99_us
FROM (SELECT *, sum(n) OVER (PARTITION BY cell, kind, slot ORDER BY bin) AS rank_bin,
             sum(n) OVER (PARTITION BY cell, kind, slot) AS n_slot
      FROM slot_latencies)
GROUP BY cell, kind, slot
"""

# Longest time in the measured window in which no acknowledgement came; the window's ends count as acknowledgements.
# Acknowledgements are folded by millisecond first, so a gap is exact from 1 ms upwards.
GAPS = """
SELECT cell, max_by(before_us, low - before_us) AS gap_start_us, max(low - before_us) AS gap_us
FROM (SELECT cell, low, lag(high) OVER (PARTITION BY cell ORDER BY low) AS before_us
      FROM (SELECT /*+ BROADCAST(w) */ s.cell, min(s.acked_us) AS low, max(s.acked_us) AS high
            FROM send s JOIN windows w ON s.cell = w.cell
            WHERE s.status = 0 AND s.acked_us >= w.start_us AND s.acked_us < w.end_us
            GROUP BY s.cell, floor(s.acked_us / 1000)
            UNION ALL SELECT cell, start_us, start_us FROM windows
            UNION ALL SELECT cell, end_us, end_us FROM windows))
WHERE before_us IS NOT NULL GROUP BY cell
"""

BATCHES = """
SELECT cell, partition, leader_epoch, min(base_offset) AS first_offset, max(last_offset) + 1 AS end_offset,
       count(*) AS batches, sum(records) AS records, sum(size_bytes) AS size_bytes,
       sum(uncompressed_bytes) AS uncompressed_bytes
FROM batches GROUP BY cell, partition, leader_epoch
"""

# Everything that the chosen records left behind.
STORIES = """
SELECT /*+ BROADCAST(e) */ e.cell, 'send' AS stream, s.producer, s.incarnation, s.seq, s.partition, s.offset,
       s.status AS code, s.error, s.intended_us, s.sent_us, s.acked_us AS t_us
FROM send s JOIN examples e ON s.cell = e.cell AND s.producer = e.producer AND s.incarnation = e.incarnation
 AND s.seq = e.seq
UNION ALL
SELECT /*+ BROADCAST(e) */ e.cell, 'log', l.producer, l.incarnation, l.seq, l.partition, l.offset,
       l.leader_epoch, CAST(NULL AS SMALLINT), l.intended_us, NULL, NULL
FROM log l JOIN examples e ON l.cell = e.cell AND l.producer = e.producer AND l.incarnation = e.incarnation
 AND l.seq = e.seq
UNION ALL
SELECT /*+ BROADCAST(e) */ e.cell, 'recv', r.producer, r.incarnation, r.seq, r.partition, r.offset,
       CAST(r.consumer AS INT), NULL, r.intended_us, NULL, r.polled_us
FROM recv r JOIN examples e ON r.cell = e.cell AND r.producer = e.producer AND r.incarnation = e.incarnation
 AND r.seq = e.seq
"""

COPY_STORIES = """
SELECT /*+ BROADCAST(e) */ e.cell, c.producer, c.incarnation, c.seq, c.partition, c.offset, c.copier,
       c.copier_incarnation, c.txn, c.outcome
FROM copies c JOIN examples e ON c.cell = e.cell AND c.producer = e.producer AND c.incarnation = e.incarnation
 AND c.seq = e.seq
"""
