"""kafka_hide_topic: Metadata says UNKNOWN_TOPIC_OR_PARTITION of `topic` (empty: of every topic).

Topics do vanish so for a moment, from a broker that has just started or lags behind; a client must keep what it holds
for them, sequence numbers above all. `chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from chaos.toxiproxy.kafka.matching import match_attributes
from chaos.toxiproxy.toxic import ToxicSpec

SPEC = ToxicSpec(type="kafka_hide_topic", attributes=match_attributes("Metadata"), is_kafka=True)
