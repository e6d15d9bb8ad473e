"""For which configuration each anomaly is lawful, unlawful or impossible, with the reason and its source.

Lawful: the protocol permits it, a fault may cause it. Unlawful: a promise was broken. Impossible: it cannot be said
of this configuration at all. Pure; the page shows `table()` and the verdict quotes `rule`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reports.model import Cell, Json

LAWFUL, UNLAWFUL, IMPOSSIBLE = "lawful", "unlawful", "impossible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    acks: str = "all"
    idempotence: bool = False
    max_in_flight: int = 5
    retries: int = 2_147_483_647
    replication_factor: int = 3
    min_isr: int = 1
    unclean_election: bool = False
    truncated: bool = False  # a log was cut back in this cell

    def text(self) -> str:
        parts = [f"acks={self.acks}", f"idempotence {'on' if self.idempotence else 'off'}"]
        parts += [f"in-flight {self.max_in_flight}", f"RF {self.replication_factor}", f"min ISR {self.min_isr}"]
        return ", ".join(parts + (["unclean election"] if self.unclean_election else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    lawful: str
    reason: str
    source: str


def configuration_of(cell: Cell) -> Configuration:
    """What was in force, read back where the cell knows it."""
    client = cell.effective_client
    effective = cell.outcome.get("effective") or {}
    topic_part = cell.part("topic")
    topic: Json = {**_object(topic_part.get("config")), **_object(effective.get("topic"))}
    broker = _object(effective.get("broker"))

    def setting(name: str, default: str) -> str:
        return str(topic.get(name, broker.get(name, default))).strip().lower()

    acks = str(client.get("acks", "all")).strip().lower()
    return Configuration(
        acks="all" if acks in ("-1", "all") else acks,
        idempotence=str(client.get("enable.idempotence", "false")).strip().lower() == "true",
        max_in_flight=_whole(client.get("max.in.flight.requests.per.connection"), 5),
        retries=_whole(client.get("retries"), 2_147_483_647),
        replication_factor=_whole(topic_part.get("replication_factor"), 1),
        min_isr=_whole(setting("min.insync.replicas", "1"), 1),
        unclean_election=setting("unclean.leader.election.enable", "false") == "true",
        truncated=any(event.get("kind") == "truncated" for event in cell.events),
    )


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _whole(value: object, default: int) -> int:
    try:
        return int(str(value))
    except ValueError:
        return default


def rule(anomaly: str, configuration: Configuration) -> Ruling:
    """The ruling on one anomaly. KeyError for a name that `anomalies.py` does not list."""
    return _RULES[anomaly](configuration)


def _lost(c: Configuration) -> Ruling:
    if c.acks == "0":
        return Ruling(
            lawful=IMPOSSIBLE, reason="nothing is acknowledged, so nothing acknowledged can be lost", source="acks"
        )
    if c.unclean_election:
        return Ruling(
            lawful=LAWFUL,
            reason="a replica outside the ISR may become leader and drops what it never had",
            source="unclean.leader.election.enable",
        )
    if c.acks == "1" and c.replication_factor > 1:
        return Ruling(
            lawful=LAWFUL,
            reason="the leader answers before its followers have the record; if it dies, they go on without it",
            source="acks; KIP-101",
        )
    if c.acks == "1" or c.replication_factor == 1:
        return Ruling(
            lawful=UNLAWFUL,
            reason="there is one copy: it is lost with its disk only, and no scenario here takes a disk away",
            source="acks",
        )
    if c.min_isr < 2:
        return Ruling(
            lawful=UNLAWFUL,
            reason="the ISR may shrink to one replica, but then only that one may lead: loss needs its disk",
            source="min.insync.replicas; KIP-966",
        )
    return Ruling(
        lawful=UNLAWFUL,
        reason=f"at least {c.min_isr} in-sync replicas had the record before the answer, and one of them must lead",
        source="acks; min.insync.replicas",
    )


def _duplicated(c: Configuration) -> Ruling:
    if c.idempotence:
        return Ruling(
            lawful=UNLAWFUL,
            reason="the broker recognises a repeated sequence and appends it once, within a producer's life",
            source="enable.idempotence; KIP-98",
        )
    if c.acks == "0" or c.retries == 0:
        return Ruling(lawful=UNLAWFUL, reason="no request is ever repeated", source="retries; acks")
    return Ruling(
        lawful=LAWFUL,
        reason="a request whose answer was lost is repeated, and nothing tells the broker so",
        source="retries; KIP-98",
    )


def _reordered(c: Configuration) -> Ruling:
    if c.idempotence:
        return Ruling(
            lawful=UNLAWFUL,
            reason="the broker refuses a batch whose predecessor is missing",
            source="enable.idempotence; KIP-98",
        )
    if c.max_in_flight <= 1:
        return Ruling(
            lawful=UNLAWFUL,
            reason="the next request waits until this one is settled, retries included",
            source="max.in.flight.requests.per.connection",
        )
    if c.acks == "0" or c.retries == 0:
        return Ruling(lawful=UNLAWFUL, reason="no request is ever repeated", source="retries; acks")
    return Ruling(
        lawful=LAWFUL,
        reason="a refused batch is repeated behind batches that were in flight with it",
        source="max.in.flight.requests.per.connection",
    )


def _delivered_twice(c: Configuration) -> Ruling:
    if c.truncated:
        return Ruling(
            lawful=LAWFUL,
            reason="offsets that a truncation removed are given again, and a reader beyond the end goes back",
            source="KIP-320",
        )
    return Ruling(lawful=UNLAWFUL, reason="a consumer with fixed assignment moves forward only", source="assign()")


def _recovered(_: Configuration) -> Ruling:
    return Ruling(lawful=LAWFUL, reason="an answer that never came says nothing about the append", source="protocol")


def _unexpected(_: Configuration) -> Ruling:
    return Ruling(lawful=UNLAWFUL, reason="a log holds what producers sent", source="protocol")


def _corrupt(_: Configuration) -> Ruling:
    return Ruling(lawful=UNLAWFUL, reason="batches carry a CRC from producer to consumer", source="record batch v2")


_RULES: dict[str, Callable[[Configuration], Ruling]] = {
    "lost": _lost,
    "duplicated": _duplicated,
    "reordered": _reordered,
    "recovered": _recovered,
    "unexpected": _unexpected,
    "corrupt": _corrupt,
    "dup_delivered": _delivered_twice,
}

TYPICAL: tuple[Configuration, ...] = (
    Configuration(acks="0"),
    Configuration(acks="1"),
    Configuration(acks="all", min_isr=2),
    Configuration(acks="all", min_isr=2, unclean_election=True),
    Configuration(acks="all", min_isr=2, max_in_flight=1),
    Configuration(acks="all", min_isr=2, idempotence=True),
)


def table() -> list[tuple[str, list[Ruling]]]:
    """Anomalies by typical configurations, for the page."""
    return [(name, [rule(name, configuration) for configuration in TYPICAL]) for name in _RULES]
