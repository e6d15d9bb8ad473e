"""kafka_alter_response: the broker has acted on the request, and the client reads a response with other contents, as a
broker could have sent it.

- `missing`: Metadata without the last partitions of a topic, from `partition` on (-1: the last one), as from a broker
  that does not know new partitions yet. Fetch, within a session, without the entries that match: nothing new for them.
- `reversed`: all entries in reversed order, because the protocol promises none.
- `empty`: Fetch with no records in the entries that match.
- `older_epoch`: a leader epoch one lower, as from a broker that is behind: in Metadata and DescribeTopicPartitions, and
  where Fetch and Produce name the leader beside an error.

If nothing in the response can be altered so, nothing changes, and the counter `unchanged` counts it.
`chaos.toxiproxy.kafka.alterations` says why each is lawful; `chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.toxiproxy.kafka.alterations import APIS
from chaos.toxiproxy.kafka.matching import kafka_toxic
from chaos.toxiproxy.toxic import Attribute, AttributeValue


def _check(attributes: Mapping[str, AttributeValue]) -> str | None:
    api, how = attributes["api"], str(attributes["how"])
    if api not in APIS[how]:
        possible = ", ".join(each for each, apis in APIS.items() if api in apis) or "nothing"
        return f"attribute how: no broker answers {api} so ({how}); possible with it: {possible}"
    return None


SPEC = kafka_toxic(
    "kafka_alter_response",
    Attribute(name="how", default="reversed", choices=tuple(APIS)),
    apis=tuple(dict.fromkeys(api for apis in APIS.values() for api in ("Metadata", *apis))),
    check=_check,
)
