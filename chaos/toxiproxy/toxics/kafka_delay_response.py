"""kafka_delay_response: a response arrives `delay_ms` late. Later responses of its connection arrive after it.

`chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from chaos.toxiproxy.kafka.matching import kafka_toxic
from chaos.toxiproxy.toxic import Attribute

SPEC = kafka_toxic("kafka_delay_response", Attribute(name="delay_ms", default=1000, minimum=1, maximum=600_000))
