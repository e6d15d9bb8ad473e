"""What to run, how sure that is, what would change it; and the configuration in full, as properties. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reports.figures.sweep.figures import RecommendationText
from reports.figures.sweep.recommend import HOW_SURE, WOULD_CHANGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`properties` is a whole file for a producer; empty where nothing is recommended."""

    what: tuple[str, ...]
    how_sure: tuple[str, ...]
    would_change: tuple[str, ...]
    properties: str


def choice_of(own: RecommendationText) -> Choice:
    return Choice(
        what=tuple(one for one in own.sentences if not one.startswith((HOW_SURE, WOULD_CHANGE))),
        how_sure=_after(HOW_SURE, own),
        would_change=_after(WOULD_CHANGE, own),
        properties=own.properties,
    )


def _after(beginning: str, own: RecommendationText) -> tuple[str, ...]:
    """The sentences that begin so, without their beginning."""
    told = [one.removeprefix(beginning) for one in own.sentences if one.startswith(beginning)]
    return tuple(text[:1].upper() + text[1:] for text in told)
