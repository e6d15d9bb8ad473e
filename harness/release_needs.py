"""Which releases of Apache Kafka a cell needs, and why a release cannot carry it out. Pure, but it reads scenarios.

Shown by tests/harness/test_harness_kafka_releases.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.kafka_releases import (
    CONSUMER_PROTOCOL,
    CORDONED_DIRECTORIES,
    DEFAULT,
    SCRAM,
    SEVERAL_LOG_DIRECTORIES,
    SHARE_GROUPS,
    TOKENS,
    Release,
    lacking,
    parse_release,
    parse_releases,
)
from harness.planned_cell import PlannedCell
from harness.scenarios import load_scenario

_CORDONS = "log_directory_emptied"
_BEARER = "OAUTHBEARER"


def releases_of(cells: Sequence[PlannedCell]) -> tuple[Release, ...]:
    """All that brokers have in these cells: at the start, and after the steps of their scenarios."""
    return tuple(dict.fromkeys(release for cell in cells for release in _releases(cell)))


def release_problem(cell: PlannedCell) -> str:
    """What the cell asks for and its brokers lack. Empty if they have all of it."""
    releases = _releases(cell)
    if problem := lacking(releases, list(_wanted(cell))):
        return problem
    if cell.scenario_reference:
        case = load_scenario(cell.scenario_reference).cases[cell.record.case or ""]
        if case.since and min(releases) < parse_release(case.since):
            return f"case {cell.record.case} expects what Apache Kafka does since {case.since}, not {min(releases)}"
    return ""


def _releases(cell: PlannedCell) -> tuple[Release, ...]:
    began = parse_releases(cell.releases)
    if not cell.scenario_reference:
        return began
    later = load_scenario(cell.scenario_reference).later_releases
    return (*began, *(parse_release(each) if each else DEFAULT for each in later))


def _wanted(cell: PlannedCell) -> Iterator[str]:
    readers = cell.workload.readers
    if any(reader.mode == "share" for reader in readers):
        yield SHARE_GROUPS
    if "consumer" in (
        settings.get("group.protocol") for settings in [cell.properties, *(r.properties for r in readers)]
    ):
        yield CONSUMER_PROTOCOL
    if cell.log_directories > 1:
        yield SEVERAL_LOG_DIRECTORIES
    if cell.security.is_scram:
        yield SCRAM
    if cell.security.mechanism == _BEARER:
        yield TOKENS
    if cell.scenario_reference and load_scenario(cell.scenario_reference).injects(_CORDONS):
        yield CORDONED_DIRECTORIES
