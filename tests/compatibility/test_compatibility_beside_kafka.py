"""Clients' own tests beside Apache Kafka: which cluster is first, how both outcomes are judged, what the page says."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from tests.broker_node.cluster_helper import LISTENERS, Cluster
from tests.compatibility import page
from tests.compatibility.kafka_cluster import KafkaCluster
from tests.compatibility.suites.suite import ALONE, BESIDE_KAFKA, Attempt, Kind, Known, Outcome, Suite
from tests.compatibility.trial import Cell, Trial

PASSED, SKIPPED = Outcome(state="passed"), Outcome(state="skipped", reason="too old")
FAILED = Outcome(state="failed", reason="it broke")


class Pretended(Suite):
    """Nothing runs: the outcomes are written down."""

    name = "pretended"
    language = "none"
    source = "here"
    known: ClassVar = {
        "of the client": Known(state="client", reason="it wants more"),
        "of kafka": Known(state="kafka", reason="it fails there as well"),
    }

    def __init__(self, outcomes: dict[str, tuple[Outcome, Outcome]]) -> None:
        self.outcomes, self.order = outcomes, list[tuple[str, str]]()

    def prepare(self) -> str:
        return "1"

    def tests(self) -> Sequence[str]:
        return list(self.outcomes)

    @contextmanager
    def opened(self, directory: Path, kind: Kind) -> Iterator[Attempt]:
        def attempt(test: str) -> Outcome:
            self.order.append((test, directory.name))
            return self.outcomes[test][kind is KafkaCluster]

        yield attempt


def cells_of(suite: Suite, kinds: tuple[Kind, ...] = BESIDE_KAFKA) -> dict[str, Cell]:
    saved: list[Trial] = []
    suite.run(Path("nowhere"), lambda _: True, saved.append, kinds=kinds)
    return {cell.feature: cell for trial in saved for cell in trial.cells}


def test_each_test_runs_on_both_and_the_clusters_take_turns_in_being_first() -> None:
    suite = Pretended({"a": (PASSED, PASSED), "b": (PASSED, PASSED), "c": (PASSED, PASSED)})
    cells_of(suite)
    assert suite.order == [
        ("a", "reference"), ("a", "kafka"), ("b", "kafka"), ("b", "reference"), ("c", "reference"), ("c", "kafka"),
    ]  # fmt: skip


def test_alone_a_test_says_nothing_of_apache_kafka() -> None:
    suite = Pretended({"a": (FAILED, PASSED)})
    assert cells_of(suite, ALONE) == {"a": Cell(feature="a", state="failed", reason="it broke")}
    assert suite.order == [("a", "reference")]


@pytest.mark.parametrize(
    ("test", "ours", "theirs", "state", "reason"),
    [
        ("a", PASSED, FAILED, "passed", ""),
        ("a", SKIPPED, PASSED, "skipped", "too old"),
        ("a", FAILED, PASSED, "failed", "it broke"),
        ("a", FAILED, FAILED, "kafka", "it broke"),
        ("a", FAILED, SKIPPED, "failed", "it broke"),
        ("of the client", FAILED, FAILED, "client", "it wants more"),
        ("of the client", PASSED, FAILED, "passed", ""),
        ("of kafka", FAILED, FAILED, "kafka", "it fails there as well"),
        ("of kafka", FAILED, PASSED, "failed", "it broke"),  # what was known is refuted
    ],
)
def test_whose_fault_a_failure_is(test: str, ours: Outcome, theirs: Outcome, state: str, reason: str) -> None:
    cell = cells_of(Pretended({test: (ours, theirs)}))[test]
    assert (cell.state, cell.reason) == (state, reason)
    assert (cell.kafka, cell.kafka_reason) == (theirs.state, theirs.reason)


def cell(name: str, here: str, there: str, reason: str = "", kafka_reason: str = "") -> Cell:
    return Cell(feature=name, state=here, reason=reason, kafka=there, kafka_reason=kafka_reason)


def test_the_share_counts_what_passes_on_apache_kafka_and_every_difference_is_named() -> None:
    cells = [
        *(cell(f"both {number}", "passed", "passed") for number in range(997)),
        cell("neither", "kafka", "failed", "it broke"),
        cell("skipped", "skipped", "skipped", "too old"),
        cell("only there", "broker", "passed", "not implemented"),
        cell("only here", "passed", "failed", kafka_reason="it broke there"),
        Cell(feature="not beside", state="passed"),
    ]
    found = page.beside_kafka(cells)
    assert (found.tests, found.passed_there, found.passed_here) == (1001, 998, 997)
    assert [each.feature for each in found.differences] == ["only there", "only here"]


def rendered(cells: Sequence[Cell]) -> str:
    name = next(iter(page.SUITES))
    trial = Trial(client=name, language="none", version="1", cells=tuple(cells))
    return page.render({name: trial})


def test_the_page_rounds_no_share_up_to_all() -> None:
    shown = rendered([
        *(cell(f"t{number}", "passed", "passed") for number in range(2_999)),
        cell("only there", "broker", "passed", "not implemented"),
        cell("only here", "passed", "failed", kafka_reason="it broke there"),
    ])  # fmt: skip
    assert "| 3001 | 3001 | 3000 | 2999 | 99.9 % |" in shown
    assert "| only there | broker | passed | not implemented |" in shown
    assert "| only here | passed | failed | it broke there |" in shown


def test_the_page_says_if_nothing_differs_or_nothing_was_compared() -> None:
    assert "| 1 | 1 | 1 | 1 | 100.0 % |" in rendered([cell("a", "passed", "passed")])
    assert "No test passed on one side only." in rendered([cell("a", "passed", "passed")])
    assert "Beside Apache Kafka" not in rendered([Cell(feature="a", state="passed")])


def test_suites_that_run_at_the_same_time_lose_nothing_of_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "DATA", tmp_path / "compatibility.json")
    monkeypatch.setattr(page, "PAGE", tmp_path / "compatibility.md")
    names = list(page.SUITES)

    def save(name: str) -> None:
        for number in range(10):
            page.save([Trial(client=name, language="", version="1", cells=(cell(f"t{number}", "passed", "passed"),))])

    threads = [threading.Thread(target=save, args=(name,)) for name in names]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert {name: len(trial.cells) for name, trial in page.load().items()} == dict.fromkeys(names, 10)


def test_both_clusters_have_the_same_settings_but_for_what_apache_kafka_needs(tmp_path: Path) -> None:
    def made(kind: Kind) -> Cluster:
        return kind(
            tmp_path, brokers=2, directories=2, listeners=(*LISTENERS, "MORE"), racks={1: "a"},
            settings={"num.partitions": 4, "group.consumer.heartbeat.interval.ms": 1_000},
            own_settings={1: {"advertised.listeners": "EXTERNAL://127.0.0.1:9"}},
        )  # fmt: skip

    ours, theirs = made(Cluster), made(KafkaCluster)
    theirs.ports = ours.ports
    here, there = ours.properties(1), theirs.properties(1)
    assert {name for name, value in here.items() if there.get(name) != value} == {
        "harness.journal.path", "harness.journal.appends", "advertised.listeners",
    }  # fmt: skip
    assert there.keys() - here.keys() == {
        "listener.security.protocol.map", "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor", "transaction.state.log.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr", "group.consumer.min.heartbeat.interval.ms",
    }  # fmt: skip
    names = dict(each.split("://") for each in str(there["advertised.listeners"]).split(","))
    assert list(names) == ["EXTERNAL", "DIRECT", "INTERNAL", "MORE"]
    assert names["EXTERNAL"] == "127.0.0.1:9"
