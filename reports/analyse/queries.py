"""The Spark SQL of counts, rates, latencies, gaps and stories, over all cells at once: scans and hash aggregates.

Views needed: send, recv, log, batches, copies (runlog.streams.schema plus `cell`), windows (one row a cell), and
`examples` for stories. Latencies are counted in bins of ln(us)*128, which is 0.8 % wide and can be added up over slots,
partitions and cells. `record_sets.py` finds which records are lost, duplicated or late.
"""

from __future__ import annotations

LATENCY_BINS_PER_E_FOLD = 128
SLOT_BINS_PER_E_FOLD = 32
BOOTSTRAP_BLOCKS = 20

# Sends by the slots of their three times (-1: outside of the cell's span): few rows, from which counts and rates come.
# A send whose transaction was aborted failed, but for one that was to be aborted (4): nobody waits for that record.
SEND_SLOTS = """
SELECT cell, inside, status, intended_slot, sent_slot, acked_slot, acked_inside, count(*) AS n, sum(size_bytes) AS bytes
FROM (SELECT /*+ BROADCAST(w) */ s.cell, s.size_bytes,
             CASE WHEN s.status = 3 AND s.error = 0 THEN 4 WHEN s.status = 3 THEN 1 ELSE s.status END AS status,
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
SELECT cell, sum(IF(inside AND status <> 4, n, 0)) AS sent, sum(IF(inside AND status = 0, n, 0)) AS acked,
       sum(IF(inside AND status = 1, n, 0)) AS failed, sum(IF(inside AND status = 2, n, 0)) AS unknown,
       sum(n) AS sent_total, sum(IF(intended_slot < 0, n, 0)) AS intended_outside,
       sum(IF(status = 0, n, 0)) AS acked_total,
       sum(IF(status = 1, n, 0)) AS failed_total, sum(IF(status = 2, n, 0)) AS unknown_total,
       sum(IF(inside AND status = 4, n, 0)) AS aborted, sum(IF(status = 4, n, 0)) AS aborted_total,
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

# How many records each group of readers got, each counted once, by the slot in which they were due. Sequences are
# packed into words of 64, so that the groups are few. A record that came damaged is not that record, and one of a
# transaction that was aborted is owed to nobody.
ARRIVED = """
SELECT cell, reader, slot, inside, sum(bit_count(bits)) AS n
FROM (SELECT cell, reader, slot, inside, producer, incarnation, shiftright(seq, 6) AS word,
             bit_or(shiftleft(1L, CAST(seq & 63 AS INT))) AS bits
      FROM (SELECT /*+ BROADCAST(w) */ r.cell, coalesce(r.reader, CAST(0 AS SMALLINT)) AS reader, r.producer,
                   r.incarnation, r.seq, r.intended_us >= w.start_us AND r.intended_us < w.end_us AS inside,
                   IF(r.intended_us >= w.first_us AND r.intended_us < w.last_us,
                      (r.intended_us - w.first_us) DIV w.slot_us, -1L) AS slot
            FROM recv r JOIN windows w ON r.cell = w.cell
            LEFT ANTI JOIN uncommitted u
              ON r.cell = u.cell AND r.partition = u.partition AND r.offset = u.offset AND r.seq = u.seq
            WHERE r.crc_ok = 1)
      GROUP BY cell, reader, slot, inside, producer, incarnation, shiftright(seq, 6))
GROUP BY cell, reader, slot, inside
"""

# Records by the slot in which they were due that never were acknowledged, or that readers never got: each of the
# `whole_readers` (cell, reader) must get each. They are slower than all that have a latency.
MISSING_SLOTS = """
SELECT cell, kind, slot, n
FROM (SELECT cell, stack(2, 'corrected', n, 'uncorrected', n) AS (kind, n), slot
      FROM (SELECT cell, intended_slot AS slot, sum(IF(status NOT IN (0, 4), n, 0L)) AS n FROM send_slots
            GROUP BY cell, intended_slot)
      UNION ALL
      SELECT d.cell, 'end_to_end', d.n * e.readers - coalesce(a.n, 0L), d.slot
      FROM (SELECT cell, intended_slot AS slot, sum(IF(status <> 4, n, 0L)) AS n FROM send_slots
            GROUP BY cell, intended_slot) d
      JOIN (SELECT cell, count(*) AS readers FROM whole_readers GROUP BY cell) e ON d.cell = e.cell
      LEFT JOIN (SELECT a.cell, a.slot, sum(a.n) AS n
                 FROM arrived a LEFT SEMI JOIN whole_readers e ON a.cell = e.cell AND a.reader = e.reader
                 GROUP BY a.cell, a.slot) a ON d.cell = a.cell AND d.slot = a.slot)
WHERE slot >= 0 AND n > 0
"""

ARRIVED_IN_WINDOW = """
SELECT cell, reader, sum(n) AS n FROM arrived WHERE inside GROUP BY cell, reader
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
      FROM recv r JOIN windows w ON r.cell = w.cell WHERE r.crc_ok = 1)
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

# The p99 of a slot is that of all that were due in it. It is NULL if it falls on one that never came.
LATENCY_SLOTS = f"""
SELECT cell, kind, slot, n, min_us, max_us, mean_us,
       IF(p99_bin IS NULL, NULL, least(max_us, exp((p99_bin + 0.5) / {SLOT_BINS_PER_E_FOLD}))) AS p99_us
FROM (SELECT cell, kind, slot, max(n_slot) AS n, min(low) AS min_us, max(high) AS max_us,
             sum(total) / max(n_slot) AS mean_us, min(IF(rank_bin >= ceil(0.99 * (n_slot + missing)), bin, NULL))
               AS p99_bin
      FROM (SELECT l.*, coalesce(m.n, 0L) AS missing,
                   sum(l.n) OVER (PARTITION BY l.cell, l.kind, l.slot ORDER BY l.bin) AS rank_bin,
                   sum(l.n) OVER (PARTITION BY l.cell, l.kind, l.slot) AS n_slot
            FROM slot_latencies l LEFT JOIN missing_slots m
              ON l.cell = m.cell AND l.kind = m.kind AND l.slot = m.slot)
      GROUP BY cell, kind, slot)
"""

# End-to-end latencies of the measured window by group of readers: in fine bins, and in blocks for the interval of the
# p99. Most runs have no cell with several groups. Then nobody asks.
_READER_SAMPLES = f"""
SELECT /*+ BROADCAST(w) */ r.cell, coalesce(r.reader, 0) AS reader, r.polled_us - r.intended_us AS us,
       CAST(floor((r.intended_us - w.start_us) * {BOOTSTRAP_BLOCKS} / (w.end_us - w.start_us)) AS INT) AS block
FROM recv r JOIN windows w ON r.cell = w.cell
WHERE r.intended_us >= w.start_us AND r.intended_us < w.end_us AND r.crc_ok = 1
"""

READER_LATENCIES = f"""
SELECT cell, reader, {_bin(LATENCY_BINS_PER_E_FOLD)} AS bin, count(*) AS n, min(us) AS low, max(us) AS high,
       sum(us) AS total, count_if(us < 0) AS negative
FROM ({_READER_SAMPLES}) GROUP BY cell, reader, {_bin(LATENCY_BINS_PER_E_FOLD)}
"""

READER_LATENCY_BLOCKS = f"""
SELECT cell, reader, block, {_bin(SLOT_BINS_PER_E_FOLD)} AS bin, count(*) AS n
FROM ({_READER_SAMPLES}) GROUP BY cell, reader, block, {_bin(SLOT_BINS_PER_E_FOLD)}
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
