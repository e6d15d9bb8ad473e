"""The rate search: planted limits lie within the interval as often as stated; each clause breaks for its own reason."""

from __future__ import annotations

import json
import math
import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.cli.main import execute
from harness.errors import ExitCode
from harness.plan import search_cell
from harness.planned_cell import PlannedCell
from harness.run.orchestrator import Run
from harness.run.rate_contract import Evaluation, Reading, evaluate, judge
from harness.run.search_trace import SearchTrace
from harness.search import RateSearch
from harness.suite import Contract, Search, load_suite
from runlog.records.cell import CellStatus, OutcomeRecord, not_begun
from runlog.records.codec import from_document
from runlog.records.load import Health
from runlog.records.search import Clause
from runlog.streams.parquet import write_part
from runlog.streams.schema import SendStatus
from tests.harness.search_trials import trials
from workloads.model import Workload
from workloads.schedule import build

CONTRACT = Contract(p99_ms=50)
WINDOW_US = (1_000_000, 5_000_000)


def searched(limit: float, *, noise: float = 0.02, tolerance: float = 0.15, probes_max: int = 30) -> RateSearch:
    """Of a server that keeps the contract below its limit, which wavers."""
    rng = random.Random(2)
    search = RateSearch(low_per_s=500, high_per_s=64_000, tolerance=tolerance, probes_max=probes_max)
    while (rate := search.next_rate()) is not None:
        search.take(rate, passed=rate <= limit * math.exp(rng.gauss(0, noise)))
    return search


@pytest.mark.parametrize(("noise", "carry_over"), [(0.1, 0.3), pytest.param(0.2, 0.0, marks=pytest.mark.long)])
@pytest.mark.thorough
def test_one_more_try_keeps_the_reported_rate_95_times_in_100(noise: float, carry_over: float) -> None:
    """The full trials, with their table, are `python -m tests.harness.search_trials`."""
    outcomes = trials(12, noise=noise, carry_over=carry_over)
    found = [one for one in outcomes if one.kept_per_s is not None]
    assert fmean(one.probability for one in found) >= 0.95
    assert len(found) >= 0.9 * len(outcomes)
    assert fmean(one.tries for one in outcomes) <= 20


def test_the_reported_rate_was_tried_and_kept_the_last_time() -> None:
    search = searched(10_000)
    kept = search.kept()
    assert kept is not None
    assert [probe.passed for probe in search.probes if probe.rate_per_s == kept][-1]
    assert kept < search.estimate().rate_per_s


def test_a_quiet_server_is_found_in_few_tries() -> None:
    search = searched(10_000, noise=0.0)
    assert search.estimate().rate_per_s == pytest.approx(10_000, rel=0.1)
    assert search.estimate().width < 0.2
    assert search.kept() == pytest.approx(8_500, rel=0.15)


def test_a_failure_of_the_kept_rate_lowers_it() -> None:
    search = searched(10_000)
    kept = search.kept()
    assert kept is not None
    for _ in range(2):
        search.take(kept, passed=False)
    assert (search.kept() or 0.0) < kept


def test_a_try_after_an_overload_is_slow_enough_to_recover() -> None:
    search = RateSearch(low_per_s=500, high_per_s=64_000, tolerance=0.15, probes_max=30)
    first = search.next_rate()
    assert first is not None
    search.take(first, passed=False)
    after_failure = search.next_rate()
    assert after_failure is not None
    assert search.passed_with(0.7) > after_failure


@pytest.mark.thorough
def test_failures_that_only_follow_overloads_do_not_pull_the_limit_down() -> None:
    """Each try after a failed one fails too, at rates that are kept otherwise."""
    search = RateSearch(low_per_s=500, high_per_s=64_000, tolerance=0.1, probes_max=40)
    after_failure = False
    while (rate := search.next_rate()) is not None:
        passed = rate <= 10_000 and not (after_failure and rate > 3_000)
        search.take(rate, passed=passed)
        after_failure = not passed
    estimate = search.estimate()
    assert estimate.low_per_s <= 10_000 <= estimate.high_per_s


@pytest.mark.thorough
@pytest.mark.parametrize(("limit", "ended"), [(1e6, "high"), (10.0, "low"), (8_000.0, "")])
def test_a_limit_outside_of_the_range_is_said_to_be_outside(limit: float, ended: str) -> None:
    assert searched(limit).ended_at() == ended


def streams(
    *, rate: int = 1_000, latency_us: int = 5_000, growth_us: float = 0.0
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Four seconds of a load whose latency grows by `growth_us` from record to record."""
    count = rate * 4
    seq = np.arange(count)
    intended = WINDOW_US[0] + seq * (1_000_000 // rate)
    acked = intended + latency_us + (seq * growth_us).astype(np.int64)
    zeros = np.zeros(count, dtype=np.int64)
    send = {
        "producer": zeros, "incarnation": zeros, "seq": seq, "status": zeros.copy(), "error": zeros.copy(),
        "intended_us": intended, "acked_us": acked,
    }  # fmt: skip
    log = {"producer": zeros, "incarnation": zeros, "partition": zeros, "seq": seq.copy(), "offset": seq.copy()}
    return send, log


def measured(health: Health) -> OutcomeRecord:
    """Of a cell whose load is that of `streams`."""
    return replace(
        not_begun(), status=CellStatus.DONE, measure_start_us=WINDOW_US[0], measure_end_us=WINDOW_US[1], health=health
    )


def four_seconds(rate_per_s: float = 1_000, **changes: Any) -> Workload:
    """The load of `streams`."""
    return Workload(rate_per_s=rate_per_s, warmup_ms=0, measure_ms=4_000, **changes)


def reading(chunked: list[dict[str, Any]]) -> Reading:
    """A stream that is there in chunks. All of them come, whatever is asked for."""
    return lambda _seqs: iter(chunked)


def found_in(
    send: dict[str, Any], log: dict[str, Any], *, workload: Workload | None = None, **health: float
) -> Evaluation:
    return judge(
        reading([send]), reading([log]), contract=CONTRACT, workload=workload or four_seconds(), seed=1,
        window_us=WINDOW_US,
        health=from_document(Health, {"cpu_share": 0.2, **health}),
    )  # fmt: skip


def broken(send: dict[str, Any], log: dict[str, Any], **health: float) -> tuple[str, ...]:
    return found_in(send, log, **health).broken


def only(columns: dict[str, Any], chosen: Any) -> dict[str, Any]:
    return {name: values[chosen] for name, values in columns.items()}


def test_a_calm_load_keeps_the_contract_and_its_figures_are_told() -> None:
    found = found_in(*streams())
    assert found.passed
    assert found.p99_ms == 5.0
    assert found.acked_per_s == pytest.approx(1_000, rel=0.01)


def test_what_is_aborted_as_planned_is_awaited_by_nobody() -> None:
    """A tenth of the transactions: without that, no rate could ever keep a p99."""
    send, log = streams()
    send["status"][::10] = SendStatus.ABORTED
    kept = send["status"] == SendStatus.ACKED
    found = found_in(send, only(log, kept))
    assert (found.broken, found.p99_ms) == ((), 5.0)
    assert found.acked_per_s == pytest.approx(900, rel=0.01)
    assert found.backlog_slope_share == pytest.approx(0.0, abs=0.01)
    send["error"][~kept] = 7
    assert found_in(send, only(log, kept)).broken == ("p99", "backlog")


def test_each_clause_breaks_for_its_own_reason() -> None:
    assert broken(*streams(latency_us=51_000)) == ("p99",)
    # 100 us more each record of 1 ms: a tenth of the rate stays behind.
    assert broken(*streams(latency_us=0, growth_us=100.0)) == ("p99", "backlog")
    assert broken(*streams(), cpu_share=0.95) == ("generator",)


def test_what_was_due_and_never_handed_over_is_the_generators_fault_if_the_client_had_room() -> None:
    send, log = streams()
    short = found_in(only(send, slice(3_000)), log)
    assert short.broken == ("generator", "p99", "backlog")
    assert short.reasons[0] == "only 3,000 of 4,000 records were handed to the client"
    assert short.p99_ms is None
    assert short.backlog_slope_share > 0.1


def test_what_the_cluster_did_not_take_is_backlog_and_no_fault_of_the_generator() -> None:
    """Nothing is acknowledged from the middle of the window on, and a full client buffer refuses what is due later."""
    send, log = streams()
    silent_us = WINDOW_US[0] + 2_000_000
    send["status"][send["acked_us"] > silent_us] = 2
    handed = only(send, slice(2_500))
    found = found_in(handed, log, unsent=1_500, unsent_for_space=1_500)
    assert found.broken == ("p99", "backlog")
    assert found.p99_ms is None
    assert found.reasons[1].endswith("for 1,500 of 4,000 records the client never had room: the cluster took no more")
    # Due by the schedule and not by what was handed over: half of the records are missing in the window's second half.
    assert found.backlog_slope_share == pytest.approx(0.5, abs=0.05)
    mixed = found_in(handed, log, unsent=1_500, unsent_for_space=1_000)
    assert "generator" in mixed.broken


def test_a_cluster_that_takes_nothing_at_all_is_measured() -> None:
    send, log = streams()
    found = found_in(only(send, slice(0)), only(log, slice(0)), unsent=4_000, unsent_for_space=4_000)
    assert found.broken == ("p99", "backlog")


def test_chance_that_had_fewer_records_due_is_no_shortfall() -> None:
    """At 25 records/s the arrivals of four seconds are 100, give or take ten."""
    for seed in range(20):
        workload = four_seconds(25, schedule={"kind": "poisson"})
        schedule = build(workload, seed)
        seq = np.arange(schedule.total)
        intended = WINDOW_US[0] + schedule.times_ns(seq) // 1_000
        zeros = np.zeros(schedule.total, dtype=np.int64)
        send = {
            "producer": zeros, "incarnation": zeros, "seq": seq, "status": zeros, "error": zeros,
            "intended_us": intended, "acked_us": intended + 5_000,
        }  # fmt: skip
        log = {"producer": zeros, "incarnation": zeros, "partition": zeros, "seq": seq, "offset": seq}
        found = judge(
            reading([send]), reading([log]), contract=Contract(backlog_growth_share=0.5), workload=workload, seed=seed,
            window_us=WINDOW_US, health=Health(cpu_share=0.2),
        )  # fmt: skip
        assert found.broken == (), found.reasons


def test_sends_that_nobody_acknowledged_count_as_endless() -> None:
    send, log = streams()
    send["status"][::50] = 2
    found = found_in(send, log)
    assert found.p99_ms is None
    assert found.reasons[0] == "p99 of records never acknowledged, allowed 50 ms"


def test_lost_doubled_and_swapped_records_break_it() -> None:
    send, log = streams()
    lost = {name: np.delete(values, [7, 8]) for name, values in log.items()}
    assert broken(send, lost) == ("damage",)
    doubled = {name: np.append(values, values[3]) for name, values in log.items()}
    doubled["offset"] = np.arange(len(doubled["seq"]))
    found = found_in(send, doubled)
    assert [reason.split(" records ")[1] for reason in found.reasons] == ["doubled", "out of order"]


def chunks(columns: dict[str, Any], rows: int) -> list[dict[str, Any]]:
    return [only(columns, slice(at, at + rows)) for at in range(0, len(columns["seq"]), rows)]


@pytest.mark.thorough
@pytest.mark.parametrize(("rows", "bits_max"), [(1, 1 << 20), (7, 1_000), (1_000, 128), (100_000, 128)])
def test_a_cell_that_is_read_in_chunks_is_judged_as_one_that_is_read_at_once(rows: int, bits_max: int) -> None:
    """Whole columns were read: six of eight bytes for each record, several times over."""
    rng = np.random.default_rng(3)
    send, log = streams()
    send["producer"], send["seq"] = np.divmod(np.arange(4_000), 2_000)
    send["acked_us"] = send["intended_us"] + rng.integers(1_000, 70_000, 4_000)
    send["status"][rng.choice(4_000, 30, replace=False)] = 2
    kept = np.sort(rng.choice(4_000, 3_950))  # some not at all, some twice
    log = {name: values[kept] for name, values in log.items()}
    log["producer"], log["seq"] = send["producer"][kept], send["seq"][kept]
    log["partition"] = log["seq"] % 3
    order = np.lexsort((np.arange(len(kept)) + rng.integers(0, 3, len(kept)), log["partition"]))
    log = only(log, order)
    log["offset"] = np.arange(len(kept))
    whole = found_in(send, log)
    assert whole.reasons[-3:] == plain_damage(send, log)
    found = judge(
        reading(chunks(send, rows)), reading(chunks(log, rows)), contract=CONTRACT, workload=four_seconds(), seed=1,
        window_us=WINDOW_US, health=Health(cpu_share=0.2), bits_max=bits_max,
    )  # fmt: skip
    assert found == whole


@pytest.mark.parametrize("slowest_us", [900, 60_000, 1_048_575, 1_048_576, 5_000_000])
def test_the_p99_is_that_of_the_sorted_latencies_to_the_microsecond(slowest_us: int) -> None:
    """They are counted by steps of a second first, and then inside of one step."""
    send, log = streams()
    latency_us = np.random.default_rng(slowest_us).integers(0, slowest_us + 1, 4_000)
    send["acked_us"] = send["intended_us"] + latency_us
    place = math.ceil(0.99 * 3_999)
    assert found_in(send, log).p99_ms == np.sort(latency_us)[place] / 1_000


def plain_damage(send: dict[str, Any], log: dict[str, Any]) -> tuple[str, ...]:
    """Counted record by record."""
    acked = {
        (producer, seq)
        for producer, seq, status in zip(send["producer"], send["seq"], send["status"], strict=True)
        if status == 0
    }
    rows = list(zip(log["producer"], log["seq"], log["partition"], strict=True))
    logged = [(producer, seq) for producer, seq, _ in rows]
    last: dict[tuple[int, int], int] = {}
    swapped = 0
    for producer, seq, partition in rows:
        swapped += seq < last.get((producer, partition), -1)
        last[producer, partition] = seq
    return (
        f"{len(acked - set(logged))} records acknowledged and lost",
        f"{len(logged) - len(set(logged))} records doubled",
        f"{swapped} records out of order",
    )


@pytest.mark.thorough
def test_the_memory_of_a_try_does_not_grow_with_its_records() -> None:
    """It had two bits of each record and the latencies of the slowest hundredth: 80 kB more for each million."""
    rows, bits_max = 1 << 15, 1 << 17

    def of_stream(log: bool, each: int) -> Reading:
        def read(_seqs: tuple[int, int] | None) -> Iterator[dict[str, Any]]:
            for number in range(each):
                send, logged = streams(rate=rows // 4)
                columns = logged if log else send
                columns["seq"] = columns["seq"] + number * rows
                yield columns

        return read

    def peak_bytes(each: int) -> int:
        tracemalloc.start()
        try:
            found = judge(
                of_stream(False, each), of_stream(True, each), contract=CONTRACT, seed=1, window_us=WINDOW_US,
                workload=four_seconds(rows * each / 4), health=Health(cpu_share=0.2), bits_max=bits_max,
            )  # fmt: skip
            assert found.passed
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak_bytes(1)  # what is imported and kept at the first call
    assert peak_bytes(32) - peak_bytes(4) < 28 * rows * 2 / 8 / 4, "a quarter of two bits of each record that came more"


def test_a_window_of_records_reads_the_row_groups_that_have_some_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a cell of many windows is not read as a whole for each of them."""
    for part in range(8):
        send, log = streams()
        send["seq"], log["seq"] = send["seq"] + part * 4_000, log["seq"] + part * 4_000
        write_cell_streams(tmp_path, "c1", send, log, part=f"{part:06d}")
    opened: list[int] = []
    asked = pq.ParquetFile.iter_batches

    def counted(file: pq.ParquetFile, *, row_groups: list[int], **more: Any) -> Any:
        opened.extend(row_groups)
        return asked(file, row_groups=row_groups, **more)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    monkeypatch.setitem(judge.__kwdefaults__, "bits_max", 4_000)
    found = evaluate(
        tmp_path, "c1", contract=CONTRACT, workload=four_seconds(8_000), seed=1, window_us=WINDOW_US,
        health=Health(cpu_share=0.2),
    )  # fmt: skip
    assert found.passed
    # Of `send` once for counts, once for p99, and once in windows. Of `log` once in windows, and once for the order.
    assert len(opened) == 8 * 5


def test_a_search_whose_brokers_fell_silent_is_not_limited_by_the_generator(tmp_path: Path) -> None:
    """They stop acknowledging in the middle of the window and stay silent past the drain; the client's buffer is full
    after half a second more, and what is due later it never takes."""
    suite = load_suite("max-rate", ["workload.warmup_ms=0", "workload.measure_ms=4000"])
    spec = Search(properties={"acks": "all"}, low_per_s=1_000, high_per_s=8_000, probes_max=3)
    trace = SearchTrace(tmp_path, spec)
    cell = search_cell(suite, spec, 1_000.0, number=1, fraction=None, seed=1, client="reference")
    send, log = streams()
    send["status"][send["acked_us"] > WINDOW_US[0] + 2_000_000] = 2
    send, log = only(send, slice(2_500)), only(log, slice(2_000))
    write_cell_streams(tmp_path, cell.cell_id, send, log)
    health = Health(cpu_share=0.1, unsent=1_500, unsent_for_space=1_500, backpressure_sends=0)
    trace.take(cell, measured(health))
    (tried,) = trace.record().probes
    assert tried.broken == (Clause.LATENCY, Clause.BACKLOG)
    assert Clause.GENERATOR not in trace.record().limited_by


def test_each_try_is_held_against_the_ceiling_of_the_load_hosts_that_it_had(tmp_path: Path) -> None:
    suite = load_suite("max-rate", ["workload.warmup_ms=0", "workload.measure_ms=4000"])
    spec = Search(properties={"acks": "all"}, low_per_s=600, high_per_s=1_000, probes_max=3)
    shares = [4.0, 1.0]  # of what the try asks for: one of four hosts is left

    def run_extra(planned: PlannedCell) -> OutcomeRecord | None:
        if not shares:
            return None
        ceiling.records_per_s = shares.pop(0) * planned.workload.rate_per_s  # when load hosts are taken
        write_cell_streams(tmp_path, planned.cell_id, *streams())
        return measured(Health(cpu_share=0.1))

    ceiling = SimpleNamespace(records_per_s=4_000.0)
    run: Any = SimpleNamespace(
        _request=SimpleNamespace(suite=suite, seed=1, client="reference"),
        _context=SimpleNamespace(run_dir=tmp_path, certification=SimpleNamespace(of=lambda _planned: ceiling)),
        _progress=SimpleNamespace(say=print), _fastest_try=lambda _search: None, _run_extra=run_extra,
    )  # fmt: skip
    Run._search(run, spec)
    tried = json.loads((tmp_path / "search.json").read_text())["probes"]
    assert [Clause.GENERATOR in each["broken"] for each in tried] == [False, True]


def write_cell_streams(
    run_dir: Path, cell_id: str, send: dict[str, Any], log: dict[str, Any], part: str = "000000"
) -> None:
    sent, found = len(send["seq"]), len(log["seq"])
    extra = {name: np.zeros(sent, dtype=np.int64) for name in ("partition", "error", "size_bytes", "offset")}
    write_part(run_dir, "send", cell_id, {**send, **extra, "sent_us": send["intended_us"]}, part=part)
    more = {name: np.zeros(found, dtype=np.int64) for name in ("leader_epoch", "batch_base_offset", "crc_ok")}
    write_part(run_dir, "log", cell_id, {**log, **more, "intended_us": send["intended_us"][:found]}, part=part)


@pytest.mark.thorough
def test_the_trace_is_on_disk_after_each_try_and_ends_in_a_load_curve(tmp_path: Path) -> None:
    suite = load_suite("max-rate", ["workload.warmup_ms=0", "workload.measure_ms=4000"])
    spec = Search(properties={"acks": "all"}, low_per_s=500, high_per_s=8_000, probes_max=14, fractions=[0.5, 1.2])
    trace = SearchTrace(tmp_path, spec)
    number = 0
    warmups: list[tuple[bool, int]] = []
    passed = True
    for number, cell in enumerate(trace.tries(suite, seed=1, client="reference"), start=1):
        warmups.append((passed, cell.workload.warmup_ms))
        rate = round(cell.workload.rate_per_s)
        passed = rate < 2_000
        write_cell_streams(tmp_path, cell.cell_id, *streams(rate=rate, latency_us=5_000 if passed else 80_000))
        trace.take(cell, measured(Health(cpu_share=0.1)))
        document = json.loads((tmp_path / "search.json").read_text())
        assert [probe["passed"] for probe in document["probes"]][number - 1 :] == [passed]
    assert {ms - suite.workload.warmup_ms for after_pass, ms in warmups if after_pass} == {0}
    assert {ms - suite.workload.warmup_ms for after_pass, ms in warmups if not after_pass} == {spec.settle_ms}
    found = trace.record().rate_per_s
    assert found is not None
    cells = []
    for cell in trace.load_curve(suite, seed=1, client="reference"):
        cells.append(cell)
        write_cell_streams(tmp_path, cell.cell_id, *streams(rate=round(cell.workload.rate_per_s)))
        trace.take(cell, measured(Health(cpu_share=0.1)))
    assert len({cell.cell_id for cell in cells}) == 4
    document = json.loads((tmp_path / "search.json").read_text())
    assert {(line["fraction"], line["passed"]) for line in document["load_curve"]} == {(0.5, True), (1.2, True)}
    assert len(document["probes"]) == number
    assert document["rate_per_s"] == found, "a point above the found rate does not raise it"
    rates = sorted({cell.workload.rate_per_s for cell in cells})
    assert rates == [pytest.approx(found * fraction, rel=0.01) for fraction in (0.5, 1.2)]


def test_a_load_curve_that_breaks_the_contract_says_what_limits_the_rate(tmp_path: Path) -> None:
    """All tries kept it, the cells after them did not: `limited by nothing that was seen` stood beside a rate that they
    had lowered."""
    suite = load_suite("max-rate", ["workload.warmup_ms=0", "workload.measure_ms=4000"])
    spec = Search(properties={"acks": "all"}, low_per_s=500, high_per_s=2_000, probes_max=3, fractions=[1.0])
    trace = SearchTrace(tmp_path, spec)
    for cell in trace.tries(suite, seed=1, client="reference"):
        write_cell_streams(tmp_path, cell.cell_id, *streams(rate=round(cell.workload.rate_per_s)))
        trace.take(cell, measured(Health(cpu_share=0.1)))
    assert trace.record().limited_by == ()
    for cell in trace.load_curve(suite, seed=1, client="reference"):
        slow = streams(rate=round(cell.workload.rate_per_s), latency_us=80_000)
        write_cell_streams(tmp_path, cell.cell_id, *slow)
        trace.take(cell, measured(Health(cpu_share=0.1)))
    assert trace.record().limited_by == (Clause.LATENCY,)
    assert "p99 80" in trace.record().limit_reasons[0]


def test_a_dry_run_tells_of_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", "max-rate", "--dry-run"]) == ExitCode.PASS
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "then a search between 500 and 64000 records/s for the highest rate that keeps a p99 of at most 50 ms" in told
    )
    assert "at most 20 tries" in told
