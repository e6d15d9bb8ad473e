"""`harness.mutation.by_search`: a finding counts if sound brokers do not show it; else the search goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.explore.campaign import Plan
from harness.explore.execution.bench import Evidence
from harness.explore.generators.programs import plain
from harness.explore.search.search import Finding, Search, Stage
from harness.explore.trial.history import Fate, History, Logged, Outcome, Sent
from harness.explore.trial.model import Trial
from harness.explore.trial.requests_sent import Use
from harness.mutation.by_search import SOUND_TRIES, first_of_the_mutant, main, shows

USES = {"Metadata": Use(requests=2, version=12), "Produce": Use(requests=8, version=12)}
PROGRAM = plain(["produce"])[0]
ABOUT = {"client": "c", "version": "1", "cluster": "reference", "cluster_version": "1", "seed": 1, "command": []}


class Lossy:
    """It loses a record where one of these APIs is disturbed, and needs a second for each trial."""

    dropped_log_bytes = 0

    def __init__(self, *apis: str) -> None:
        self._apis, self.trials, self.now_s = apis, 0, 0.0

    def end_warm(self) -> Sequence[str]:
        return ()

    def give_up(self) -> None:
        pass

    def run(self, trial: Trial, number: int, *, may_be_warm: bool = False) -> Evidence:
        self.trials += 1
        self.now_s += 1.0
        is_lost = trial.disturbance is not None and trial.disturbance.api in self._apis
        happened = (
            Sent(at_us=1, seq=0, value=b"0"),
            Outcome(at_us=2, seq=0, fate=Fate.ACKNOWLEDGED, partition=0, offset=0),
        )
        log = () if is_lost else (Logged(partition=0, offset=0, value=b"0"),)
        met = (1,) * len(trial.disturbances)
        history = History(happened=happened, log=log, disturbed=len(met[:1]), disturbed_besides=met[1:])
        return Evidence(history=history, uses=USES, duration_s=0.1)


def hunted(bench: Lossy, sound: Lossy, tmp_path: Path, budget_s: float = 500.0) -> tuple[Finding | None, list[str]]:
    search = Search([PROGRAM], abilities=["produce"], seed=1)
    plan = Plan(budget_s=budget_s, workers=1, directory=tmp_path, about=ABOUT)
    found, innocent = first_of_the_mutant(
        search, bench, plan, lambda finding: shows(sound, finding), clock=lambda: bench.now_s
    )
    return found, [one.api for one in innocent]


def test_the_search_ends_with_the_first_finding_that_sound_brokers_do_not_show(tmp_path: Path) -> None:
    bench, sound = Lossy("Produce"), Lossy()
    found, innocent = hunted(bench, sound, tmp_path)
    assert found is not None
    assert (found.stage, found.signature.api, innocent) == (Stage.CONFIRMED, "Produce", [])
    assert sound.trials == SOUND_TRIES
    assert bench.now_s < 100


def test_what_shows_on_sound_brokers_too_is_the_clients_and_the_search_goes_on(tmp_path: Path) -> None:
    found, innocent = hunted(Lossy("Produce", "Metadata"), Lossy("Metadata"), tmp_path)
    assert found is not None
    assert (found.signature.api, innocent) == ("Produce", ["Metadata"])


def test_a_mutant_that_does_not_show_is_missed_when_the_budget_is_over(tmp_path: Path) -> None:
    bench = Lossy()
    assert hunted(bench, Lossy(), tmp_path, budget_s=60.0) == (None, [])
    assert 60 <= bench.now_s <= 62


def test_a_mutant_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["acknowledge_before_replicatio"])
    assert (
        "no mutant 'acknowledge_before_replicatio', there are aborted_transactions_not_told" in capsys.readouterr().err
    )
