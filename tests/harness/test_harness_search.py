"""The rate search: planted limits lie within the interval as often as stated; each clause breaks for its own reason."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.cli.main import execute
from harness.errors import ExitCode
from harness.plan import search_cell
from harness.planned_cell import PlannedCell
from harness.run.orchestrator import Run
from harness.run.rate_contract import Evaluation, judge
from harness.run.search_trace import SearchTrace
from harness.search import RateSearch
from harness.suite import Contract, Search, load_suite
from runlog.records.cell import CellStatus, OutcomeRecord, not_begun
from runlog.records.codec import from_document
from runlog.records.load import Health
from runlog.records.search import Clause
from runlog.streams.parquet import write_part
from workloads.model import Workload
from workloads.schedule import build

CONTRACT = Contract(p99_ms=50)
WINDOW_US = (1_000_000, 5_000_000)


def searched(limit: float, *, noise: float, lapses: float, seed: int) -> RateSearch:
    """A server of known behaviour: it keeps the contract below its limit, which wavers, and sometimes fails anyway."""
    rng = random.Random(seed)
    search = RateSearch(low_per_s=500, high_per_s=64_000, tolerance=0.15, probes_max=30)
    while (rate := search.next_rate()) is not None:
        passed = rate <= limit * math.exp(rng.gauss(0, noise))
        search.take(rate, passed=passed and rng.random() >= lapses)
    return search


@pytest.mark.parametrize("noise", [0.05, 0.15])
@pytest.mark.thorough
def test_the_planted_limit_lies_within_the_interval_as_often_as_stated(noise: float) -> None:
    inside, tries = 0, 0
    for seed in range(100):
        limit = random.Random(f"limit/{seed}").uniform(900, 40_000)
        search = searched(limit, noise=noise, lapses=0.02, seed=seed)
        estimate = search.estimate()
        inside += estimate.low_per_s <= limit <= estimate.high_per_s
        tries += len(search.probes)
    assert inside >= 92  # 95 expected, less one and a half standard errors
    assert tries / 100 <= 30


def test_a_quiet_server_is_found_in_few_tries() -> None:
    search = searched(10_000, noise=0.0, lapses=0.0, seed=1)
    assert search.estimate().rate_per_s == pytest.approx(10_000, rel=0.1)
    assert search.estimate().width < 0.2


@pytest.mark.parametrize(("limit", "ended"), [(1e6, "high"), (10.0, "low"), (8_000.0, "")])
def test_a_limit_outside_of_the_range_is_said_to_be_outside(limit: float, ended: str) -> None:
    assert searched(limit, noise=0.02, lapses=0.0, seed=2).ended_at() == ended


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
        "producer": zeros, "incarnation": zeros, "seq": seq, "status": zeros.copy(), "intended_us": intended,
        "acked_us": acked,
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


def found_in(
    send: dict[str, Any], log: dict[str, Any], *, workload: Workload | None = None, **health: float
) -> Evaluation:
    return judge(
        send, log, contract=CONTRACT, workload=workload or four_seconds(), seed=1, window_us=WINDOW_US,
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
            "producer": zeros, "incarnation": zeros, "seq": seq, "status": zeros, "intended_us": intended,
            "acked_us": intended + 5_000,
        }  # fmt: skip
        log = {"producer": zeros, "incarnation": zeros, "partition": zeros, "seq": seq, "offset": seq}
        found = judge(
            send, log, contract=Contract(backlog_growth_share=0.5), workload=workload, seed=seed, window_us=WINDOW_US,
            health=Health(cpu_share=0.2),
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


def write_cell_streams(run_dir: Path, cell_id: str, send: dict[str, Any], log: dict[str, Any]) -> None:
    sent, found = len(send["seq"]), len(log["seq"])
    extra = {name: np.zeros(sent, dtype=np.int64) for name in ("partition", "error", "size_bytes", "offset")}
    write_part(run_dir, "send", cell_id, {**send, **extra, "sent_us": send["intended_us"]})
    more = {name: np.zeros(found, dtype=np.int64) for name in ("leader_epoch", "batch_base_offset", "crc_ok")}
    write_part(run_dir, "log", cell_id, {**log, **more, "intended_us": send["intended_us"][:found]})


def test_the_trace_is_on_disk_after_each_try_and_ends_in_a_load_curve(tmp_path: Path) -> None:
    suite = load_suite("max-rate")
    spec = Search(properties={"acks": "all"}, low_per_s=500, high_per_s=8_000, probes_max=4, fractions=[0.5, 0.9])
    trace = SearchTrace(tmp_path, spec)
    for number, rate in enumerate(trace.rates(), start=1):
        cell = search_cell(suite, spec, rate, number=number, fraction=None, seed=1, client="reference")
        send, log = streams(latency_us=5_000 if rate < 2_000 else 80_000)
        write_cell_streams(tmp_path, cell.cell_id, send, log)
        trace.take(cell, measured(Health(cpu_share=0.1)))
        document = json.loads((tmp_path / "search.json").read_text())
        assert len(document["probes"]) == number
    cells = trace.load_curve(suite, seed=1, client="reference")
    assert len({cell.cell_id for cell in cells}) == 4
    document = json.loads((tmp_path / "search.json").read_text())
    assert {line["fraction"] for line in document["load_curve"]} == {0.5, 0.9}
    limit = document["rate_per_s"]
    assert cells[0].workload.rate_per_s in [pytest.approx(limit * 0.5, rel=0.01), pytest.approx(limit * 0.9, rel=0.01)]


def test_a_dry_run_tells_of_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", "max-rate", "--dry-run"]) == ExitCode.PASS
    assert "then a search between 500 and 64000 records/s, at most 20 tries" in capsys.readouterr().out
