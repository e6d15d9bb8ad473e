"""Decides which exchanges a Kafka toxic acts on: by API, by what the request names, by client, by the number of the
match, and by whether another toxic has acted before (turns.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaos.toxiproxy.kafka.apis import API_KEYS, SELECTORS, Selector
from chaos.toxiproxy.kafka.possible import is_possible
from chaos.toxiproxy.kafka.turns import AFTER, Turns
from chaos.toxiproxy.toxic import Attribute, AttributeValue, Check, Toxic, ToxicSpec


def kafka_toxic(type: str, *own: Attribute, apis: tuple[str, ...] = (), check: Check | None = None) -> ToxicSpec:
    """The description of a toxic that the tap carries out. `apis` are those that it can act on, the default first. None
    given: all APIs. `own` are its attributes beside those that every Kafka toxic has."""

    def checked(attributes: Mapping[str, AttributeValue]) -> str | None:
        return _selector_problem(attributes) or (check(attributes) if check else None)

    return ToxicSpec(type=type, attributes=(*_match_attributes(apis), *own), is_kafka=True, check=checked)


# Of a toxic that sets an error code: 1 if it is only for requests that a broker could answer so (possible.py). Others
# pass, and the counter `impossible` counts them.
POSSIBLE_ONLY = Attribute(name="possible_only", default=0, maximum=1)


def _match_attributes(apis: tuple[str, ...]) -> tuple[Attribute, ...]:
    choices = apis or tuple(API_KEYS)
    return (
        Attribute(name="api", default=choices[0], choices=choices),
        Attribute(name=Selector.TOPIC.value, default=""),  # empty: any
        Attribute(name=Selector.PARTITION.value, default=-1, minimum=-1, maximum=1 << 30),  # -1: any
        Attribute(name=Selector.GROUP.value, default=""),  # empty: any
        Attribute(name=Selector.TRANSACTIONAL_ID.value, default=""),  # empty: any
        Attribute(name="client_id", default=""),  # empty: any
        Attribute(name="skip", default=0),  # this many matches pass first
        Attribute(name="count", default=1),  # acts at most this often; 0: no limit
        Attribute(name="every", default=1, minimum=1),  # acts on every n-th match
        Attribute(name=AFTER, default=""),  # name of a toxic; before that one has acted, this one counts nothing
    )


def _selector_problem(attributes: Mapping[str, AttributeValue]) -> str | None:
    """What is wrong with a selector that no request of the API can meet: the toxic would never act."""
    api = str(attributes["api"])
    for selector in Selector:
        if attributes[selector] in ("", -1) or selector in SELECTORS[api]:
            continue
        named = ", ".join(SELECTORS[api]) or "none of topic, partition, group and transactional_id"
        return f"attribute {selector}: a {api} request names no {selector}, it names {named}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What one request is about. The sets are filled only if a toxic selects by them."""

    api: str
    client_id: str
    partitions: frozenset[tuple[str, int]] = frozenset()  # partition -1: the topic as a whole
    groups: frozenset[str] = frozenset()
    transactional_ids: frozenset[str] = frozenset()
    # kio's message of a request that had to be decoded, of Fetch with all partitions that it means. For Produce the
    # proxy's own.
    request: Any = None
    names_all: bool = False  # it means more than it names: Metadata without topics, a Fetch session that began before


def selects_by_content(toxic: Toxic) -> bool:
    """Whether the request must be decoded before anybody knows if the toxic acts on it."""
    return _is_possible_only(toxic) or any(toxic.attributes[selector] not in ("", -1) for selector in Selector)


def _is_possible_only(toxic: Toxic) -> bool:
    return bool(toxic.attributes.get("possible_only"))


def try_take(toxic: Toxic, scope: Scope, turns: Turns, besides: list[Toxic]) -> bool:
    """Whether the toxic acts on this request, beside those that do so already. A request matches if any of its
    partitions, groups and transactional ids matches. Every match is counted from the toxic's turn on."""
    if not _is_match(toxic, scope) or not turns.has_come(toxic, besides):
        return False
    counters = toxic.counters
    counters["matched"] = counters.get("matched", 0) + 1
    position = counters["matched"] - toxic.number("skip") - 1
    acted = counters.get("acted", 0)
    if position < 0 or position % toxic.number("every") or 0 < toxic.number("count") <= acted:
        return False
    if _is_possible_only(toxic) and not is_possible(API_KEYS[scope.api], toxic.number("error_code"), scope.request):
        counters["impossible"] = counters.get("impossible", 0) + 1
        return False
    counters["acted"] = acted + 1
    turns.note(toxic)
    return True


def give_back(toxic: Toxic, why: str, turns: Turns) -> None:
    """The toxic could not act on a request that it had taken. `why` is the counter that tells so."""
    turns.take_back(toxic)
    toxic.counters["acted"] = toxic.counters.get("acted", 1) - 1
    toxic.counters[why] = toxic.counters.get(why, 0) + 1


def _is_match(toxic: Toxic, scope: Scope) -> bool:
    if toxic.text("api") != scope.api or toxic.text("client_id") not in ("", scope.client_id):
        return False
    group, transactional_id = toxic.text(Selector.GROUP), toxic.text(Selector.TRANSACTIONAL_ID)
    if (group and group not in scope.groups) or (transactional_id and transactional_id not in scope.transactional_ids):
        return False
    topic, partition = toxic.text(Selector.TOPIC), toxic.number(Selector.PARTITION)
    if (not topic and partition == -1) or scope.names_all:
        return True
    return any(
        topic in ("", name) and (partition == -1 or number in (-1, partition)) for name, number in scope.partitions
    )
