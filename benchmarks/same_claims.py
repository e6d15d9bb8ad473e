"""What page, recommendation and comparisons said of configurations that are equal, and how often they may. Pure.

Two configurations are equal if they differ only in a setting that never acts (`same_runs.NEVER_ACTS`). Shown by
tests/benchmarks/test_benchmarks_same.py.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.claims import Claim
from benchmarks.same_runs import NEVER_ACTS
from reports.figures.compare.likeness import NOT_QUIET
from runlog.quality.noise import FOREIGN_SHARE, STEAL_SHARE
from runlog.records.measurements import Measurement

WRONG_MAX: Final = 0.05  # what is said with 95 % may be wrong so often
_NAMED: Final = ("better", "worse")
_CHOICES: Final = ("Clear choice", "Likely choice")
# Sentences of a recommendation that set another configuration, which they name, beside the recommended one.
_REMARKS: Final = (
    re.compile(r"if \S+(?: \S+)* counts? most, (?P<other>\S+) (?:takes|carries) "),
    re.compile(r"if losing acknowledged records is acceptable, (?P<other>\S+)(?: with \S+)? has "),
    re.compile(r"^(?P<other>\S+) has the best .* this one takes less of the brokers"),
)
REMARKS_MAX: Final = 5  # capacity, broker CPU, bytes, safety, and why the best was passed over
_AGAINST_BASELINE: Final = "Against the baseline: "
_INTERVAL: Final = re.compile(r"[+-]?[\d.]+ % \(([+-]?[\d.]+) to ([+-]?[\d.]+)\)")
# A row of the forest on the front page, and in it what each dot says.
_ROW: Final = re.compile(r'<tr><th scope="row">(?:<a [^>]*>)?([^<]*)(?:</a>)?(.*?)</tr>', re.DOTALL)
_DOT: Final = re.compile(r'<svg class="dot ([a-z-]+)"')
_FOREST: Final = re.compile(r'<table class="forest".*?</table>', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quietness:
    """Means over the cells of a run, as shares of all cores."""

    run: str
    foreign: float | None
    stolen: float | None


def of_sweeps(documents: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """`documents` are results/sweep.json."""
    effects = [one for document in documents for one in document["effects"] if one["setting"] == NEVER_ACTS]
    choices = [_choice(document["recommendation"]) for document in documents]
    against = [interval for document in documents for interval in _against_baseline(document)]
    remarks = [_equal_remarks(document) for document in documents]
    return [
        Claim(
            text="an effect between equals is called better or worse",
            count=sum(effect["judgement"] in _NAMED for effect in effects),
            total=len(effects),
            at_most=WRONG_MAX,
        ),
        Claim(
            text="one of equals is recommended as a clear or likely choice",
            count=sum(choices),
            total=len(choices),
            at_most=WRONG_MAX,
        ),
        Claim(
            text="a recommendation shows an interval against the baseline, its equal, that holds no change",
            count=sum(low > 0 or high < 0 for low, high in against),
            total=len(against),
            at_most=WRONG_MAX,
        ),
        Claim(
            text=f"a recommendation names another difference between equals ({REMARKS_MAX} may be named in each)",
            count=sum(remarks),
            total=REMARKS_MAX * len(documents),
            at_most=WRONG_MAX,
        ),
    ]


def _rest(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name != NEVER_ACTS}


def _choice(recommendation: Mapping[str, Any]) -> bool:
    """Whether one of equals is singled out: those that are equal to it stand beside it in the sweep."""
    settings = recommendation["settings"]
    chosen = settings is not None and NEVER_ACTS in settings
    return chosen and any(one.startswith(_CHOICES) for one in recommendation["sentences"])


def _against_baseline(document: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    """Intervals of the recommended configuration against a baseline that equals it, in per cent."""
    settings, base = document["recommendation"]["settings"], _baseline(document)
    if settings is None or base is None or _rest(settings) != _rest(base) or settings == base:
        return
    for sentence in document["recommendation"]["sentences"]:
        if sentence.startswith(_AGAINST_BASELINE):
            yield from ((float(low), float(high)) for low, high in _INTERVAL.findall(sentence))


def _baseline(document: Mapping[str, Any]) -> Mapping[str, str] | None:
    """The configuration that every effect has as its reference."""
    settings = {effect["setting"]: effect["reference"] for effect in document["effects"]}
    found = (point["settings"] for point in document["surface"])
    return next((one for one in found if all(one[name] == value for name, value in settings.items())), None)


def _equal_remarks(document: Mapping[str, Any]) -> int:
    """How often a configuration that equals the recommended one is named as different from it."""
    settings, base = document["recommendation"]["settings"], _baseline(document)
    if settings is None or base is None:
        return 0
    found = [
        match["other"] for text in document["recommendation"]["sentences"] for one in _REMARKS
        for match in one.finditer(text)
    ]  # fmt: skip
    return sum(_rest(_named(other, base)) == _rest(settings) for other in found)


def _named(title: str, base: Mapping[str, str]) -> dict[str, str]:
    """The settings of a configuration by its title: `baseline`, or the one setting that it changes."""
    name, equals, value = title.partition("=")
    return {**base, **({name: value} if equals else {})}


def of_pages(pages: Sequence[str]) -> Claim:
    """`pages` are report.html: dots of the forest on the front page, the first thing that a reader sees."""
    dots = [dot for page in pages for label, dot in _dots(page) if label.startswith(f"{NEVER_ACTS}=")]
    return Claim(
        text="a dot of the front page between equals is drawn as better or worse",
        count=sum(dot in _NAMED for dot in dots),
        total=len(dots),
        at_most=WRONG_MAX,
    )


def _dots(page: str) -> Iterator[tuple[str, str]]:
    """(label of the row, what the dot says) of each dot."""
    forest = _FOREST.search(page)
    for label, rest in _ROW.findall(forest[0] if forest else ""):
        yield from ((html.unescape(label), dot) for dot in _DOT.findall(rest))


def of_comparisons(documents: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """`documents` are what `harness compare` wrote of pairs of runs of one build."""
    rows = [row for document in documents for row in document["rows"] if row["p"] is not None]
    return [
        Claim(
            text="`harness compare` calls one of two like runs worse",
            count=sum(document["result"] == "worse" for document in documents),
            total=len(documents),
            at_most=WRONG_MAX,
        ),
        Claim(
            text="... or better",
            count=sum(document["result"] == "better" for document in documents),
            total=len(documents),
            at_most=WRONG_MAX,
        ),
        Claim(
            text="a figure of a cell or of the whole run that it tested is called better or worse",
            count=sum(row["result"] in _NAMED for row in rows),
            total=len(rows),
            at_most=WRONG_MAX,
        ),
    ]


def results_of(documents: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Result -> comparisons that ended so."""
    found = [str(document["result"]) for document in documents]
    return {result: found.count(result) for result in ("better", "worse", "same", "undecided")}


def unlike_hosts(documents: Sequence[Mapping[str, Any]]) -> int:
    """Comparisons that decided nothing because others took unlike parts of the host."""
    return sum(any(NOT_QUIET in warning for warning in document["warnings"]) for document in documents)


def quietness_of(run: str, cells: Sequence[Measurement]) -> Quietness:
    return Quietness(run=run, foreign=_mean(cells, FOREIGN_SHARE), stolen=_mean(cells, STEAL_SHARE))


def _mean(cells: Sequence[Measurement], name: str) -> float | None:
    found = [cell.noise[name] for cell in cells if name in cell.noise]
    return sum(found) / len(found) if found else None
