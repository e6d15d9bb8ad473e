"""The recommendation of a sweep: one configuration, or none, with the reason. Pure.

`choosing` has the rule, `recommendation_words` the sentences. Shown by tests/reports/test_reports_sweep.py.
"""

from __future__ import annotations

from typing import Final

from reports.figures.sweep.choosing import certainty_of, choose
from reports.figures.sweep.combination import combine
from reports.figures.sweep.observations import P99, doubted_configurations
from reports.figures.sweep.prediction import predict
from reports.figures.sweep.recommendation import Inputs, Recommendation
from reports.figures.sweep.recommendation_words import baseline_is_doubted, seen_once, sentences_of, why_nothing

_LOADS: Final = ("workload.rate_per_s", "workload.record_size_bytes", "workload.producers", "workload.consumers")


def recommend(inputs: Inputs) -> Recommendation:
    loads = sorted({name for item in inputs.observations for name, _ in item.configuration if name in _LOADS})
    if loads:
        return _none(
            f"No recommendation: {', '.join(loads)} was varied, and a load is not a choice; the effects say what each "
            "load costs."
        )
    if inputs.baseline in doubted_configurations(inputs.observations):
        return _none(baseline_is_doubted(inputs))
    choice = choose(inputs.points, inputs.observations, inputs.means)
    if choice is None:
        return _none(why_nothing(inputs))
    if not inputs.means[choice.objective.name].repeated:
        return _none(*seen_once(choice, inputs))
    certainty = certainty_of(choice)
    combination = combine(
        inputs.points, inputs.observations, inputs.means.get(P99), inputs.effects.get(P99), inputs.baseline
    )
    predicted = predict(inputs.means, choice.chosen.configuration, inputs.chosen_without)
    sentences = sentences_of(choice, certainty, predicted, inputs)
    return Recommendation(
        point=choice.chosen,
        objective=choice.objective.name,
        sentences=sentences if combination is None else (*sentences, combination.sentence),
        certainty=certainty,
        ties=tuple(point.title for point in (choice.winner, *choice.ties) if point is not choice.chosen),
        combination=combination,
        predicted=predicted,
    )


def _none(*sentences: str) -> Recommendation:
    return Recommendation(
        point=None, objective="", sentences=sentences, certainty=None, ties=(), combination=None, predicted={}
    )
