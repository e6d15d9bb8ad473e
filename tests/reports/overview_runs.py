"""Runs as the front page meets them: faults with a sweep, faults alone, a sweep alone, one cell, doubtful cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from reports.figures.figures import Figures, figures_of
from reports.judge.judged import Judged
from reports.read.model import CellFacts, IdentityRange, IdentitySet, SetComparison
from tests.reports.cells import changed, document_of, make_run
from tests.reports.sweep_facts import BASELINE, SLOT_US, cell_facts, judged, one_at_a_time, planted_sweep

CHANGES = {"batch.size": ["8192", "131072"], "linger.ms": ["0", "50"], "compression.type": ["lz4"], "acks": ["1"]}
FACTOR = {"8192": 1.5, "131072": 0.7, "0": 1.1, "50": 2.0, "lz4": 0.9, "1": 0.6}
RECORDS = 20_000  # sent by each of these cells


def chaos(
    scenario: str,
    case: str,
    properties: Mapping[str, str],
    *,
    expect: Mapping[str, str] | None = None,
    seen: Mapping[str, int] | None = None,
    unpredicted: int = 0,
    proved: bool = True,
    status: str = "done",
) -> CellFacts:
    """A cell under a fault from second 2 to second 4. All of `seen` was predicted, but for the last few."""
    made = cell_facts(
        {**BASELINE, **properties}, p99_us=30_000, kind="chaos", cell_id=f"{scenario}-{case}", properties=properties
    )
    document = {
        **document_of(made.cell),
        "title": f"{scenario} with {case}",
        "scenario": scenario,
        "case": case,
        "client": "reference",
        "note": f"That is what {case} does.",
        "about": f"What is done in {scenario}.",
        "expect": dict(expect or {}),
        "outcome": {**document_of(made.cell)["outcome"], "status": status, "started_us": 0, "ended_us": 10_000_000},
    }
    fault = {"id": "f", "kind": "kill"}
    faults = [
        {**fault, "phase": "applied", "t_us": 2_000_000, "target": "leader", "detail": {"label": "killed"}},
        {**fault, "phase": "healed", "t_us": 4_000_000},
    ]
    if proved:
        faults.append({**fault, "phase": "proved", "t_us": 2_100_000, "detail": {"exit": "SIGKILL"}})
    sets = {kind: _records(count) for kind, count in (seen or {}).items()}
    predictions = {
        kind: SetComparison(
            both=_records(max(0, sets.get(kind, IdentitySet()).count - unpredicted)),
            only_observed=_records(unpredicted) if sets.get(kind) else IdentitySet(),
        )
        for kind in ("lost", "duplicated", "reordered")
    }
    slots = made.slots.copy()
    struck = (slots["t_us"] >= 2_000_000) & (slots["t_us"] < 4_000_000)
    slots.loc[struck, "acked"] = 0
    return replace(
        made,
        cell=changed(made.cell, document=document, faults=faults),
        predictions=predictions,
        observed=sets,
        slots=slots,
        slot_us=SLOT_US,
    )


def _records(count: int) -> IdentitySet:
    ranges = (IdentityRange(producer=0, incarnation=0, first_seq=1, last_seq=count),) if count else ()
    return IdentitySet(count=count, hash=count, ranges=ranges)


def faulty() -> list[CellFacts]:
    """Each kind of damage with what permits it and with what does not, as in the demo."""
    off, on = {"enable.idempotence": "false"}, {"enable.idempotence": "true"}
    in_flight = "max.in.flight.requests.per.connection"
    lost, twice, late = ({kind: "predicted"} for kind in ("lost", "duplicated", "reordered"))
    return [
        chaos("leader-loss", "acks-1", {"acks": "1", **off, in_flight: "1"}, expect=lost, seen={"lost": 2_034}),
        chaos("leader-loss", "acks-all", {"acks": "all", **on}),
        chaos("response-lost", "idempotence-off", {**off}, expect=twice, seen={"duplicated": 95}),
        chaos("response-lost", "idempotence-on", {**on}),
        chaos("request-refused", "in-flight-5", {**off, in_flight: "5"}, expect=late, seen={"reordered": 24}),
        chaos("request-refused", "in-flight-1", {**off, in_flight: "1"}),
        chaos("request-refused", "in-flight-5-idempotent", {**on, in_flight: "5"}),
    ]


@cache
def swept(*, repetitions: int = 3) -> list[Judged]:
    return planted_sweep(
        one_at_a_time(CHANGES),
        lambda factors: 20_000.0 * FACTOR.get(next((v for k, v in factors.items() if BASELINE[k] != v), ""), 1.0),
        repetitions=repetitions,
        noise=0.02,
        seed=5,
        baseline=BASELINE,
    )


def figures(items: Sequence[Judged], *, problems: Sequence[str] = ()) -> Figures:
    run = make_run(directory="r", manifest={"suite": "demo", "run_id": "20261123-demo", "engine": "reference"})
    return figures_of(replace(run, problems=tuple(problems)), items)


@cache
def demo(*, repetitions: int = 3) -> Figures:
    return figures([*swept(repetitions=repetitions), *judged(faulty())])


BROKERS = ",".join(f"broker{number}.kafka.example.com:9092" for number in range(1, 16))


def of_many_brokers() -> Figures:
    """Of a cluster whose list of brokers is a word of 400 letters. It stands in settings, in commands and in faults."""
    own = {"acks": "all", "bootstrap.servers": BROKERS}
    found = [chaos("leader-loss", "acks-all", own), chaos("leader-loss", "acks-1", {**own, "acks": "1"})]
    command = f"harness chaos leader-loss --cluster external --bootstrap-server {BROKERS}"
    return figures(
        judged([replace(one, cell=changed(one.cell, document={**document_of(one.cell), "command": command}))
                for one in found])
    )  # fmt: skip


@cache
def every_kind() -> dict[str, Figures]:
    """Name -> the figures of a run of that kind."""
    unproved = chaos("leader-loss", "acks-1", {"acks": "1"}, expect={"lost": "predicted"}, proved=False)
    broken = chaos("leader-loss", "acks-all", {"acks": "all"}, seen={"lost": 7}, unpredicted=7)
    return {
        "demo": demo(),
        "once": demo(repetitions=1),
        "faults": figures(judged(faulty())),
        "sweep": figures(swept()),
        "one": figures(judged([cell_facts(BASELINE, p99_us=9_000, cell_id="only")])),
        "none": figures([]),
        "brokers": of_many_brokers(),
        "doubtful": figures(judged([unproved, broken]), problems=["the run was killed after 2 of 9 cells"]),
    }
