"""kafka_refuse_request: the request is not forwarded. The client gets `error_code`, as from a broker that did not work
on it. -1 is UNKNOWN_SERVER_ERROR.

The response is made from the request, for every API (`chaos.toxiproxy.kafka.refusals`). It keeps its place among the
responses of its connection. If the response has no place for an error, the request passes, and the counter `no_place`
counts it.

A Fetch request of a session is refused for all partitions of the session. They are known only if the toxic was there
when the session began. The broker does not see that request, so it answers the next one with an error of the session
(INVALID_FETCH_SESSION_EPOCH), and the client begins another.

A refusal of Produce is held until `followers` later Produce requests for one of its partitions have arrived. So the
client's retry must come after them. A client that sends no later request (one in flight) gets the refusal after
`hold_ms_max`. Refusals of other APIs are not held. All clients retry a Produce request after the default error,
NOT_LEADER_OR_FOLLOWER. `chaos.toxiproxy.kafka.tap` performs it.

With `possible_only` it acts only on requests that a broker could answer so (`chaos.toxiproxy.kafka.possible`).
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.toxiproxy.kafka.matching import POSSIBLE_ONLY, kafka_toxic
from chaos.toxiproxy.toxic import Attribute, AttributeValue

NOT_LEADER_OR_FOLLOWER = 6
_UNKNOWN_SERVER_ERROR = -1
_FOLLOWERS = 1


def _check(attributes: Mapping[str, AttributeValue]) -> str | None:
    if attributes["api"] != "Produce" and attributes["followers"] not in (0, _FOLLOWERS):
        return f"attribute followers: only a refusal of Produce waits for followers, not one of {attributes['api']}"
    if attributes["error_code"] == 0:
        return "attribute error_code: 0 is no error"
    return None


SPEC = kafka_toxic(
    "kafka_refuse_request",
    Attribute(name="error_code", default=NOT_LEADER_OR_FOLLOWER, minimum=_UNKNOWN_SERVER_ERROR, maximum=32767),
    Attribute(name="followers", default=_FOLLOWERS, minimum=0, maximum=100),
    Attribute(name="hold_ms_max", default=200, minimum=0, maximum=60_000),
    POSSIBLE_ONLY,
    check=_check,
)
