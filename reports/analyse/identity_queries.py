"""Spark SQL on the identities of records: lost, found again, never sent, or there twice; in all cells at once.

Records are packed into words of 64 sequence numbers, so N records shuffle N/64 rows. Only words that differ are
opened. All comparisons are of bit sets, in which each bit is one record. No hashes and no sums are compared.

Views needed: send and log (runlog.streams.schema plus `cell`). `record_sets.py` runs the statements in their order.
"""

from __future__ import annotations

from reports.analyse.set_queries import PREDICTED_LOST
from runlog.streams.record_keys import TURNS

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
             bit_or(IF(status IN (1, 3), shiftleft(1L, CAST(seq & 63 AS INT)), 0L)) AS failed, count(*) AS sends
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
SELECT /*+ SMALL(b, crowded_send_words) */ s.cell, s.producer, s.incarnation, s.seq, count(*) AS n,
       count(DISTINCT s.status, s.partition, s.offset, s.acked_us) AS outcomes
FROM send s LEFT SEMI JOIN crowded_send_words b
  ON s.cell = b.cell AND s.producer = b.producer AND s.incarnation = b.incarnation AND shiftright(s.seq, 6) = b.word
GROUP BY s.cell, s.producer, s.incarnation, s.seq HAVING count(*) > 1
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

# What a compaction may have taken: removals that need a newer record of the key, with the turns of the keys that have
# one, and only below it. `record_keys` (cell, turn, key) has the keys of cells whose compaction is judged by them: of
# record `seq`, by seq modulo the turns, which are a power of two. A key is in one partition, so there are few rows.
SUPERSEDED = f"""
SELECT k.cell, k.turn, n.partition, i.from_offset, least(i.end_offset, n.offset) AS end_offset, i.sent_before_us,
       i.is_known
FROM record_keys k
JOIN (SELECT l.cell, l.partition, k.key, max(l.offset) AS offset
      FROM log l JOIN record_keys k ON l.cell = k.cell AND l.seq & {TURNS - 1} = k.turn
      WHERE l.crc_ok = 1 GROUP BY l.cell, l.partition, k.key) n ON k.cell = n.cell AND k.key = n.key
JOIN removals i ON n.cell = i.cell AND n.partition = i.partition AND i.needs_newer = 1 AND i.from_offset < n.offset
"""

# What is missing from the log. `removals` (cell, partition, from_offset, end_offset, sent_before_us, is_known,
# needs_newer) is what retention, DeleteRecords and compaction may have taken; a cell without a row of it has nothing to
# look for.
MISSING = f"""
SELECT /*+ BROADCAST(c) */ s.cell, s.producer, s.incarnation, s.seq
FROM ({STRAYS}) s LEFT SEMI JOIN (SELECT DISTINCT cell FROM removals) c ON s.cell = c.cell
WHERE s.kind IN ('lost', 'lost_unacked')
"""

# Where a record is or was, and when it was sent.
_PLACES = """
SELECT s.cell, s.partition, s.offset, s.sent_us, s.producer, s.incarnation, s.seq
FROM send s WHERE s.status = 0 AND s.offset >= 0
UNION ALL
SELECT r.cell, r.partition, r.offset, r.intended_us, r.producer, r.incarnation, r.seq
FROM recv r WHERE r.crc_ok = 1
"""

# Missing records that were there once and may be gone lawfully, and those of which nobody told an offset. A record that
# a truncation took (`PREDICTED_LOST`) was gone before anything could be removed there. What a compaction
# took must have a newer record of its key.
REMOVED = f"""
SELECT cell, IF(max(is_known) = 1, 'removed', 'removed_in_doubt') AS kind, producer, incarnation, seq
FROM (SELECT /*+ BROADCAST(i) */ p.cell, p.producer, p.incarnation, p.seq, i.is_known FROM ({_PLACES}) p
      JOIN removals i
        ON p.cell = i.cell AND p.partition = i.partition AND p.offset >= i.from_offset AND p.offset < i.end_offset
       AND p.sent_us < i.sent_before_us AND i.needs_newer = 0
      UNION ALL
      SELECT /*+ SMALL(newer, superseded) */ p.cell, p.producer, p.incarnation, p.seq, newer.is_known
      FROM ({_PLACES}) p JOIN superseded newer
        ON p.cell = newer.cell AND p.partition = newer.partition AND p.offset >= newer.from_offset
       AND p.offset < newer.end_offset AND p.sent_us < newer.sent_before_us AND p.seq & {TURNS - 1} = newer.turn
      UNION ALL
      SELECT s.cell, s.producer, s.incarnation, s.seq, 0
      FROM send s WHERE s.offset < 0 AND (s.status = 0 OR (s.status = 2 AND s.error = 0))) g
LEFT SEMI JOIN missing m
  ON g.cell = m.cell AND g.producer = m.producer AND g.incarnation = m.incarnation AND g.seq = m.seq
LEFT ANTI JOIN ({PREDICTED_LOST}) t
  ON g.cell = t.cell AND g.producer = t.producer AND g.incarnation = t.incarnation AND g.seq = t.seq
GROUP BY cell, producer, incarnation, seq
"""

# Records behind the bits of the bad words, without those that are `removed`, or `misrouted` instead of recovered.
STRAYS_THAT_STAY = f"""
SELECT s.* FROM ({STRAYS}) s LEFT ANTI JOIN removed g
  ON s.kind IN ('lost', 'lost_unacked') AND s.cell = g.cell AND s.producer = g.producer
 AND s.incarnation = g.incarnation AND s.seq = g.seq
LEFT ANTI JOIN misrouted m
  ON s.kind = 'recovered' AND s.cell = m.cell AND s.producer = m.producer
 AND s.incarnation = m.incarnation AND s.seq = m.seq
"""

DUPLICATES = """
SELECT /*+ SMALL(b, crowded_log_words) */ l.cell, l.producer, l.incarnation, l.seq, l.partition,
       min(l.offset) AS first_offset, count(DISTINCT l.offset) AS copies
FROM log l LEFT SEMI JOIN crowded_log_words b
  ON l.cell = b.cell AND l.producer = b.producer AND l.incarnation = b.incarnation AND shiftright(l.seq, 6) = b.word
GROUP BY l.cell, l.producer, l.incarnation, l.seq, l.partition
"""
