"""kafka_hide_topic: Metadata says UNKNOWN_TOPIC_OR_PARTITION for `topic` (empty: for every topic).

A broker that has just started, or that is behind, may really not know a topic for a moment. A client must keep what it
has for the topic, above all sequence numbers. `chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from chaos.toxiproxy.kafka.matching import kafka_toxic

SPEC = kafka_toxic("kafka_hide_topic", apis=("Metadata",))
