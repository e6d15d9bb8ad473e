"""Spark SQL on the topic and partition of records: which ones are misrouted, in all cells at once.

A record is looked for by words of 64 sequence numbers, as in `identity_queries.py`, and only where a send names a
partition in which the final log does not have it. A calm run has no such send.

Views needed: send and log (runlog.streams.schema plus `cell`), several_topics, and those of `log_queries` and
`identity_queries`. tests/reports/test_reports_exactness.py shows that the sets are exact.
"""

from __future__ import annotations

# Sends without an offset of their own that name a partition: `astray` cannot tell of them.
NAMED_WORDS = """
SELECT cell, partition, producer, incarnation, shiftright(seq, 6) AS word,
       bit_or(shiftleft(1L, CAST(seq & 63 AS INT))) AS bits
FROM send WHERE (status <> 0 OR offset < 0) AND partition >= 0
GROUP BY cell, partition, producer, incarnation, shiftright(seq, 6)
"""

# Acknowledgements that name a place where the log does not have the record, as words.
ASTRAY_WORDS = """
SELECT cell, partition, producer, incarnation, shiftright(seq, 6) AS word,
       bit_or(shiftleft(1L, CAST(seq & 63 AS INT))) AS bits
FROM (SELECT cell, partition, producer, incarnation, block * 64 + bit + lead AS seq
      FROM astray LATERAL VIEW explode(sequence(0, 63)) bits_of_block AS bit
      WHERE bits & shiftleft(1L, bit) <> 0 AND partition >= 0)
GROUP BY cell, partition, producer, incarnation, shiftright(seq, 6)
"""

# Where the log has the records of those words.
_FOUND = """
SELECT cell, partition, producer, incarnation, shiftright(seq, 6) AS word,
       bit_or(shiftleft(1L, CAST(seq & 63 AS INT))) AS bits
FROM log GROUP BY cell, partition, producer, incarnation, shiftright(seq, 6)
"""

# Words of records that are in the log, but not in the partition that their send names.
ELSEWHERE_WORDS = f"""
SELECT * FROM (
  SELECT n.cell, n.producer, n.incarnation, n.word,
         max(n.named) & bit_or(f.bits) & ~bit_or(IF(f.partition = n.partition, f.bits, 0L)) AS bits
  FROM (SELECT cell, partition, producer, incarnation, word, bit_or(bits) AS named
        FROM (SELECT * FROM named_words UNION ALL SELECT * FROM astray_words)
        GROUP BY cell, partition, producer, incarnation, word) n
  JOIN ({_FOUND}) f
    ON n.cell = f.cell AND n.producer = f.producer AND n.incarnation = f.incarnation AND n.word = f.word
  GROUP BY n.cell, n.partition, n.producer, n.incarnation, n.word)
WHERE bits <> 0
"""

# The topic of a record is known from its identity (workloads.outcomes.topic_of), also if nobody named a partition.
WRONG_TOPIC = """
SELECT l.cell, l.producer, l.incarnation, l.seq FROM log l JOIN several_topics t ON l.cell = t.cell
WHERE l.partition DIV t.partitions <> (l.seq + l.producer) % t.topics
"""

MISROUTED = f"""
SELECT cell, producer, incarnation, word * 64 + bit AS seq
FROM elsewhere_words LATERAL VIEW explode(sequence(0, 63)) bits_of_word AS bit WHERE bits & shiftleft(1L, bit) <> 0
UNION
SELECT cell, producer, incarnation, seq FROM duplicates
GROUP BY cell, producer, incarnation, seq HAVING count(DISTINCT partition) > 1
UNION
{WRONG_TOPIC}
"""

# Sends whose acknowledgement names a place of their own: where a misrouted record is, its offset says nothing.
PLACED = """
SELECT s.* FROM send s LEFT ANTI JOIN misrouted m
  ON s.cell = m.cell AND s.producer = m.producer AND s.incarnation = m.incarnation AND s.seq = m.seq
"""
