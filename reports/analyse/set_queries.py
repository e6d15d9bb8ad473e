"""Spark SQL for predicted and observed sets. Predictions are made from intervals of offsets. Sets come out as ranges.

The statements need the views placed (`place_queries`) and log (runlog.streams.schema plus `cell`), the small tables of
`record_sets.register_intervals`, `clock_errors`, and `marks`. `mark_queries.py` says which statement finds which
anomaly.
"""

from __future__ import annotations

# An interval may be as wide as all offsets. It is cut into blocks of 2**shift, so that it has only a few hundred.
INTERVAL_BLOCKS = """
SELECT * FROM intervals
LATERAL VIEW explode(sequence(shiftright(from_offset, CAST(shift AS INT)),
                              shiftright(end_offset - 1, CAST(shift AS INT)))) blocks AS block
"""

# Times of a load host are as exact as its bound in `clock_errors` beside those of brokers and faults. What is observed
# must lie in the interval for certain. A host without a bound makes its cell inconclusive.
FROM_INTERVALS = """
SELECT /*+ BROADCAST(i), BROADCAST(c) */ DISTINCT s.cell, i.kind, s.producer, s.incarnation, s.seq
FROM (SELECT /*+ BROADCAST(w) */ * FROM placed CROSS JOIN interval_shifts w WHERE status = 0 AND offset >= 0) s
JOIN interval_blocks i
  ON s.cell = i.cell AND s.partition = i.partition AND s.width = i.shift AND shiftright(s.offset, s.width) = i.block
LEFT JOIN clock_errors c ON s.cell = c.cell AND s.producer = c.producer
WHERE s.offset >= i.from_offset AND s.offset < i.end_offset AND i.kind IN ('acked_below_min_isr', 'two_leaders_ack')
  AND s.acked_us - CASE WHEN c.producer IS NULL THEN 0 ELSE c.error_us END >= i.after_us
  AND s.acked_us + CASE WHEN c.producer IS NULL THEN 0 ELSE c.error_us END < i.before_us
"""

# Of every width that intervals have (`interval_shifts`). An interval ends with the append of a later leader at its
# offsets, and that append may be acknowledged within the clock's bound. So the latest possible time of an
# acknowledgement counts: it is never before the append that was acknowledged. The last answers of a leader that was
# replaced come long before.
PREDICTED_LOST = """
SELECT /*+ BROADCAST(i), BROADCAST(c) */ s.cell, i.kind, s.producer, s.incarnation, s.seq
FROM (SELECT /*+ BROADCAST(w) */ * FROM placed CROSS JOIN interval_shifts w WHERE status = 0 AND offset >= 0) s
JOIN interval_blocks i
  ON s.cell = i.cell AND s.partition = i.partition AND s.width = i.shift AND shiftright(s.offset, s.width) = i.block
LEFT JOIN clock_errors c ON s.cell = c.cell AND s.producer = c.producer
WHERE s.offset >= i.from_offset AND s.offset < i.end_offset AND i.kind = 'lost'
  AND s.acked_us + coalesce(c.error_us, 0) >= i.after_us AND s.acked_us + coalesce(c.error_us, 0) < i.before_us
"""

PREDICTED_IN_LOG = """
SELECT /*+ BROADCAST(i) */ l.cell, i.kind, l.producer, l.incarnation, l.seq
FROM (SELECT /*+ BROADCAST(w) */ * FROM log CROSS JOIN interval_shifts w) l
JOIN interval_blocks i
  ON l.cell = i.cell AND l.partition = i.partition AND l.width = i.shift AND shiftright(l.offset, l.width) = i.block
WHERE l.offset >= i.from_offset AND l.offset < i.end_offset AND i.kind IN ('duplicated', 'reordered')
"""

# What only faults, only records, or both say, of each word of `marks`.
_PARTS = """(
SELECT cell, kind, part, producer, incarnation, word, bits
FROM marks LATERAL VIEW stack(3, 'both', observed & predicted, 'only_observed', observed & ~predicted,
                                 'only_predicted', predicted & ~observed) parts_of_word AS part, bits
WHERE bits <> 0)"""

TOTALS = f"""
SELECT cell, kind, part, count(*) AS total, bit_xor(xxhash64(producer, incarnation, word * 64 + bit)) AS hash
FROM {_PARTS} LATERAL VIEW explode(sequence(0, 63)) bits_of_word AS bit WHERE bits & shiftleft(1L, bit) <> 0
GROUP BY cell, kind, part
"""

# Where runs of neighbouring sequence numbers begin and end, in their order: as many of each set as {limit} runs have at
# most. A run goes on in the next word if the last bit of this one and the first bit of that one are set. Only words
# are sorted, and not the records of a set, which may be half of the run log.
EDGES = f"""
SELECT cell, kind, part, producer, incarnation, seq, is_start, is_end
FROM (SELECT *, row_number() OVER (PARTITION BY cell, kind, part ORDER BY producer, incarnation, seq) AS place
      FROM (SELECT cell, kind, part, producer, incarnation, word * 64 + bit AS seq,
                   starts & shiftleft(1L, bit) <> 0 AS is_start, ends & shiftleft(1L, bit) <> 0 AS is_end
            FROM (SELECT *,
                         bits & ~(shiftleft(bits, 1)
                                  | IF(word_before = word - 1, shiftrightunsigned(bits_before, 63), 0L)) AS starts,
                         bits & ~(shiftrightunsigned(bits, 1)
                                  | IF(word_after = word + 1, shiftleft(bits_after, 63), 0L)) AS ends
                  FROM (SELECT *, lag(word) OVER neighbours AS word_before, lag(bits) OVER neighbours AS bits_before,
                               lead(word) OVER neighbours AS word_after, lead(bits) OVER neighbours AS bits_after
                        FROM {_PARTS}
                        WINDOW neighbours AS (PARTITION BY cell, kind, part, producer, incarnation ORDER BY word)))
            LATERAL VIEW explode(sequence(0, 63)) bits_of_word AS bit
            WHERE (starts | ends) & shiftleft(1L, bit) <> 0))
WHERE place <= 2 * {{limit}}
ORDER BY cell, kind, part, place
"""
