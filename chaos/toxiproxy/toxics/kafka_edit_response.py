"""kafka_edit_response: the broker has acted on the request, but the client reads `error_code`, or `throttle_ms`, or
both.

-1 does not change a field. If the response has error codes per topic or partition, those that match are set. Otherwise
the error code at its top is set. `chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.toxiproxy.kafka.matching import match_attributes
from chaos.toxiproxy.toxic import Attribute, AttributeValue, ToxicSpec

THROTTLE_MS_MAX = 600_000


def _check(attributes: Mapping[str, AttributeValue]) -> str | None:
    if attributes["error_code"] == -1 and attributes["throttle_ms"] == -1:
        return "kafka_edit_response needs an error_code, a throttle_ms or both: without them it changes nothing"
    return None


SPEC = ToxicSpec(
    type="kafka_edit_response",
    attributes=(
        *match_attributes(),
        Attribute(name="error_code", default=-1, minimum=-1, maximum=32767),
        Attribute(name="throttle_ms", default=-1, minimum=-1, maximum=THROTTLE_MS_MAX),
    ),
    is_kafka=True,
    check=_check,
)
