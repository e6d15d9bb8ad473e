"""Which Produce exchanges a Kafka toxic acts on: by topic, partition and client, and which ones of those by number."""

from __future__ import annotations

from chaos.toxiproxy.kafka.produce import ProduceRequest
from chaos.toxiproxy.toxic import Attribute, Toxic

MATCH_ATTRIBUTES = (
    Attribute(name="api", default="Produce", choices=("Produce",)),
    Attribute(name="topic", default=""),  # empty: any
    Attribute(name="partition", default=-1, minimum=-1, maximum=1 << 30),  # -1: any
    Attribute(name="client_id", default=""),  # empty: any
    Attribute(name="skip", default=0),  # let so many matches pass first
    Attribute(name="count", default=1),  # act so often, 0 without end
    Attribute(name="every", default=1, minimum=1),  # act on every so manieth match
)


def try_take(toxic: Toxic, request: ProduceRequest) -> bool:
    """Count this match; True if the toxic acts on it. A request matches if any of its partitions does."""
    if not _is_match(toxic, request):
        return False
    counters = toxic.counters
    counters["matched"] = counters.get("matched", 0) + 1
    position = counters["matched"] - toxic.number("skip") - 1
    acted = counters.get("acted", 0)
    if position < 0 or position % toxic.number("every") or 0 < toxic.number("count") <= acted:
        return False
    counters["acted"] = acted + 1
    return True


def _is_match(toxic: Toxic, request: ProduceRequest) -> bool:
    if toxic.text("client_id") not in ("", request.client_id):
        return False
    return any(
        toxic.text("topic") in ("", batch.topic) and toxic.number("partition") in (-1, batch.partition)
        for batch in request.batches
    )
