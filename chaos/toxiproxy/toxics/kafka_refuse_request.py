"""kafka_refuse_request: the request is not forwarded. The client gets `error_code` for each of its partitions.

The refusal keeps its place among the responses of its connection. It is held until `followers` later Produce requests
for one of its partitions have arrived. So the client's retry must come after them. A client that sends no later request
(one in flight) gets the refusal after `hold_ms_max`. All clients retry after the default error, NOT_LEADER_OR_FOLLOWER.
`chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from chaos.toxiproxy.kafka.matching import match_attributes
from chaos.toxiproxy.toxic import Attribute, ToxicSpec

NOT_LEADER_OR_FOLLOWER = 6

SPEC = ToxicSpec(
    type="kafka_refuse_request",
    attributes=(
        *match_attributes("Produce"),
        Attribute(name="error_code", default=NOT_LEADER_OR_FOLLOWER, minimum=1, maximum=32767),
        Attribute(name="followers", default=1, minimum=0, maximum=100),
        Attribute(name="hold_ms_max", default=200, minimum=0, maximum=60_000),
    ),
    is_kafka=True,
)
