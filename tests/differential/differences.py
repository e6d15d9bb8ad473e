"""The named differences between our broker and Apache Kafka 4.3.1: where each shows, and why it is let stand.

A difference is a place in an answer (API, path of fields) with both values. One that no entry here names fails the run;
an entry that a whole run never met is told, so that the table does not outlive its reasons.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.differential.generator import Asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One place where the answers differ. `path` as in `topics.partitions.error_code`."""

    asked: Asked
    path: str
    theirs: Any
    ours: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    name: str
    why: str
    applies: Callable[[Found], bool]


def at(apis: str, path: str = ".*", theirs: str = ".*", ours: str = ".*") -> Callable[[Found], bool]:
    """Regular expressions over the API's name, the path and both values."""

    def applies(found: Found) -> bool:
        return bool(
            re.fullmatch(apis, found.asked.key.name)
            and re.fullmatch(path, found.path)
            and re.fullmatch(theirs, str(found.theirs), re.DOTALL)
            and re.fullmatch(ours, str(found.ours), re.DOTALL)
        )

    return applies


NAMED: tuple[Named, ...] = ()


def compare(asked: Asked, theirs: Any, ours: Any) -> Iterator[Found]:
    """Every place where two masked answers differ."""
    yield from _walk(asked, "", theirs, ours)


def _walk(asked: Asked, path: str, theirs: Any, ours: Any) -> Iterator[Found]:
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        for name in theirs:
            yield from _walk(asked, f"{path}.{name}".lstrip("."), theirs[name], ours[name])
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for one, other in zip(theirs, ours, strict=True):
            yield from _walk(asked, path, one, other)
    elif theirs != ours:
        yield Found(asked=asked, path=path or "(whole)", theirs=theirs, ours=ours)


def name_of(found: Found, named: Iterable[Named] = NAMED) -> str | None:
    return next((each.name for each in named if each.applies(found)), None)


def page(counts: Counter[str], requests: Counter[str], equal: Counter[str]) -> str:
    """docs/differences.md."""
    total, same = sum(requests.values()), sum(equal.values())
    lines = [
        "# Answers that differ from Apache Kafka's",
        "",
        "Written by `make differential`: the same requests, drawn by a seed, valid and invalid, of every API and",
        "version that the broker offers to clients, go to it and to a node of Apache Kafka 4.3.1. Answers are compared",
        "field by field; ids that a broker makes up, addresses, times and texts of errors are masked. What differs all",
        "the same must be named here (tests/differential/differences.py), or the run fails.",
        "",
        f"Last run: {total:,} requests, {same:,} answered the same, {total - same:,} with a named difference.",
        "",
        "| difference | answers | why it stands |",
        "|---|---|---|",
    ]
    lines += [f"| {each.name} | {counts[each.name]:,} | {each.why} |" for each in NAMED]
    lines += ["", "## Requests by API", "", "| API and version | requests | same |", "|---|---|---|"]
    lines += [f"| {title} | {requests[title]:,} | {equal[title]:,} |" for title in requests]
    return "\n".join(lines) + "\n"
