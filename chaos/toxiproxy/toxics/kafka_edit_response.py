"""kafka_edit_response: the broker has acted on the request, but the client reads `error_code`, or `throttle_ms`, or
both.

-1 does not change a field. The code is set where a broker puts it: with the partitions, topics or groups that match, or
at the top of the response (`chaos.toxiproxy.kafka.error_levels`). What gets an error has no result any more, as from a
broker: no offset, no records, no members. If nothing in the response matches, nothing changes, and the counter
`unchanged` counts it. `chaos.toxiproxy.kafka.tap` performs it.

With `possible_only` it acts only on requests that a broker could answer so (`chaos.toxiproxy.kafka.possible`).
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.toxiproxy.kafka.matching import POSSIBLE_ONLY, kafka_toxic
from chaos.toxiproxy.toxic import Attribute, AttributeValue

THROTTLE_MS_MAX = 600_000


def _check(attributes: Mapping[str, AttributeValue]) -> str | None:
    if attributes["error_code"] == -1 and attributes["throttle_ms"] == -1:
        return "kafka_edit_response needs an error_code, a throttle_ms or both: without them it changes nothing"
    return None


SPEC = kafka_toxic(
    "kafka_edit_response",
    Attribute(name="error_code", default=-1, minimum=-1, maximum=32767),
    Attribute(name="throttle_ms", default=-1, minimum=-1, maximum=THROTTLE_MS_MAX),
    POSSIBLE_ONLY,
    check=_check,
)
