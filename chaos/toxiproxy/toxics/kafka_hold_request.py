"""kafka_hold_request: the request is held back, and its client's connection ends. `delay_ms` later the broker gets it.

By then the client has most likely sent it again and continued. So a late EndTxn arrives during the next transaction,
and a late Produce arrives after batches that were sent later (Jepsen's report on Bufstream; KAFKA-14402; KIP-890).
Nobody gets the late answer. `chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from chaos.toxiproxy.kafka.apis import API_KEYS
from chaos.toxiproxy.kafka.matching import kafka_toxic
from chaos.toxiproxy.toxic import Attribute

SPEC = kafka_toxic(
    "kafka_hold_request",
    Attribute(name="delay_ms", default=1000, minimum=1, maximum=60_000),
    apis=("EndTxn", *(api for api in API_KEYS if api != "EndTxn")),
)
