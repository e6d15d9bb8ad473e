"""kafka_hold_request: the request is held back, its client's connection ends; `delay_ms` later the broker gets it.

By then the client has most likely sent it again and gone on. So a late EndTxn meets the next transaction, and a late
Produce meets batches that were sent after it (Jepsen's report on Bufstream; KAFKA-14402; KIP-890). Nobody gets the late
answer. `chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from chaos.toxiproxy.kafka.matching import match_attributes
from chaos.toxiproxy.toxic import Attribute, ToxicSpec

SPEC = ToxicSpec(
    type="kafka_hold_request",
    attributes=(
        *match_attributes("EndTxn", "Produce", "OffsetCommit", "TxnOffsetCommit", "AddPartitionsToTxn"),
        Attribute(name="delay_ms", default=1000, minimum=1, maximum=60_000),
    ),
    is_kafka=True,
)
