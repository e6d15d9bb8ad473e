"""The sentences of a recommendation: what to run, how sure that is, and what would change it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from reports.figures.sweep.choosing import Choice
from reports.figures.sweep.fork_scatter import how_many_clusters
from reports.figures.sweep.front import Point
from reports.figures.sweep.number_words import change, decided_change, figure, seen_in, significant
from reports.figures.sweep.observations import (
    BROKER_CPU,
    BY_NAME,
    CAPACITY,
    LOSES_NONE,
    MARGIN,
    OK,
    P99,
    SAFE,
    THROUGHPUT,
    WIRE_BYTES,
    Measure,
    compiler_us,
    configuration_text,
    is_on_jvm,
)
from reports.figures.sweep.other_priorities import would_change
from reports.figures.sweep.prediction import Prediction
from reports.figures.sweep.recommendation import Inputs

_FLATTERY_TOLD: Final = 0.001
REPETITIONS_TO_DECIDE: Final = 4  # `compare` needs as many a side to judge a cell alone
DECIDE: Final = f"--set sweep.repetitions={REPETITIONS_TO_DECIDE}"
HOW_SURE: Final = "How sure: "  # how the sentence that tells it begins
_ALONE: Final = "The only configuration without loss that this run can recommend"
_CERTAINTY: Final = ((0.9, "Clear choice"), (0.6, "Likely choice"), (0.0, "No clear choice, but if one must be taken"))


def sentences_of(
    choice: Choice, certainty: float, predicted: Mapping[str, Prediction], inputs: Inputs
) -> tuple[str, ...]:
    """The sentences about a recommended configuration. `certainty` and `predicted` belong to the choice."""
    objective, winner, chosen = choice.objective, choice.winner, choice.chosen
    others = [point for point in (winner, *choice.ties) if point is not chosen]
    return (
        _what(chosen, certainty, inputs, is_told_apart=not others, is_alone=len(choice.contenders) == 1),
        *_permits(chosen),
        *_no_p99(objective, inputs),
        *_why_not_the_best(chosen, winner, objective, inputs),
        *_against_baseline(chosen, inputs),
        *_under_faults(chosen),
        *_compiler_aside(chosen, inputs),
        *_on_another_cluster(predicted, inputs),
        _how_sure(chosen, others, choice.contenders, objective, certainty, inputs),
        would_change(chosen, inputs),
    )


def why_nothing(inputs: Inputs) -> str:
    if not inputs.points:
        return "No recommendation: no cell of the sweep has a figure that may be used."
    reasons = []
    if not any(point.safety == SAFE for point in inputs.points):
        reasons.append("no configuration keeps every acknowledged record by contract")
    bad = [item for item in inputs.observations if item.state != OK]
    if bad:
        reasons.append(
            f"{len(bad)} of {len(inputs.observations)} cells are {', '.join(sorted({i.state for i in bad}))}"
        )
    return f"No recommendation: {'; '.join(reasons) or 'no cell has both a rate and a p99'}."


def baseline_is_doubted(inputs: Inputs) -> str:
    own = [item for item in inputs.observations if item.configuration == inputs.baseline]
    doubted = [item for item in own if not item.trusted]
    return (
        f"No recommendation: the verdict does not trust {len(doubted)} of {len(own)} cells of the baseline "
        f"({doubted[0].reason or doubted[0].state}), and every setting is compared with it."
    )


def seen_once(choice: Choice, inputs: Inputs) -> list[str]:
    """Intervals from inside one run say nothing about the next one: what was seen, and what would decide."""
    measure, best = choice.objective, choice.winner
    rounds = max(item.round for item in inputs.observations)
    seen = (
        f"{'Seen in this one run' if rounds == 1 else 'Seen once each'}, at {inputs.load}: of the "
        f"{len(choice.contenders)} configurations that lose nothing by contract "
        f"{configuration_text(best.ran_with)} had the {'highest' if measure.more_is_better else 'lowest'} "
        f"{measure.title}, {_value(best, measure)}"
    )
    base = next((point for point in choice.contenders if point.configuration == inputs.baseline), None)
    if base is not None and base is not best:
        seen += f"; the baseline had {_value(base, measure)}"
    why = "each configuration ran once"
    if rounds > 1:
        why = f"of {rounds} repetitions no configuration has more than one whose {measure.title} counts"
    more = f"{REPETITIONS_TO_DECIDE} repetitions are the least that can decide: run the same suite with {DECIDE}."
    return [
        f"No recommendation: {why}, and one run does not show how much the next one differs.",
        *_no_p99(measure, inputs),
        f"{seen}.",
        more if rounds < REPETITIONS_TO_DECIDE else "The warnings say why the others do not count.",
    ]


def _value(point: Point, measure: Measure) -> str:
    return f"{significant(point.levels[measure.name].ratio[0] * measure.scale)} {measure.unit}"


def _what(chosen: Point, certainty: float, inputs: Inputs, *, is_told_apart: bool, is_alone: bool) -> str:
    """Clear or likely is only what is told from every other: the best of equals has won by luck, which flatters it."""
    words = _CERTAINTY if is_told_apart else _CERTAINTY[-1:]
    word = _ALONE if is_alone else next(word for least, word in words if certainty >= least)
    figures = [
        f"{BY_NAME[name].title} {figure(level, BY_NAME[name])}"
        for name in (THROUGHPUT if CAPACITY not in chosen.levels else CAPACITY, P99, BROKER_CPU, WIRE_BYTES)
        if (level := chosen.levels.get(name)) is not None
    ]
    struck = any(item.disturbed for item in inputs.observations)
    though = ", though others disturbed the host" if struck else ""
    return f"{word}{though}: run {configuration_text(chosen.ran_with)}: {'; '.join(figures)}, at {inputs.load}."


def _no_p99(objective: Measure, inputs: Inputs) -> list[str]:
    if objective.name == P99:
        return []
    carried = [point for point in inputs.points if point.safety == SAFE and _carried(point, inputs)]
    why = "No configuration that loses nothing carried the asked rate every time"
    if len(carried) == 1:
        why = (
            f"Of the configurations that lose nothing only {carried[0].title.split(' (')[0]} carried the asked rate "
            "every time, which leaves no p99 to compare"
        )
    elif carried:
        why = "Too few configurations that lose nothing have a p99 that may be compared"
    return [
        f"{why}. So they are ranked by the rate that they did carry: the latency of those that fell behind is the "
        "length of the queue, and is not compared."
    ]


def _carried(point: Point, inputs: Inputs) -> bool:
    own = [item for item in inputs.observations if item.configuration == point.configuration and not item.at_ceiling]
    return bool(own) and all(item.state == OK for item in own)


def _why_not_the_best(chosen: Point, winner: Point, measure: Measure, inputs: Inputs) -> list[str]:
    """A reader sees a better figure in the table and must hear why it was passed over."""
    if chosen is winner:
        return []
    saved = inputs.means[BROKER_CPU].between(winner.configuration, chosen.configuration)
    assert saved is not None, "broker CPU is why it was chosen"
    best = winner.title.split(" (")[0]
    return [
        f"{best} has the best {measure.title} of this run, {figure(winner.levels[measure.name], measure)}, but the run "
        f"cannot tell the two apart in it, and this one takes less of the brokers: "
        f"{BY_NAME['broker_cpu'].title} {change(saved)} against it."
    ]


def _against_baseline(chosen: Point, inputs: Inputs) -> list[str]:
    if inputs.baseline is None:
        return []
    if chosen.configuration == inputs.baseline:
        return ["That is the baseline: no other configuration that loses nothing is better at what decides."]
    parts = [
        f"{BY_NAME[name].title} {decided_change(difference)}"
        for name, means in inputs.means.items()
        if not (name == THROUGHPUT and CAPACITY in inputs.means)
        and (difference := means.between(inputs.baseline, chosen.configuration)) is not None
    ]
    return [f"Against the baseline: {'; '.join(parts)}."] if parts else []


def _permits(chosen: Point) -> list[str]:
    """That nothing is lost is not all that a reader may take for safe."""
    if not chosen.contract.startswith(LOSES_NONE):
        return []
    return [f"It loses nothing by contract, but under a fault it {chosen.contract.removeprefix(LOSES_NONE)} records."]


def _under_faults(chosen: Point) -> list[str]:
    """That it keeps every record is a promise; how far this run has tried it."""
    if chosen.damage.is_own:
        return []
    if not chosen.damage.cells:
        return ["That this configuration keeps every record is its contract: nothing like it was run under faults."]
    return [
        "This configuration was not run under faults: that it keeps every record is inferred from cells with its acks, "
        "idempotence and in flight."
    ]


def _compiler_aside(chosen: Point, inputs: Inputs) -> list[str]:
    found = compiler_us(chosen.configuration, inputs.observations)
    if found is None or BROKER_CPU not in chosen.levels:
        return []
    return [
        f"Broker CPU is without the just-in-time compilers of the brokers, which grow idle with their age: beside it "
        f"they took {significant(found)} {BY_NAME['broker_cpu'].unit} a record in this configuration."
    ]


def _on_another_cluster(predicted: Mapping[str, Prediction], inputs: Inputs) -> list[str]:
    """What the figures above are worth on a cluster that this run did not see."""
    forked = {name: own for name, own in predicted.items() if own.forks > 1}
    if not forked:
        return [how_many_clusters(inputs.means, on_jvm=is_on_jvm(inputs.observations))]
    figures = "; ".join(
        f"{BY_NAME[name].title} {figure(own.expected, BY_NAME[name])}" for name, own in forked.items()
    )  # fmt: skip
    text = f"On one more cluster expect, 19 times in 20: {figures}"
    taken = [
        f"{BY_NAME[name].title} {math.expm1(own.flattery):+.1%}"
        for name, own in forked.items()
        if abs(own.flattery) >= _FLATTERY_TOLD
    ]
    if taken:
        text += (
            f". Being chosen flatters a figure: by the clusters that did not choose it, {', '.join(taken)} is in these"
        )
    return [text + "."]


def _draws(share: float) -> str:
    """Rounded down: 996 of 1,000 are not all."""
    return "all of the draws" if share == 1 else f"{math.floor(share * 100)}% of the draws"


def _how_sure(
    chosen: Point,
    ties: Sequence[Point],
    contenders: Sequence[Point],
    measure: Measure,
    certainty: float,
    inputs: Inputs,
) -> str:
    if len(contenders) == 1:
        return (
            f"{HOW_SURE}no other configuration that loses nothing has a {measure.title} that counts, so there "
            "was nothing to choose."
        )
    text = (
        f"{HOW_SURE}the figures were drawn again and again from their intervals. In {_draws(certainty)} this "
        f"configuration had the best {measure.title} of the {len(contenders)} that lose nothing, or was within "
        f"{MARGIN:.0%} of it"
    )
    if ties:
        shown = ", ".join(point.title.split(" (")[0] for point in ties[:4])
        more = f" and {len(ties) - 4} more" if len(ties) > 4 else ""
        text += f". This run cannot tell it from {shown}{more}"
    own = next((item for item in inputs.sensitivities if item.measure == measure.name), None)
    if own is not None:
        text += f". {seen_in(measure.title, own.smallest_effect)}"
    return text + "."
