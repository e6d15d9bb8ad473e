"""Decides which exchanges a Kafka toxic acts on: by API, topic, partition and client, and by the number of the
match."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.toxiproxy.kafka.apis import API_KEYS
from chaos.toxiproxy.toxic import Attribute, Toxic


def match_attributes(*apis: str) -> tuple[Attribute, ...]:
    """The attributes that every Kafka toxic has. `apis` are those that it can act on, the default first. None given:
    all APIs."""
    choices = apis or tuple(API_KEYS)
    return (
        Attribute(name="api", default=choices[0], choices=choices),
        Attribute(name="topic", default=""),  # empty: any
        Attribute(name="partition", default=-1, minimum=-1, maximum=1 << 30),  # -1: any
        Attribute(name="client_id", default=""),  # empty: any
        Attribute(name="skip", default=0),  # this many matches pass first
        Attribute(name="count", default=1),  # acts at most this often; 0: no limit
        Attribute(name="every", default=1, minimum=1),  # acts on every n-th match
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What one request is about."""

    api: str
    client_id: str
    partitions: frozenset[tuple[str, int]] = frozenset()  # partition -1: the topic as a whole


def try_take(toxic: Toxic, scope: Scope) -> bool:
    """Whether the toxic acts on this request. A request matches if any of its partitions matches. Every match is
    counted."""
    if not _is_match(toxic, scope):
        return False
    counters = toxic.counters
    counters["matched"] = counters.get("matched", 0) + 1
    position = counters["matched"] - toxic.number("skip") - 1
    acted = counters.get("acted", 0)
    if position < 0 or position % toxic.number("every") or 0 < toxic.number("count") <= acted:
        return False
    counters["acted"] = acted + 1
    return True


def _is_match(toxic: Toxic, scope: Scope) -> bool:
    if toxic.text("api") != scope.api or toxic.text("client_id") not in ("", scope.client_id):
        return False
    topic, partition = toxic.text("topic"), toxic.number("partition")
    if (not topic and partition == -1) or (scope.api == "Metadata" and not scope.partitions):
        return True  # a Metadata request without topics asks for all
    return any(
        topic in ("", name) and (partition == -1 or number in (-1, partition)) for name, number in scope.partitions
    )
