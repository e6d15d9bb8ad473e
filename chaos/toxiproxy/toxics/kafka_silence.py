"""kafka_silence: a request gets no answer, and its connection stays open.

`when: before`: the broker does not get the request. It gets no later request of the connection either, because a broker
takes the requests of a connection one after the other. Up to 8 MiB of them are kept; then the client is not read any
more. `when: after`: the broker works on the request and on later ones, but their responses are kept back. Beyond 8 MiB
of them the broker is not read any more.

The silence lasts until it is healed, or `silence_ms` if that is not 0. What then happens says `at_heal`:

- `release`: the broker gets the requests, or the client the responses, in their order.
- `close`: the connection ends. Requests that were kept back never reach the broker.
- `stay`: the connection stays as it is until somebody ends it. What was kept back is thrown away.

A client that ends the connection ends the silence too: requests that were kept back never reach the broker.
`chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from chaos.toxiproxy.kafka.matching import kafka_toxic
from chaos.toxiproxy.toxic import Attribute

SPEC = kafka_toxic(
    "kafka_silence",
    Attribute(name="when", default="before", choices=("before", "after")),
    Attribute(name="silence_ms", default=0, minimum=0, maximum=600_000),
    Attribute(name="at_heal", default="release", choices=("release", "close", "stay")),
)
