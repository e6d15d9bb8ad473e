"""docs/reference/compatibility.md from docs/reference/compatibility.json, which holds what the last runs saw. Nothing
is by hand."""

from __future__ import annotations

import fcntl
import json
import os
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness.clusters.kafka.jars import VERSION as KAFKA_VERSION
from tests.compatibility.clients import CLIENTS
from tests.compatibility.features import SECTIONS
from tests.compatibility.suites import SUITES, Suite
from tests.compatibility.tools import TOOLS
from tests.compatibility.tools.run import NAME as TOOLS_NAME
from tests.compatibility.trial import Cell, Trial

_CHECKOUT = Path(__file__).parents[2]
DOCS = _CHECKOUT / "docs" / "reference"
PAGE, DATA = DOCS / "compatibility.md", DOCS / "compatibility.json"

_HEAD = """# Clients and tools on the reference broker

Written by `make compatibility`, which runs every client and every tool against three reference brokers; the cells are
what it saw (docs/reference/compatibility.json). A client is driven by a program of its own in its own language; what it
did is judged by this project's reader and by plain requests, never by the client itself (tests/compatibility/features).
A tool is run by its main method, as its script runs it (tests/compatibility/tools).

*passed*; *client*: the client has no such thing, or cannot be asked for it; *broker*: the reference broker does not
implement it; **failed**; not tried. Numbers lead to the reasons below each table, in the words of the client or of its
driver. Of clients' own tests, also: *skipped*, by the test itself; *kafka*: it fails on Apache Kafka 4.3.1 here as
well.
"""
_OWN_TESTS = """## Clients' own tests

As their authors wrote them, against reference brokers instead of Apache Kafka. Only tests that ask a broker for
something; each in a process of its own (tests/compatibility/suites).
"""
_BESIDE = f"""### Beside Apache Kafka {KAFKA_VERSION}

Each test ran on reference brokers and on Apache Kafka, one after the other in one run. The two clusters stood beside
each other with the same number of brokers, listeners, users, log directories and settings
(tests/compatibility/kafka_cluster.py), and took turns in being the first. The percentage is the share of what passed on
Apache Kafka that passed here too, rounded down. A test that was skipped has not passed.
"""
_WORDS = {"passed": "passed", "client": "client", "broker": "broker", "failed": "**failed**"}
_OWN_WORDS = {**_WORDS, "skipped": "skipped", "kafka": "kafka"}


def load() -> dict[str, Trial]:
    """Client -> what its last runs saw."""
    if not DATA.exists():
        return {}
    read = json.loads(DATA.read_text())
    return {
        name: Trial(**{**trial, "cells": tuple(Cell(**cell) for cell in trial["cells"])})
        for name, trial in read.items()
    }


def save(trials: Iterable[Trial]) -> None:
    """Replaces the cells that were tried, leaves the others, writes both files."""
    with _alone():
        known = load()
        for trial in trials:
            known[trial.client] = _merged(known.get(trial.client), trial)
        _write(known)


@contextmanager
def _alone() -> Iterator[None]:
    """Two suites may run at the same time: neither may lose what the other one saves."""
    directory = os.open(DATA.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def _write(known: dict[str, Trial]) -> None:
    text = json.dumps({name: _plain_data(trial) for name, trial in sorted(known.items())}, indent=1) + "\n"
    DATA.write_text(without_place(text))
    PAGE.write_text(without_place(render(known)))


def without_place(text: str) -> str:
    """Where the checkout lies says nothing to a reader. A client's error may name a file in it."""
    return text.replace(f"{_CHECKOUT}/", "")


def _plain_data(trial: Trial) -> dict[str, object]:
    """What did not run beside Apache Kafka says nothing of it."""
    cells = [asdict(cell) for cell in trial.cells]
    return {
        **asdict(trial),
        "cells": [{name: value for name, value in cell.items() if value or "kafka" not in name} for cell in cells],
    }


def keep_only(client: str, names: Collection[str]) -> None:
    """Forget what was seen of tests that a suite has no more."""
    with _alone():
        known = load()
        if client in known:
            trial = known[client]
            known[client] = replace(trial, cells=tuple(cell for cell in trial.cells if cell.feature in names))
            _write(known)


def _merged(old: Trial | None, new: Trial) -> Trial:
    """In the table's order. Old cells stay that the new trial did not try, if the client is of the same version."""
    cells = {cell.feature: cell for cell in old.cells} if old is not None and old.version == new.version else {}
    cells.update({cell.feature: cell for cell in new.cells})
    names = [feature.name for features in SECTIONS.values() for feature in features] + [tool.name for tool in TOOLS]
    if new.client in SUITES:
        names = sorted(cells)
    return replace(new, cells=tuple(cells[name] for name in names if name in cells))


def render(known: dict[str, Trial]) -> str:
    chosen = [known[kind.name] for kind in CLIENTS if kind.name in known]
    lines = [_HEAD, *_summary(chosen)]
    for title, features in SECTIONS.items():
        lines += _section(title, [feature.name for feature in features], chosen)
    if TOOLS_NAME in known:
        lines += _tools(known[TOOLS_NAME])
    lines += _own_tests([(suite, known[name]) for name, suite in SUITES.items() if name in known])
    return "\n".join(lines) + "\n"


def _summary(trials: Sequence[Trial]) -> list[str]:
    lines = [
        "| client | version | language | passed | lacks it | broker lacks it | failed |",
        "|---|---|---|---|---|---|---|",
    ]
    for trial in trials:
        counts = [sum(cell.state == state for cell in trial.cells) for state in _WORDS]
        lines.append(f"| {trial.client} | {trial.version} | {trial.language} | {' | '.join(map(str, counts))} |")
    return [*lines, ""]


def _section(title: str, names: Sequence[str], trials: Sequence[Trial]) -> list[str]:
    reasons: dict[str, int] = {}
    lines = [f"## {title}", "", f"| feature | {' | '.join(trial.client for trial in trials)} |"]
    lines.append("|---" * (len(trials) + 1) + "|")
    cells = {trial.client: {cell.feature: cell for cell in trial.cells} for trial in trials}
    for name in names:
        shown = [_shown(cells[trial.client].get(name), reasons) for trial in trials]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    lines.append("")
    lines += [f"{number}. {reason}" for reason, number in reasons.items()]
    return [*lines, ""] if reasons else lines


def _tools(trial: Trial) -> list[str]:
    reasons: dict[str, int] = {}
    lines = [f"## Kafka's own tools, {trial.version}", "", "| tool | asked | |", "|---|---|---|"]
    cells = {cell.feature: cell for cell in trial.cells}
    lines += [f"| {tool.name} | {tool.asked} | {_shown(cells.get(tool.name), reasons)} |" for tool in TOOLS]
    return [*lines, "", *(f"{number}. {reason}" for reason, number in reasons.items()), ""]


def _own_tests(tried: Sequence[tuple[Suite, Trial]]) -> list[str]:
    """How many did what, then what did not pass, with the reason, then the names of what did."""
    head = "| suite | version | from | passed | skipped | client | broker | kafka | failed |"
    lines = [_OWN_TESTS, head, "|---" * head.count(" |") + "|"]
    for suite, trial in tried:
        counts = [
            sum(cell.state == state for cell in trial.cells)
            for state in ("passed", "skipped", "client", "broker", "kafka", "failed")
        ]
        lines.append(f"| {suite.name} | {trial.version} | {suite.source} | {' | '.join(map(str, counts))} |")
    lines += ["", *_beside_kafka(tried)]
    for suite, trial in tried:
        lines += [f"### {suite.name}, {trial.version}", ""]
        others = [cell for cell in trial.cells if cell.state != "passed"]
        if others:
            lines += ["| test | | reason |", "|---|---|---|"]
            lines += [f"| {cell.feature} | {_OWN_WORDS[cell.state]} | {_plain(cell.reason)} |" for cell in others]
            lines.append("")
        passed = [f"`{cell.feature}`" for cell in trial.cells if cell.state == "passed"]
        lines += [
            textwrap.fill(f"Passed: {', '.join(passed)}.", 118, break_long_words=False, break_on_hyphens=False),
            "",
        ]
    return lines


def _beside_kafka(tried: Sequence[tuple[Suite, Trial]]) -> list[str]:
    """How many passed there, and of those here; then every test that passed on one side only."""
    counts = [(suite, trial, beside_kafka(trial.cells)) for suite, trial in tried]
    if not any(each.tests for _, _, each in counts):
        return []
    head = "| suite | tests | run on both | passed on Apache Kafka | of those passed here | percent |"
    lines = [_BESIDE, head, "|---" * head.count(" |") + "|"]
    for suite, trial, found in counts:
        percent = _percent(found.passed_here, found.passed_there)
        lines.append(
            f"| {suite.name} | {len(trial.cells)} | {found.tests} | {found.passed_there} | {found.passed_here} | "
            f"{percent} |"
        )
    differences = [(suite.name, cell) for suite, _, found in counts for cell in found.differences]
    if not differences:
        return [*lines, "", "No test passed on one side only.", ""]
    lines += [
        "",
        "Passed on one side only:",
        "",
        "| suite | test | here | Apache Kafka | reason |",
        "|---|---|---|---|---|",
    ]
    for name, cell in differences:
        reason = _plain(cell.reason if cell.state != "passed" else cell.kafka_reason)
        lines.append(f"| {name} | {cell.feature} | {_OWN_WORDS[cell.state]} | {cell.kafka} | {reason} |")
    return [*lines, ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideKafka:
    tests: int
    passed_there: int
    passed_here: int  # of those
    differences: tuple[Cell, ...]  # passed on one side only


def beside_kafka(cells: Iterable[Cell]) -> BesideKafka:
    both = [cell for cell in cells if cell.kafka]
    passed_there = [cell for cell in both if cell.kafka == "passed"]
    return BesideKafka(
        tests=len(both),
        passed_there=len(passed_there),
        passed_here=sum(cell.state == "passed" for cell in passed_there),
        differences=tuple(cell for cell in both if (cell.state == "passed") != (cell.kafka == "passed")),
    )


def _percent(part: int, whole: int) -> str:
    """In tenths, never rounded up: 100 % is all."""
    return f"{part * 1000 // whole / 10:.1f} %" if whole else "none"


def _shown(cell: Cell | None, reasons: dict[str, int]) -> str:
    if cell is None:
        return "not tried"
    if not cell.reason:
        return _WORDS[cell.state]
    return f"{_WORDS[cell.state]} ({reasons.setdefault(_plain(cell.reason), len(reasons) + 1)})"


def _plain(reason: str) -> str:
    return reason.replace("|", "/").replace("<", "&lt;").strip()
