"""kafka_delay_response: a response arrives `delay_ms` late. Later responses of its connection arrive after it.

`chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from chaos.toxiproxy.kafka.matching import match_attributes
from chaos.toxiproxy.toxic import Attribute, ToxicSpec

SPEC = ToxicSpec(
    type="kafka_delay_response",
    attributes=(*match_attributes(), Attribute(name="delay_ms", default=1000, minimum=1, maximum=600_000)),
    is_kafka=True,
)
