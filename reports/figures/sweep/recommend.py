"""The recommendation: one configuration in plain sentences, how sure that is, and what would change it. Pure.

A configuration is considered only if it carried the load, may not lose acknowledged records, and showed no damage. If
all of them carried the rate that was asked for, the lowest p99 wins. Otherwise the highest rate wins.

Some configurations may be as good as the winner: the run cannot distinguish them from it, and their figure is within
10 % of the winner's. (The second condition is needed, because in a noisy run much cannot be distinguished and is still
not equal.) Among these the one with clearly less broker CPU is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from reports.figures.statistics.variance import Estimate
from reports.figures.sweep.cell_means import CellMeans
from reports.figures.sweep.effects import ONE_AT_A_TIME, Effects
from reports.figures.sweep.fork_scatter import how_many_clusters
from reports.figures.sweep.front import MARGIN, Point
from reports.figures.sweep.observations import (
    BROKER_CPU,
    BY_NAME,
    CAPACITY,
    FAILED,
    MAY_LOSE,
    NOT_SUSTAINED,
    OK,
    P99,
    SAFE,
    THROUGHPUT,
    WIRE_BYTES,
    Configuration,
    Measure,
    Observation,
    configuration_text,
)
from reports.figures.sweep.prediction import Prediction, predict
from reports.figures.sweep.sensitivity import Sensitivity

_RATE_SHARE: Final = 0.95  # a configuration within 5 % of the best rate may win by its p99
_LOADS: Final = ("workload.rate_per_s", "workload.record_size_bytes", "workload.producers", "workload.consumers")
_CHEAPER: Final = 0.05
_CLOSE: Final = math.log(1.10)
_FLATTERY_TOLD: Final = 0.001
_DRAWS: Final = 1_000
REPETITIONS_TO_DECIDE: Final = 4  # `compare` needs as many a side to judge a cell alone
DECIDE: Final = f"--set sweep.repetitions={REPETITIONS_TO_DECIDE}"
HOW_SURE, WOULD_CHANGE = "How sure: ", "What would change it: "  # how the sentences that tell it begin
_ALONE: Final = "The only safe configuration that this run can recommend"
_CERTAINTY: Final = ((0.9, "Clear choice"), (0.6, "Likely choice"), (0.0, "No clear choice, but if one must be taken"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """The best level of each setting together: a prediction to be confirmed, never a measurement."""

    settings: Configuration
    p99: Estimate | None  # None where nothing was repeated: luck, multiplied, foretells nothing
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    point: Point | None
    objective: str  # measure that decided
    sentences: tuple[str, ...]  # what to run, how sure, what would change it
    certainty: float | None  # share of draws in which it is the best, or within the margin of the best
    ties: tuple[str, ...]
    combination: Combination | None
    predicted: Mapping[str, Prediction]  # of the recommended configuration, by measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    points: Sequence[Point]
    observations: Sequence[Observation]
    means: Mapping[str, CellMeans]
    effects: Mapping[str, Effects]
    sensitivities: Sequence[Sensitivity]
    baseline: Configuration | None
    load: str  # "3,000 records/s of 1,024 B"
    chosen_without: Mapping[int, Configuration]  # cluster -> what the others would have chosen


def recommend(inputs: Inputs) -> Recommendation:
    loads = sorted({name for item in inputs.observations for name, _ in item.configuration if name in _LOADS})
    if loads:
        return _none(
            f"No recommendation: {', '.join(loads)} was varied, and a load is not a choice; the effects say what each "
            "load costs."
        )
    choice = choose(inputs.points, inputs.observations, inputs.means)
    if choice is None:
        return _none(_nothing(inputs))
    if not inputs.means[choice.objective.name].repeated:
        return _none(*_seen_once(choice, inputs))
    objective, contenders, winner, chosen = choice.objective, choice.contenders, choice.winner, choice.chosen
    others = [point for point in (winner, *choice.ties) if point is not chosen]
    certainty = _certainty(chosen, contenders, objective)
    combination = _combination(inputs)
    predicted = predict(inputs.means, chosen.configuration, inputs.chosen_without)
    sentences = [
        _what(chosen, certainty, inputs, is_told_apart=not others, is_alone=len(contenders) == 1),
        *_no_p99(objective),
        *_why_not_the_best(chosen, winner, objective, inputs),
        *_against_baseline(chosen, inputs),
        *_compiler_aside(chosen, inputs),
        *_on_another_cluster(predicted, inputs),
        _how_sure(chosen, others, contenders, objective, certainty, inputs),
        *_changes(chosen, inputs),
    ]
    if combination is not None:
        sentences.append(combination.sentence)
    return Recommendation(
        point=chosen,
        objective=objective.name,
        sentences=tuple(sentences),
        certainty=certainty,
        ties=tuple(point.title for point in others),
        combination=combination,
        predicted=predicted,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    objective: Measure
    contenders: tuple[Point, ...]
    winner: Point  # has the best figure
    ties: tuple[Point, ...]  # that the run cannot tell from the winner
    chosen: Point  # the winner, or a cheaper tie


def choose(
    points: Sequence[Point], observations: Sequence[Observation], means: Mapping[str, CellMeans]
) -> Choice | None:
    """The rule alone, without a word about it; None where nothing may be recommended. What is predicted of the choice
    asks the rule again with a part of the observations (prediction.py)."""
    candidates = [point for point in points if _eligible(point, observations)]
    objective, contenders = _objective(candidates)
    if not candidates:
        objective = BY_NAME[THROUGHPUT]
        contenders = [point for point in points if _eligible_by_rate(point, observations)]
    if not contenders:
        return None
    winner = min(contenders, key=lambda point: _goodness(point, objective))
    ties = [p for p in contenders if p is not winner and not _clearly_worse(p, winner, objective, means)]
    close = [point for point in ties if _goodness(point, objective) <= _goodness(winner, objective) + _CLOSE]
    return Choice(
        objective=objective,
        contenders=tuple(contenders),
        winner=winner,
        ties=tuple(ties),
        chosen=_cheapest(winner, close, means),
    )


def _none(*sentences: str) -> Recommendation:
    return Recommendation(
        point=None, objective="", sentences=sentences, certainty=None, ties=(), combination=None, predicted={}
    )


def _seen_once(choice: Choice, inputs: Inputs) -> list[str]:
    """Intervals from inside one run say nothing about the next one: what was seen, and what would decide."""
    measure, best = choice.objective, choice.winner
    rounds = max(item.round for item in inputs.observations)
    seen = (
        f"{'Seen in this one run' if rounds == 1 else 'Seen once each'}, at {inputs.load}: of the "
        f"{len(choice.contenders)} safe configurations "
        f"{configuration_text(best.configuration)} had the {'highest' if measure.more_is_better else 'lowest'} "
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
        *_no_p99(measure),
        f"{seen}.",
        more if rounds < REPETITIONS_TO_DECIDE else "The warnings say why the others do not count.",
    ]


def _value(point: Point, measure: Measure) -> str:
    return f"{significant(point.levels[measure.name].ratio[0] * measure.scale)} {measure.unit}"


def _eligible(point: Point, observations: Sequence[Observation]) -> bool:
    return point.comparable and _is_sound(point, observations, usable=(OK,), excluded=(FAILED, NOT_SUSTAINED))


def _eligible_by_rate(point: Point, observations: Sequence[Observation]) -> bool:
    """Where no configuration carried the asked rate: those whose brokers, not the client, were the limit."""
    return THROUGHPUT in point.levels and _is_sound(point, observations, usable=(OK, NOT_SUSTAINED), excluded=(FAILED,))


def _is_sound(
    point: Point, observations: Sequence[Observation], *, usable: Sequence[str], excluded: Sequence[str]
) -> bool:
    """Safe, undamaged, measured more often than not, and never seen to do what is excluded: the good repetitions of a
    configuration that failed in another one would flatter it. What the host did to a cell is not held against it."""
    own = [item for item in observations if item.configuration == point.configuration and not item.at_ceiling]
    bad = [item for item in own if item.state in excluded and not (item.state == NOT_SUSTAINED and item.disturbed)]
    good = sum(item.state in usable for item in own)
    return point.safety == SAFE and point.damage.total == 0 and not bad and good * 2 > len(own)


def _nothing(inputs: Inputs) -> str:
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


def _objective(candidates: Sequence[Point]) -> tuple[Measure, list[Point]]:
    """Rate decides if the candidates differ in it; else p99 among all."""
    rates = {id(point): point.levels[THROUGHPUT].value for point in candidates if THROUGHPUT in point.levels}
    best = max(rates.values(), default=0.0)
    near = [point for point in candidates if rates.get(id(point), -math.inf) >= best + math.log(_RATE_SHARE)]
    return BY_NAME[P99], near or list(candidates)


def _goodness(point: Point, measure: Measure) -> float:
    value = point.levels[measure.name].value
    return -value if measure.more_is_better else value


def _clearly_worse(point: Point, winner: Point, measure: Measure, means: Mapping[str, CellMeans]) -> bool:
    difference = means[measure.name].between(winner.configuration, point.configuration)
    if difference is None:
        return True
    return difference.high < 0 if measure.more_is_better else difference.low > 0


def _cheapest(winner: Point, ties: Sequence[Point], means: Mapping[str, CellMeans]) -> Point:
    """A tie that needs clearly less broker CPU, else the winner."""
    cpu = means.get(BROKER_CPU)
    if cpu is None:
        return winner
    cheaper = [
        (difference.value, point)
        for point in ties
        if (difference := cpu.between(winner.configuration, point.configuration)) is not None
        and difference.high < 0
        and difference.value < -_CHEAPER
    ]
    return min(cheaper, key=lambda pair: pair[0])[1] if cheaper else winner


def _certainty(chosen: Point, contenders: Sequence[Point], measure: Measure) -> float:
    generator = np.random.default_rng(20_240_917)
    centre = np.array([_goodness(point, measure) for point in contenders])
    standing = [point.standing[measure.name] for point in contenders]
    error = np.array([one.standard_error if one.is_bounded else 0.0 for one in standing])
    df = np.array([min(max(one.df, 1.0), 1e6) for one in standing])
    drawn = centre + error * generator.standard_t(df, size=(_DRAWS, len(contenders)))
    place = next(i for i, point in enumerate(contenders) if point is chosen)
    return float((drawn[:, place] <= drawn.min(axis=1) + MARGIN).mean())


# --- sentences ------------------------------------------------------------------------------------------------------


def figure(level: Estimate, measure: Measure) -> str:
    """`12.3 ms (11.8 to 12.9)`."""
    value, low, high = (number * measure.scale for number in level.ratio)
    text = f"{significant(value)} {measure.unit}"
    return f"{text} ({significant(low)} to {significant(high)})" if 0 < level.standard_error < math.inf else text


def significant(value: float) -> str:
    """Three significant digits, thousands with a comma."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def effect_size(share: float) -> str:
    """`7.0 %`, or `a factor of 3.1` where a percentage would mislead."""
    return f"{share:.1%}" if share < 1 else f"a factor of {1 + share:.2g}"


def change(difference: Estimate) -> str:
    """`-32 % (-40 to -22)`."""
    value, low, high = ((ratio - 1) * 100 for ratio in difference.ratio)
    if not difference.is_bounded:
        return f"{value:+.1f} % (interval unknown)"
    digits = 0 if max(abs(value), abs(high - low)) >= 10 else 1
    return f"{value:+.{digits}f} % ({low:+.{digits}f} to {high:+.{digits}f})"


def _what(chosen: Point, certainty: float, inputs: Inputs, *, is_told_apart: bool, is_alone: bool) -> str:
    """Clear or likely is only what is told from every other: the best of equals has won by luck, which flatters it."""
    words = _CERTAINTY if is_told_apart else _CERTAINTY[-1:]
    word = _ALONE if is_alone else next(word for least, word in words if certainty >= least)
    figures = [
        f"{BY_NAME[name].title} {figure(level, BY_NAME[name])}"
        for name in (THROUGHPUT if CAPACITY not in chosen.levels else CAPACITY, P99, BROKER_CPU, WIRE_BYTES)
        if (level := chosen.levels.get(name)) is not None
    ]
    return f"{word}: run {configuration_text(chosen.configuration)}: {'; '.join(figures)}, at {inputs.load}."


def _no_p99(objective: Measure) -> list[str]:
    if objective.name == P99:
        return []
    return [
        "No safe configuration carried the asked rate every time, so they are ranked by the rate that they did carry; "
        "latency at "
        "that point is the length of the queue and is not compared."
    ]


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
        f"{BY_NAME['broker_cpu'].title} {change(saved)}."
    ]


def _against_baseline(chosen: Point, inputs: Inputs) -> list[str]:
    if inputs.baseline is None:
        return []
    if chosen.configuration == inputs.baseline:
        return ["That is the baseline: no safe configuration of this sweep is better at what decides."]
    parts = [
        f"{BY_NAME[name].title} {change(difference)}"
        for name, means in inputs.means.items()
        if not (name == THROUGHPUT and CAPACITY in inputs.means)
        and (difference := means.between(inputs.baseline, chosen.configuration)) is not None
    ]
    return [f"Against the baseline: {'; '.join(parts)}."] if parts else []


def compiler_us(configuration: Configuration, observations: Sequence[Observation]) -> float | None:
    """What the brokers' compilers took per record, on average over the cells of a configuration; None: not recorded."""
    own = [item.behaviour for item in observations if item.configuration == configuration and BROKER_CPU in item.values]
    found = [each.compiler_us_per_record for each in own if each.compiler_us_per_record is not None]
    return sum(found) / len(found) if found else None


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
        return [how_many_clusters(inputs.means)]
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
            f"{HOW_SURE}no other safe configuration has a {measure.title} that counts, so there was nothing to choose."
        )
    text = (
        f"{HOW_SURE}drawn again from the intervals it has the best {measure.title} of the {len(contenders)} safe "
        f"configurations, or is within {MARGIN:.0%} of it, {certainty:.0%} of the time"
    )
    if ties:
        shown = ", ".join(point.title.split(" (")[0] for point in ties[:4])
        more = f" and {len(ties) - 4} more" if len(ties) > 4 else ""
        text += f"; this run cannot tell it from {shown}{more}"
    own = next((item for item in inputs.sensitivities if item.measure == measure.name), None)
    if own is not None:
        text += f" (differences in {measure.title} below {effect_size(own.smallest_effect)} stay unseen)"
    return text + "."


def _changes(chosen: Point, inputs: Inputs) -> list[str]:
    """What another priority or another load would choose."""
    parts: list[str] = []
    p99 = inputs.means.get(P99)
    loose = [point for point in inputs.points if point.safety == MAY_LOSE and P99 in point.levels]
    if p99 is not None and loose:
        best = min(loose, key=lambda point: point.levels[P99].value)
        difference = p99.between(chosen.configuration, best.configuration)
        if difference is not None and difference.high < 0:
            harm = f" (under faults: {best.damage.text()})" if best.damage.cells else ""
            parts.append(
                f"if losing acknowledged records is acceptable, {best.title.split(' (')[0]} has p99 "
                f"{change(difference)}{harm}"
            )
        else:
            parts.append("giving up acks=all bought no p99 that this run could see")
    safe = [point for point in inputs.points if point.safety == SAFE and point is not chosen]
    parts += _more_capacity(chosen, safe, inputs)
    for name, words in ((BROKER_CPU, "if broker CPU counts most"), (WIRE_BYTES, "if bytes on the wire count most")):
        means = inputs.means.get(name)
        offers = [point for point in safe if name in point.levels]
        if means is None or not offers:
            continue
        best = min(offers, key=lambda point: point.levels[name].value)
        saved = means.between(chosen.configuration, best.configuration)
        if saved is not None and saved.high < 0 and saved.value < -_CHEAPER:
            cost = p99.between(chosen.configuration, best.configuration) if p99 is not None else None
            price = f" at p99 {change(cost)}" if cost is not None else ""
            parts.append(f"{words}, {best.title.split(' (')[0]} takes {change(saved)}{price}")
    held = sorted({item.title for item in inputs.observations if item.state == NOT_SUSTAINED})
    if held:
        parts.append(f"{len(held)} configuration(s) did not carry the rate: a lower rate would bring them back in")
    parts.append(f"all of it holds at {inputs.load}: at another rate or size batches fill differently")
    return [f"{WOULD_CHANGE}{'; '.join(parts)}."]


def _more_capacity(chosen: Point, safe: Sequence[Point], inputs: Inputs) -> list[str]:
    """The choice is by p99 at the sweep's rate; another one may carry more."""
    means = inputs.means.get(CAPACITY)
    offers = [point for point in safe if CAPACITY in point.levels]
    if means is None or not offers:
        return []
    best = max(offers, key=lambda point: point.levels[CAPACITY].value)
    gained = means.between(chosen.configuration, best.configuration)
    if gained is None or gained.low <= 0 or not means.repeated:
        return []
    return [f"if capacity counts most, {best.title.split(' (')[0]} carries {change(gained)}"]


def _combination(inputs: Inputs) -> Combination | None:
    """One factor at a time: the safe level of each setting with clearly lower p99, put together."""
    own, p99 = inputs.effects.get(P99), inputs.means.get(P99)
    if own is None or p99 is None or own.design != ONE_AT_A_TIME or inputs.baseline is None:
        return None
    safe = {point.configuration for point in inputs.points if point.safety == SAFE and point.damage.total == 0}
    noted = {item.configuration for item in inputs.observations if item.note}
    best: dict[str, tuple[str, Estimate]] = {}
    base = dict(inputs.baseline)
    for effect in own.effects:
        configuration = tuple(sorted({**base, effect.setting: effect.value}.items()))
        if configuration not in safe or configuration in noted or effect.estimate.high >= 0:
            continue
        if effect.setting not in best or effect.estimate.value < best[effect.setting][1].value:
            best[effect.setting] = (effect.value, effect.estimate)
    start = p99.index(inputs.baseline)
    if len(best) < 2 or start is None:
        return None
    # All effects share the baseline, so one contrast: each chosen level, and the baseline as often as it is too much.
    weights = np.zeros(len(p99.configurations))
    weights[start] = 1 - len(best)
    for name, (level, _) in best.items():
        place = p99.index(tuple(sorted({**base, name: level}.items())))
        assert place is not None, "an effect was estimated from it"
        weights[place] = 1.0
    predicted = p99.difference(weights) if p99.repeated else None
    settings = tuple(sorted({**base, **{name: level for name, (level, _) in best.items()}}.items()))
    changed = " ".join(f"{name}={level}" for name, (level, _) in sorted(best.items()))
    hope = "each had the lower p99 by itself, in its one run"
    if predicted is not None:
        hope = (
            f"if their effects multiply, p99 would be {figure(predicted, BY_NAME['p99'])}, which being the best of "
            "several flatters"
        )
    sentence = (
        f"Worth a run: {changed} together were not measured; {hope}. Only a run of that configuration confirms it."
    )
    return Combination(settings=settings, p99=predicted, sentence=sentence)
