"""The rate search: planted limits lie within the interval as often as stated; each clause breaks for its own reason."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.cli.main import execute
from harness.errors import ExitCode
from harness.run.cell import Outcome
from harness.run.contract import judge
from harness.run.search_trace import SearchTrace
from harness.search import RateSearch
from harness.suite import Contract, Search, load_suite
from runlog.parquet import write_part

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


def broken(send: dict[str, Any], log: dict[str, Any], **health: float) -> tuple[str, ...]:
    rate = len(send["seq"]) / 4
    own = {"cpu_share": 0.2, **health}
    return judge(send, log, contract=CONTRACT, rate_per_s=rate, window_us=WINDOW_US, health=own).broken


def test_a_calm_load_keeps_the_contract_and_its_figures_are_told() -> None:
    found = judge(*streams(), contract=CONTRACT, rate_per_s=1_000, window_us=WINDOW_US, health={"cpu_share": 0.2})
    assert found.passed
    assert found.p99_ms == 5.0
    assert found.acked_per_s == pytest.approx(1_000, rel=0.01)


def test_each_clause_breaks_for_its_own_reason() -> None:
    assert broken(*streams(latency_us=51_000)) == ("p99",)
    # 100 us more each record of 1 ms: a tenth of the rate stays behind.
    assert broken(*streams(latency_us=0, growth_us=100.0)) == ("p99", "backlog")
    assert broken(*streams(), cpu_share=0.95) == ("generator",)
    send, log = streams()
    assert broken({name: values[:3_000] for name, values in send.items()}, log) == ()
    short = judge(
        {name: values[:3_000] for name, values in send.items()}, log, contract=CONTRACT, rate_per_s=1_000,
        window_us=WINDOW_US, health={"cpu_share": 0.2},
    )  # fmt: skip
    assert "generator" in short.broken


def test_sends_that_nobody_acknowledged_count_as_endless() -> None:
    send, log = streams()
    send["status"][::50] = 2
    found = judge(send, log, contract=CONTRACT, rate_per_s=1_000, window_us=WINDOW_US, health={"cpu_share": 0.2})
    assert found.p99_ms is None
    assert found.reasons[0] == "p99 of records never acknowledged, allowed 50 ms"


def test_lost_doubled_and_swapped_records_break_it() -> None:
    send, log = streams()
    lost = {name: np.delete(values, [7, 8]) for name, values in log.items()}
    assert broken(send, lost) == ("damage",)
    doubled = {name: np.append(values, values[3]) for name, values in log.items()}
    doubled["offset"] = np.arange(len(doubled["seq"]))
    found = judge(send, doubled, contract=CONTRACT, rate_per_s=1_000, window_us=WINDOW_US, health={})
    assert [reason.split(" records ")[1] for reason in found.reasons] == ["doubled", "out of order"]


def test_the_trace_is_on_disk_after_each_try_and_ends_in_a_load_curve(tmp_path: Path) -> None:
    suite = load_suite("max-rate")
    spec = Search(properties={"acks": "all"}, low_per_s=500, high_per_s=8_000, probes_max=4, fractions=[0.5, 0.9])
    trace = SearchTrace(tmp_path, spec)
    from harness.plan import search_cell

    for number, rate in enumerate(trace.rates(), start=1):
        cell = search_cell(suite, spec, rate, number=number, fraction=None, seed=1, client="reference")
        send, log = streams(latency_us=5_000 if rate < 2_000 else 80_000)
        count = len(send["seq"])
        extra = {name: np.zeros(count, dtype=np.int64) for name in ("partition", "error", "size_bytes", "offset")}
        write_part(tmp_path, "send", cell.cell_id, {**send, **extra, "sent_us": send["intended_us"]})
        more = {name: np.zeros(count, dtype=np.int64) for name in ("leader_epoch", "batch_base_offset", "crc_ok")}
        write_part(tmp_path, "log", cell.cell_id, {**log, **more, "intended_us": send["intended_us"]})
        outcome = Outcome(
            status="done", measure_start_us=WINDOW_US[0], measure_end_us=WINDOW_US[1], health={"cpu_share": 0.1}
        )
        trace.take(cell, outcome)
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
