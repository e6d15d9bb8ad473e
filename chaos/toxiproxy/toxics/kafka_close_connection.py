"""kafka_close_connection: a request gets no answer, and its connection is closed.

`when: before`: the broker does not get the request. `when: after`: the broker works on it, and its response is thrown
away, whatever it says. (`kafka_drop_response` does that too, but for Produce only with responses that have no error.)
Earlier requests of the connection reach the broker. The connection to the broker stays until they are answered.
`chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from chaos.toxiproxy.kafka.matching import kafka_toxic
from chaos.toxiproxy.toxic import Attribute

SPEC = kafka_toxic("kafka_close_connection", Attribute(name="when", default="before", choices=("before", "after")))
