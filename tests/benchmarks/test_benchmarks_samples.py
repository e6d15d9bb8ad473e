"""The benchmark's arithmetic: end of the warm-up, medians, ratios against aims, and what the page says of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.samples import (
    ENGINES,
    LOADS,
    ONE,
    OPERATIONS,
    THREE,
    Engine,
    Operation,
    Paired,
    Sample,
    compare,
    has_stopped_rising,
    spread,
)
from benchmarks.table import Document, StartUp, WarmUp, render


def sample(
    engine: Engine, rate: float, *, number: int = 1, operation: Operation = "produce", cpu: float = 1.0
) -> Sample:
    return Sample(
        shape=THREE.name,
        engine=engine,
        operation=operation,
        batch_bytes=131_072,
        round_number=number,
        mb_per_s=rate,
        broker_cpu_s_per_gb=cpu,
        client_cpu_s_per_gb=1.0,
    )


@pytest.mark.parametrize(
    ("figures", "stopped"),
    [
        ([], False),
        ([100, 101, 99], False),
        ([99, 150, 200, 250], False),
        ([300, 310, 305, 290], True),
        ([99, 300, 250, 260, 314], True),
        ([99, 300, 250, 260, 316], False),
    ],
)
def test_warm_up_ends_when_three_loads_bring_no_new_best(figures: list[float], stopped: bool) -> None:
    assert has_stopped_rising(figures) is stopped


def test_spread_is_median_with_extremes() -> None:
    found = spread([5.0, 1.0, 3.0])
    assert (found.median, found.minimum, found.maximum, found.count) == (3.0, 1.0, 5.0, 3)


def test_ratio_is_of_the_medians_and_leaves_round_zero_out() -> None:
    samples = [sample("reference", 1.0, number=0, cpu=90.0), sample("kafka", 1000.0, number=0, cpu=0.1)]
    samples += [sample("reference", rate, number=index, cpu=2.0) for index, rate in enumerate((200.0, 330.0, 300.0), 1)]
    samples += [sample("kafka", rate, number=index, cpu=8.0) for index, rate in enumerate((90.0, 100.0, 150.0), 1)]
    (line,) = compare(samples)
    assert line.rate_ratio == 3.0
    assert line.rate["reference"].count == 3
    assert line.cpu_ratio == 0.25
    assert line.rate_aim == 3.0
    assert line.cpu_aim == pytest.approx(1 / 3)


def test_work_that_one_engine_lacks_is_not_compared() -> None:
    assert compare([sample("reference", 100.0)]) == []


def test_consume_is_compared_with_its_own_aim() -> None:
    (line,) = compare([sample(engine, 100.0, operation="consume") for engine in ("reference", "kafka")])
    assert (line.rate_aim, line.cpu_aim) == (1.0, None)


def test_loads_of_another_kind_are_compared_apart_and_without_an_aim() -> None:
    plain = [sample(engine, 100.0) for engine in ENGINES]
    other = [replace(each, load="codec zstd", mb_per_s=50.0) for each in plain]
    found = {line.load: (line.rate["kafka"].median, line.rate_aim) for line in compare([*plain, *other])}
    assert found == {"prepared batches": (100.0, 3.0), "codec zstd": (50.0, None)}


def test_the_client_in_c_has_aims_of_its_own_and_comes_first() -> None:
    def one(shape: str, engine: Engine, operation: Operation) -> Sample:
        return replace(sample(engine, 100.0, operation=operation), load="C client", shape=shape)

    works = [(shape, operation) for shape in (ONE.name, THREE.name) for operation in OPERATIONS]
    found = compare([one(shape, engine, operation) for shape, operation in works for engine in ENGINES])
    assert [(line.shape, line.operation, line.rate_aim, line.cpu_aim) for line in found] == [
        (ONE.name, "produce", None, None),
        (ONE.name, "consume", 1.0, None),
        (THREE.name, "produce", 2.5, 0.4),
        (THREE.name, "consume", 1.0, None),
    ]
    assert LOADS[0].name == "C client"


@pytest.mark.parametrize(
    ("row", "reached"),
    [
        (Paired(section="s", name="n", unit="s", aim=1.0, ours=[3.1, 3.0, 3.2], theirs=[3.2, 3.3, 9.0]), True),
        (Paired(section="s", name="n", unit="s", aim=1.0, ours=[3.4], theirs=[3.3]), False),
        (Paired(section="s", name="n", unit="s", limit=1.5, ours=[1.6], theirs=[9.0]), False),
        (Paired(section="s", name="n", unit="s", ours=[1.6], theirs=[9.0]), None),
        (Paired(section="s", name="n", unit="k/s", aim=1.2, is_rate=True, ours=[120.0], theirs=[100.0]), True),
        (Paired(section="s", name="n", unit="k/s", aim=1.2, is_rate=True, ours=[119.0], theirs=[100.0]), False),
    ],
)
def test_paired_figure_knows_which_side_of_its_aim_is_better(row: Paired, reached: bool | None) -> None:
    assert row.is_reached is reached


def test_page_names_paired_figures_with_their_aims() -> None:
    row = Paired(section="fail-over", name="killed to written", unit="s", aim=1.0, ours=[3.0], theirs=[4.0])
    page = render(replace(document(), paired=[row]), [])
    assert "| killed to written | 3.00 (3.00-3.00) | 4.00 (4.00-4.00) | s | 0.75 | ≤ 1 ✓ |" in page
    assert "Reference producer" not in page


def document(*samples: Sample, complete: bool = True, quick: bool = False) -> Document:
    return Document(
        date="2026-01-02",
        command="python -m benchmarks.brokers",
        host={"kernel": "Linux 6"},
        quick=quick,
        load_bytes=512_000_000,
        rounds=5,
        complete=complete,
        note="interrupted",
        starts=[StartUp(shape=THREE.name, brokers=3, engine="reference", prepare_s=0.0, answering_s=1.75)],
        warm_ups=[
            WarmUp(shape=ONE.name, engine="kafka", load_bytes=512_000_000, mb_per_s=[99.0, 250.0], ended_because="why")
        ],
        samples=list(samples),
    )


def test_page_marks_each_aim_as_reached_or_missed() -> None:
    whole = document(sample("reference", 290.0, cpu=1.0), sample("kafka", 100.0, cpu=4.0))
    page = render(whole, compare(whole.samples))
    row = next(line for line in page.splitlines() if "| produce |" in line)
    assert "| 290 (290-290) | 100 (100-100) | 2.90 | ≥ 3 ✗ |" in row
    assert "| 0.25 | ≤ 0.33 ✓ |" in row
    assert "| 0.00 | 1.75 | ≤ 1.5 s ✗ |" in page
    assert "| 99, 250 | why |" in page
    assert "Incomplete" not in page
    assert "Quick mode" not in page


def test_page_of_an_incomplete_or_quick_run_says_so_first() -> None:
    page = render(document(complete=False, quick=True), [])
    head = page.splitlines()[:5]
    assert any("Quick mode" in line for line in head)
    assert any("Incomplete" in line and "interrupted" in line for line in head)
    assert "No work was measured on both engines." in page
