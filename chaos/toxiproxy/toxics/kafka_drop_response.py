"""kafka_drop_response: the request reaches the broker, its response never the client, whose connection is closed.

The connection to the broker stays until all outstanding responses have come, so that the wire log knows what was
appended although no client was told. `chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from chaos.toxiproxy.kafka.matching import MATCH_ATTRIBUTES
from chaos.toxiproxy.toxic import ToxicSpec

SPEC = ToxicSpec(type="kafka_drop_response", attributes=MATCH_ATTRIBUTES, is_kafka=True)
