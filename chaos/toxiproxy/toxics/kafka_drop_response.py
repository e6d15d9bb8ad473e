"""kafka_drop_response: the request reaches the broker, its response never the client, whose connection is closed.

The connection to the broker stays until all outstanding responses have come, so that the wire log knows what was
appended although no client was told. `chaos.toxiproxy.kafka.tap` performs it. Of Produce only responses without an
error are dropped: dropping a refusal would show nothing.
"""

from __future__ import annotations

from chaos.toxiproxy.kafka.matching import match_attributes
from chaos.toxiproxy.toxic import ToxicSpec

SPEC = ToxicSpec(type="kafka_drop_response", attributes=match_attributes(), is_kafka=True)
