"""A rate search as it runs: tries evaluated, search.json written after each, the load curve's cells at the end.

Joins the pure search with the contract's evaluation; the report reads search.json. Shown by
tests/harness/test_harness_search.py.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness.plan import search_cell
from harness.planned_cell import PlannedCell
from harness.run.rate_contract import Evaluation, evaluate
from harness.search import KEPT, RateSearch, limits_named
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
        # Tries that broke the contract, those of the load curve too: one of these may be what lowers the kept rate.
        self._broken: list[tuple[float, Evaluation]] = []
        # The tries found this rate. Points of the load curve above it may be kept too, by chance: they can only lower
        # what is reported.
        self._found_per_s = math.inf
        self._last_line = ""

    def tries(self, suite: Suite, *, seed: int, client: str) -> Iterator[PlannedCell]:
        """Cells to run, one after the other; `take` must be called in between."""
        while (rate := self._search.next_rate()) is not None:
            yield search_cell(
                suite, self._spec, rate, number=len(self._probes) + 1, fraction=None, seed=seed, client=client,
                settle=self._must_settle(),
            )  # fmt: skip

    def load_curve(self, suite: Suite, *, seed: int, client: str) -> Iterator[PlannedCell]:
        """Fractions of the kept rate, repetitions in rounds of random order; `take` must be called in between. Without
        a kept rate they are fractions of the one that the estimate would try next."""
        kept = self._search.kept()
        self._found_per_s = kept or math.inf
        whole = kept or self._search.passed_with(KEPT)
        for repetition in range(1, self._spec.repetitions + 1):
            fractions = sorted(set(self._spec.fractions))
            random.Random(f"{seed}/load/{repetition}").shuffle(fractions)
            for fraction in fractions:
                cell = search_cell(
                    suite, self._spec, whole * fraction, number=repetition, fraction=fraction, seed=seed,
                    client=client, settle=self._must_settle(),
                )  # fmt: skip
                self._curve.append(
                    LoadPoint(
                        fraction=fraction,
                        repetition=repetition,
                        cell_id=cell.cell_id,
                        rate_per_s=cell.workload.rate_per_s,
                    )
                )
                self.write()
                yield cell

    def _must_settle(self) -> bool:
        return bool(self._search.probes) and not self._search.probes[-1].passed

    def take(self, planned: PlannedCell, outcome: OutcomeRecord, ceiling_per_s: float | None = None) -> None:
        """Notes a try, or a cell of the load curve. `ceiling_per_s` is that of the generator in this try. It falls
        when a load host is lost."""
        rate = planned.workload.rate_per_s
        found = evaluate(
            self._run_dir, planned.cell_id, contract=self._spec.contract, workload=planned.workload,
            seed=planned.seed, window_us=outcome.window_us if outcome.status is CellStatus.DONE else None,
            health=outcome.health, ceiling_per_s=ceiling_per_s,
        )  # fmt: skip
        self._search.take(rate, passed=found.passed)
        if not found.passed:
            self._broken.append((rate, found))
        if self._curve:
            self._curve[-1] = replace(self._curve[-1], passed=found.passed, reasons=found.reasons)
        else:
            self._probes.append(self._probe(planned.cell_id, rate, found))
        self._last_line = self._told(rate, found)
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
            kept_per_s=self._search.kept(),
            estimate_per_s=round(estimate.rate_per_s, 1),
            low_per_s=round(estimate.low_per_s, 1),
            high_per_s=round(estimate.high_per_s, 1),
        )

    def last_line(self) -> str:
        return self._last_line

    def _told(self, rate: float, found: Evaluation) -> str:
        verdict = "keeps the contract" if found.passed else f"breaks it: {'; '.join(found.reasons)}"
        estimate, kept = self._search.estimate(), self._search.kept(self._found_per_s)
        so_far = "no rate is kept with 95 % yet" if kept is None else f"{kept:,.0f} is kept with 95 %"
        return (
            f"{rate:g} records/s {verdict}; {so_far}, half of the tries keep {estimate.rate_per_s:,.0f} "
            f"({estimate.low_per_s:,.0f} to {estimate.high_per_s:,.0f})"
        )

    def record(self) -> SearchRecord:
        """The record of the search so far."""
        estimate = self._search.estimate()
        near = [reason for rate, one in self._broken if rate <= estimate.high_per_s * 1.5 for reason in one.reasons]
        contract = self._spec.contract
        return SearchRecord(
            schema_version=SEARCH_VERSION,
            contract=ContractRecord(p99_ms=contract.p99_ms, backlog_growth_share=contract.backlog_growth_share),
            searched_per_s=(self._spec.low_per_s, self._spec.high_per_s),
            rate_per_s=self._search.kept(self._found_per_s),
            half_per_s=round(estimate.rate_per_s, 1),
            low_per_s=round(estimate.low_per_s, 1),
            high_per_s=round(estimate.high_per_s, 1),
            ended_at=self._search.ended_at(),
            limited_by=tuple(limits_named([clause for _, one in self._broken for clause in one.broken])),
            limit_reasons=tuple(near[-3:]),
            probes=tuple(self._probes),
            load_curve=tuple(self._curve),
        )

    def write(self) -> None:
        write_search(self._run_dir, self.record())
