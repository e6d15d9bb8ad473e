"""kafka_corrupt_batch: one bit of the records of a Produce request is flipped on its way; its CRC is not changed.

A broker must answer CORRUPT_MESSAGE and append nothing. `chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from chaos.toxiproxy.kafka.matching import kafka_toxic

SPEC = kafka_toxic("kafka_corrupt_batch", apis=("Produce",))
