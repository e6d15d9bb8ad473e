"""A rate search as it runs: tries evaluated, search.json written after each, the load curve's cells at the end.

Joins the pure search with the contract's evaluation; the report reads search.json. Shown by
tests/harness/test_harness_search.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from harness.plan import search_cell
from harness.planned_cell import PlannedCell
from harness.run.rate_contract import Evaluation, evaluate
from harness.search import RateSearch, limits_named
from harness.suite import Search, Suite
from runlog.records.cell import CellStatus, OutcomeRecord
from runlog.records.documents import write_search
from runlog.records.search import SEARCH_VERSION, ContractRecord, LoadPoint, SearchProbe, SearchRecord


class SearchTrace:
    def __init__(self, run_dir: Path, search: Search) -> None:
        self._run_dir, self._spec = run_dir, search
        self._search = RateSearch(
            low_per_s=search.low_per_s,
            high_per_s=search.high_per_s,
            tolerance=search.tolerance,
            probes_max=search.probes_max,
        )
        self._probes: list[SearchProbe] = []
        self._curve: list[LoadPoint] = []

    def rates(self) -> Iterator[float]:
        """Rates to try, one after the other; `take` must be called in between."""
        while (rate := self._search.next_rate()) is not None:
            yield rate

    def take(self, planned: PlannedCell, outcome: OutcomeRecord, ceiling_per_s: float | None = None) -> None:
        """`ceiling_per_s`: of the generator in this try. It falls when a load host is lost."""
        rate = planned.workload.rate_per_s
        found = evaluate(
            self._run_dir, planned.cell_id, contract=self._spec.contract, workload=planned.workload,
            seed=planned.seed, window_us=outcome.window_us if outcome.status is CellStatus.DONE else None,
            health=outcome.health, ceiling_per_s=ceiling_per_s,
        )  # fmt: skip
        self._search.take(rate, passed=found.passed)
        self._probes.append(self._probe(planned.cell_id, rate, found))
        self.write()

    def _probe(self, cell_id: str, rate: float, found: Evaluation) -> SearchProbe:
        estimate = self._search.estimate()
        return SearchProbe(
            cell_id=cell_id,
            rate_per_s=rate,
            passed=found.passed,
            broken=found.broken,
            reasons=found.reasons,
            p99_ms=found.p99_ms,
            acked_per_s=round(found.acked_per_s, 1),
            backlog_growth_share=round(found.backlog_slope_share, 4),
            estimate_per_s=round(estimate.rate_per_s, 1),
            low_per_s=round(estimate.low_per_s, 1),
            high_per_s=round(estimate.high_per_s, 1),
        )

    def last_line(self) -> str:
        last = self._probes[-1]
        verdict = "keeps the contract" if last.passed else f"breaks it: {'; '.join(last.reasons)}"
        return (
            f"{last.rate_per_s:g} records/s {verdict}; the limit is now {last.estimate_per_s:,.0f} "
            f"({last.low_per_s:,.0f} to {last.high_per_s:,.0f})"
        )

    def load_curve(self, suite: Suite, *, seed: int, client: str) -> list[PlannedCell]:
        """Fractions of the found rate, repetitions in rounds of random order."""
        limit = self._search.estimate().rate_per_s
        cells: list[PlannedCell] = []
        for repetition in range(1, self._spec.repetitions + 1):
            fractions = sorted(set(self._spec.fractions))
            random.Random(f"{seed}/load/{repetition}").shuffle(fractions)
            for fraction in fractions:
                cell = search_cell(
                    suite, self._spec, limit * fraction, number=repetition, fraction=fraction, seed=seed, client=client
                )
                cells.append(cell)
                self._curve.append(
                    LoadPoint(
                        fraction=fraction,
                        repetition=repetition,
                        cell_id=cell.cell_id,
                        rate_per_s=cell.workload.rate_per_s,
                    )
                )
        self.write()
        return cells

    def record(self) -> SearchRecord:
        """The record of the search so far."""
        estimate = self._search.estimate()
        failed = [one for one in self._probes if not one.passed]
        near = [reason for one in failed if one.rate_per_s <= estimate.high_per_s * 1.5 for reason in one.reasons]
        contract = self._spec.contract
        return SearchRecord(
            schema_version=SEARCH_VERSION,
            contract=ContractRecord(p99_ms=contract.p99_ms, backlog_growth_share=contract.backlog_growth_share),
            searched_per_s=(self._spec.low_per_s, self._spec.high_per_s),
            rate_per_s=round(estimate.rate_per_s, 1),
            low_per_s=round(estimate.low_per_s, 1),
            high_per_s=round(estimate.high_per_s, 1),
            ended_at=self._search.ended_at(),
            limited_by=tuple(limits_named([clause for one in failed for clause in one.broken])),
            limit_reasons=tuple(near[-3:]),
            probes=tuple(self._probes),
            load_curve=tuple(self._curve),
        )

    def write(self) -> None:
        write_search(self._run_dir, self.record())
