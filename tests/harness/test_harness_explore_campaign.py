"""`harness.explore.campaign` and `story`: a whole search against a simulated client, and the files it leaves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.explore.campaign import Campaign, Plan, cause_lines, suspicion_lines
from harness.explore.execution.bench import Evidence
from harness.explore.execution.toxics import toxic_of
from harness.explore.findings.known_findings import Allowance
from harness.explore.generators.programs import plain
from harness.explore.search.search import Search, Stage
from harness.explore.trial.history import Fate, History, Logged, Outcome, Sent
from harness.explore.trial.model import Disturbance, How, Trial, from_document
from harness.explore.trial.requests_sent import Use

USES = {"Metadata": Use(requests=2, version=12), "Produce": Use(requests=8, version=12)}
ABOUT = {"client": "simulated", "version": "1", "cluster": "none", "cluster_version": "0", "seed": 1}


class SimulatedBench:
    """A client that loses its record whenever a certain request is refused."""

    dropped_log_bytes = 0

    def __init__(
        self,
        *,
        code: int = 6,
        after: Callable[[], None] = lambda: None,
        mistake: Callable[[int], bool] = lambda number: False,
    ) -> None:
        self._code, self._after, self._mistake = code, after, mistake
        self.trials: list[Trial] = []
        self.warm: list[bool] = []
        self.went_wrong: Sequence[str] = ()

    def end_warm(self) -> Sequence[str]:
        return self.went_wrong

    def give_up(self) -> None:
        pass

    def run(self, trial: Trial, number: int, *, may_be_warm: bool = False) -> Evidence:
        self.trials.append(trial)
        self.warm.append(may_be_warm)
        self._after()
        if self._mistake(number):
            raise KeyError("a mistake of ours")
        met = (1,) * len(trial.disturbances)
        is_lost = any(
            one.how is How.ERROR_BEFORE and one.api == "Produce" and one.code == self._code
            for one in trial.disturbances
        )
        happened = (
            Sent(at_us=1_000_000, seq=0, value=b"0"),
            Outcome(at_us=1_250_000, seq=0, fate=Fate.ACKNOWLEDGED, partition=0, offset=0),
        )
        log = () if is_lost else (Logged(partition=0, offset=0, value=b"0"),)
        history = History(happened=happened, log=log, disturbed=len(met[:1]), disturbed_besides=met[1:])
        return Evidence(history=history, uses=USES, duration_s=0.1)


class Clock:
    """A second for each trial."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def tick(self) -> None:
        self.now_s += 1.0


def explore(
    directory: Path,
    *,
    budget_s: float = 100,
    should_stop: Callable[[], bool] = lambda: False,
    known: Sequence[Allowance] = (),
    mistake: Callable[[int], bool] = lambda number: False,
) -> Campaign:
    clock = Clock()
    search = Search(plain(["produce"])[:1], abilities=["produce"], seed=1)
    plan = Plan(budget_s=budget_s, workers=1, directory=directory, about=ABOUT, client_words="-- ./client", known=known)
    campaign = Campaign(
        search,
        SimulatedBench(after=clock.tick, mistake=mistake),
        plan,
        say=lambda text: None,
        should_stop=should_stop,
        clock=lambda: clock.now_s,
    )
    campaign.run()
    return campaign


def test_a_search_leaves_its_finding_as_a_trial_and_a_story(tmp_path: Path) -> None:
    explore(tmp_path)
    document = json.loads((tmp_path / "explore.json").read_text())
    (finding,) = document["findings"]
    assert finding["stage"] == Stage.CONFIRMED
    assert (finding["kind"], finding["api"], finding["shown"]) == ("acknowledged and lost", "Produce", 3)
    assert finding["steps"] == 2
    assert document["client"] == "simulated"
    trial = from_document(json.loads((tmp_path / "findings/1/trial.json").read_text()))
    assert trial.disturbance is not None
    assert trial.disturbance.code == 6
    story = (tmp_path / "findings/1/story.txt").read_text()
    assert "acknowledged and lost (producer, Produce)" in story
    assert "one Produce: error before the work, NOT_LEADER_OR_FOLLOWER" in story
    assert "  0.250  acknowledged record 0: partition 0, offset 0" in story


def test_a_known_finding_is_named_with_its_reason_and_comes_last(tmp_path: Path) -> None:
    known = Allowance(signature="acknowledged and lost (producer, *)", reason="they know", link="https://example.org/7")
    campaign = explore(tmp_path, known=[known])
    ((_, members, allowed),) = campaign.causes()
    assert (len(members), allowed) == (1, known)
    (text,) = cause_lines(campaign.causes())
    assert text.startswith("known: they know (https://example.org/7)\n")
    document = json.loads((tmp_path / "explore.json").read_text())
    assert document["causes"][0]["known"] == "they know (https://example.org/7)"


def test_the_end_says_how_to_try_each_cause_again(tmp_path: Path) -> None:
    campaign = explore(tmp_path)
    (text,) = cause_lines(campaign.causes(), campaign.again)
    assert text.splitlines()[-1].startswith(f"  again: harness explore --again {tmp_path}/findings/1/trial.json")


def test_a_suspicion_that_was_not_tried_again_is_told_apart_from_one_that_was_refuted(tmp_path: Path) -> None:
    (finding,) = explore(tmp_path).search.findings.values()
    stages = (Stage.CONFIRMED, Stage.SUSPECTED, Stage.NOT_REPEATED, Stage.IN_CONTROL)
    found = [replace(finding, stage=stage) for stage in stages]
    assert [line.split(" suspicions that ")[0] for line in suspicion_lines(found)] == ["2", "1"]
    assert suspicion_lines(found[:1]) == []


def test_the_page_is_there_while_the_search_runs_and_says_when_it_has_ended(tmp_path: Path) -> None:
    pages: list[str] = []

    def should_stop() -> bool:
        page = tmp_path / "explore.html"
        if page.exists():
            pages.append(page.read_text())
        return False

    explore(tmp_path, should_stop=should_stop)
    assert 'http-equiv="refresh"' in pages[0]
    last = (tmp_path / "explore.html").read_text()
    assert 'http-equiv="refresh"' not in last
    assert "acknowledged and lost (producer; Produce; at its start)" in last
    assert "harness explore --again" in last


def test_what_was_tried_stands_in_the_order_of_time_with_its_counts(tmp_path: Path) -> None:
    explore(tmp_path)
    document = json.loads((tmp_path / "explore.json").read_text())
    tries = document["diary"]["tries"]
    assert [one[0] for one in tries] == sorted(one[0] for one in tries)
    counts: Counter[str] = Counter()
    for one in document["diary"]["counts"]:
        counts[one["lane"]] += one["count"]
    assert counts["no disturbance"] > 0
    # Several that shared a run are counted each, where all was right.
    assert {api: count for api, count in counts.items() if api in USES} == document["disturbed_by_api"]
    assert sum(counts.values()) > document["trials"]
    assert sum(document["not_tried_by_api"].values()) == document["single_disturbances_not_tried"]


def test_a_search_ends_with_its_budget_and_says_what_it_did_not_reach(tmp_path: Path) -> None:
    campaign = explore(tmp_path, budget_s=10)
    assert campaign.elapsed_s <= 11
    document = json.loads((tmp_path / "explore.json").read_text())
    assert document["trials"] == 10
    assert document["single_disturbances_not_tried"] > 0


def test_an_interrupted_search_keeps_what_it_has(tmp_path: Path) -> None:
    answers = iter([False] * 40)
    campaign = explore(tmp_path, should_stop=lambda: next(answers, True))
    assert campaign.is_interrupted
    document = json.loads((tmp_path / "explore.json").read_text())
    assert document["is_interrupted"]
    assert document["trials"] > 10


@pytest.mark.thorough
def test_the_terminal_tells_each_confirmed_finding_with_its_smallest_trial(tmp_path: Path) -> None:
    campaign = explore(tmp_path)
    (text,) = cause_lines(campaign.causes())
    assert text.splitlines()[0] == "acknowledged and lost (producer; Produce; at its start)"
    assert "1 moves; 3 of 3 repetitions show it" in text


@pytest.mark.parametrize("how", list(How))
def test_every_disturbance_is_a_toxic_that_selects_its_api(how: How) -> None:
    kind, attributes = toxic_of(Disturbance(api="Fetch", how=how, code=3, skip=2, count=4, late_ms=50))
    assert kind.startswith("kafka_")
    assert (attributes["api"], attributes["skip"], attributes["count"]) == ("Fetch", 2, 4)


def test_only_new_and_quiet_trials_may_use_a_process_again_and_what_goes_wrong_between_them_is_told(
    tmp_path: Path,
) -> None:
    """Whatever a process keeps of earlier trials: what confirms a finding, refutes it or makes it small has its own."""
    clock, said = Clock(), list[str]()
    bench = SimulatedBench(after=clock.tick)
    bench.went_wrong = ["it died while it waited"]
    search = Search(plain(["produce"])[:1], abilities=["produce"], seed=1)
    plan = Plan(budget_s=100, workers=1, directory=tmp_path, about=ABOUT)
    Campaign(search, bench, plan, say=said.append, clock=lambda: clock.now_s).run()
    document = json.loads((tmp_path / "explore.json").read_text())
    purposes = [one[2] for one in document["diary"]["tries"]]
    assert {"control", "new", "repetition", "control of a repetition", "shrinking"} == set(purposes)
    assert bench.warm == [purpose in ("control", "new") for purpose in purposes]
    assert document["went_wrong_between_trials"] == ["it died while it waited"]
    assert said[-1].endswith("  it died while it waited")


def test_a_mistake_of_ours_costs_one_trial_and_not_the_search(tmp_path: Path) -> None:
    search = explore(tmp_path, mistake=lambda number: number % 5 == 4).search
    assert [finding.stage for finding in search.findings.values()] == [Stage.CONFIRMED]
    assert search.problems
    assert all("a mistake of the harness: KeyError" in problem for problem in search.problems)


def test_mistakes_without_an_end_end_the_search(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="a mistake of ours"):
        explore(tmp_path, mistake=lambda number: True)
