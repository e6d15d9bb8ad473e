"""Damage by client, version, fault and setting: docs/reference/client-damage.md, from the rows of scenario_rows.py.

`python -m benchmarks.scenario_results` calls it. Shown by tests/benchmarks/test_benchmarks_scenario_results.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.scenario_rows import ROOT, Row, cases_of, damage_of, result_of
from workloads.clients.process.versions.names import client_of
from workloads.clients.process.versions.nearest import in_order

PAGE: Final = ROOT / "docs" / "reference" / "client-damage.md"
_NOT_TOLD: Final = "not told"  # older rows have no version of some clients

_HEAD = """# Damage by client and version

Written by `python -m benchmarks.scenario_results RUN_DIR…` from the verdicts of finished runs. It answers: does *my*
client, in *my* version, with *my* settings, lose, duplicate or reorder records under *this* fault? Each row is a
scenario with one of its cases ([scenarios.md](scenarios.md)), each column a version.

A cell says how many runs passed, and the damage that was seen, the least and the most. A run passes if the damage is
what the settings permit and was predicted. A run fails if there is other damage. Then that damage stands behind "fail".
Inconclusive runs prove nothing, mostly because the host was busy. A dash: not run. One run is an example and no rate:
what was not seen may still happen.

`harness chaos SCENARIO --case CASE --client CLIENT==VERSION` runs a cell on your host.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What a user of the client must know. `anchor` is a heading of docs/guide/found.md."""

    text: str
    anchor: str


_LIBRDKAFKA: Final = (
    Fact(
        text="Without idempotence, records may change their order even with one request in flight.",
        anchor="librdkafka-reordering-with-one-request-in-flight",
    ),
    Fact(
        text="With idempotence, a partition has one request in flight, and the thread that waits for it uses a core.",
        anchor="librdkafka-idempotence-leaves-one-request-in-flight-and-spins",
    ),
    Fact(
        text="A consumer reads nothing any more if one OffsetFetch is refused while it joins.",
        anchor="librdkafka-a-consumer-stands-still-after-one-offsetfetch-is-refused",
    ),
    Fact(
        text="Sending a transaction's offsets may never return after the death of the group's coordinator.",
        anchor="librdkafka-a-transactions-offsets-wait-for-a-coordinator-that-is-gone",
    ),
)
KNOWN: Final[Mapping[str, tuple[Fact, ...]]] = {
    "aiokafka": (
        Fact(
            text="`getmany` waits for an assignment, whatever its timeout.",
            anchor="aiokafka-getmany-waits-for-the-group-whatever-its-timeout",
        ),
    ),
    "confluent": (
        *_LIBRDKAFKA,
        Fact(
            text="An exception of a callback may come as a SystemError on Python before 3.12.",
            anchor="confluent-kafka-python-an-exception-of-a-callback-is-replaced-by-another-one",
        ),
    ),
    "librdkafka": _LIBRDKAFKA,
    "java": (
        Fact(
            text="On Apache Kafka, idempotence may duplicate records if all replicas of a partition restart at once.",
            anchor="apache-kafka-and-its-java-client-idempotence-ends-when-all-replicas-restart",
        ),
    ),
    "franz-go": (
        Fact(
            text="Without idempotence, a refused request duplicates the records behind it.",
            anchor="franz-go-a-refused-request-duplicates-the-ones-behind-it-without-idempotence",
        ),
    ),
    "kafkajs": (
        Fact(
            text="With idempotence and several sends under way, a lost answer loses acknowledged records.",
            anchor="kafkajs-with-idempotence-a-lost-answer-loses-another-record",
        ),
        Fact(
            text="A send that is tried again may leave records out, and resolves. Give each record its partition.",
            anchor="kafkajs-a-send-that-is-tried-again-leaves-records-out",
        ),
        Fact(
            text="One ApiVersions without an answer fails all that follows, until there is a new client.",
            anchor="kafkajs-one-apiversions-without-an-answer-fails-all-that-follows",
        ),
    ),
    "kafka_python": (
        Fact(
            text="A partition that is paused within a batch stands still (version 3).",
            anchor="kafka-python-a-partition-that-is-paused-within-a-batch-stands-still",
        ),
        Fact(
            text="A member whose poll ends during a join may lose its group. Use long polls.",
            anchor="kafka-python-a-join-in-which-a-poll-ends-is-never-finished",
        ),
        Fact(
            text="A commit of a transaction with records under way never returns (2.2).",
            anchor="kafka-python-22-a-commit-with-records-under-way-never-returns",
        ),
    ),
}


def render(rows: Sequence[Row]) -> str:
    """The reference client is left out: nobody else uses it."""
    by_client: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.client != "reference":
            by_client[client_of(row.client)].append(row)
    return "\n".join([_HEAD, *(_section(client, by_client[client]) for client in sorted(by_client))])


def _section(client: str, rows: Sequence[Row]) -> str:
    facts = [f"- {fact.text} ([more](../guide/found.md#{fact.anchor}))" for fact in KNOWN.get(client, ())]
    ascending = in_order({_version(row) for row in rows})
    places = sorted(
        {(row.cluster, _version(row)) for row in rows},
        key=lambda place: (place[0] == "kafka", ascending.index(place[1])),
    )
    by_place: defaultdict[tuple[str, str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_place[row.scenario, row.case, row.cluster, _version(row)].append(row)
    heads = [f"{version}{', Apache Kafka' if cluster == 'kafka' else ''}" for cluster, version in places]
    lines = [f"| scenario | case | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    for scenario, case in cases_of(rows):
        cells = [by_place[scenario, case, *place] for place in places]
        if any(cells):
            told = " | ".join(map(_result, cells))
            lines.append(f"| [{scenario}](scenarios.md#{scenario}) | {case} | {told} |")
    must_know = ["**What its users must know**", "", *facts, ""] if facts else []
    return "\n".join([f"## {client}", "", *must_know, *lines, ""])


def _version(row: Row) -> str:
    return row.client_version or _NOT_TOLD


def _result(rows: Sequence[Row]) -> str:
    unlawful = ", ".join(damage_of(rows, "fail"))
    return result_of(rows) + (f" (fail: {unlawful})" if unlawful else "")
