"""kafka_drop_response: the request reaches the broker, but its response never reaches the client, whose connection is
closed.

The connection to the broker stays until all outstanding responses have arrived. So the wire log knows what was appended
although the client got no answer. For Produce only responses without an error are dropped, because it would prove
nothing to drop a refusal. `chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from chaos.toxiproxy.kafka.matching import kafka_toxic

SPEC = kafka_toxic("kafka_drop_response")
