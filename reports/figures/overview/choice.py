"""The recommendation: what to run, how sure that is, what would change it, and the whole configuration. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.sweep.figures import RecommendationText
from reports.figures.sweep.other_priorities import WOULD_CHANGE
from reports.figures.sweep.recommendation_words import DECIDE, HOW_SURE

_OF_ONE_EXECUTION: Final = frozenset({"--run-dir", "--cell"})  # with --cell there would be no other repetition


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`properties` is a whole file for a producer; empty where nothing is recommended. `command` is for a POSIX shell:
    the same run with as many repetitions as can decide; empty where they would not, or where nobody recorded it."""

    what: tuple[str, ...]
    how_sure: tuple[str, ...]
    would_change: tuple[str, ...]
    properties: str
    command: str


def choice_of(own: RecommendationText, argv: Sequence[str]) -> Choice:
    """`argv` is the command line of the run."""
    return Choice(
        what=tuple(one for one in own.sentences if not one.startswith((HOW_SURE, WOULD_CHANGE))),
        how_sure=_after(HOW_SURE, own),
        would_change=tuple(_sentence(part) for one in _after(WOULD_CHANGE, own) for part in one.split("; ")),
        properties=own.properties,
        command=_command(argv) if any(DECIDE in one for one in own.sentences) else "",
    )


def _after(beginning: str, own: RecommendationText) -> tuple[str, ...]:
    """The sentences that begin so, without their beginning."""
    told = [one.removeprefix(beginning) for one in own.sentences if one.startswith(beginning)]
    return tuple(text[:1].upper() + text[1:] for text in told)


def _sentence(text: str) -> str:
    """One thought by itself."""
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def _command(argv: Sequence[str]) -> str:
    """The command for all cells, without the directory of this run, which exists already. Only `harness run` has a
    suite to repeat."""
    if argv[:1] != ("run",):
        return ""
    words = [
        word
        for before, word in zip(("", *argv), argv, strict=False)
        if before not in _OF_ONE_EXECUTION and word.partition("=")[0] not in _OF_ONE_EXECUTION
    ]
    return f"harness {shlex.join(_without_decision(words))} {DECIDE}"


def _without_decision(words: Sequence[str]) -> list[str]:
    """The words without a --set of the key that DECIDE sets: one setting has one value."""
    name, _, assignment = DECIDE.partition(" ")
    key = assignment.partition("=")[0]
    kept: list[str] = []
    for word in words:
        if kept and kept[-1] == name and word.partition("=")[0] == key:
            kept.pop()
        elif not word.startswith(f"{name}={key}="):
            kept.append(word)
    return kept
