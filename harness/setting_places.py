"""Checks every Kafka setting of a suite or a scenario against the table of the client that will use it, and names its
place.

There are two checks: each value by itself (`settings_alone.py`), and then each cell's values together. Pure except for
the clients' libraries, which are imported and asked. Shown by tests/harness/test_harness_setting_places.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from chaos.model import Scenario
from harness.access_settings import access_check
from harness.errors import UsageError
from harness.foreign_names import ours_for_client
from harness.planned_cell import PlannedCell
from harness.settings_alone import PlacedSetting, placed_settings, problems_alone
from harness.suite_source import Source, nearest
from workloads.clients import check_properties, check_transactions, client_names, is_client
from workloads.clients.process.versions.installing import version_problem
from workloads.clients.process.versions.names import SEPARATOR
from workloads.clients.protocol import ClientError, PropertyError

_PROBLEMS_SHOWN_MAX: Final = 12
# A client and a version, as one of the package managers writes it.
_VERSION_SAID: Final = re.compile(r"([\w-]+?) ?(?:==?|@|:) ?(?:v(?=\d))?([^/:]*)")


def check_settings(
    source: Source, client: str, cells: Sequence[PlannedCell], *, sweep_client: str | None = None,
    has_own_broker: bool = True, has_sweep: bool = True,
) -> None:  # fmt: skip
    """UsageError that lists what is wrong: file and line, setting, value, what is allowed, the nearest name.

    `sweep_client`: of the sweep, if it is another one. `has_sweep` False: only scenarios are run. A setting that the
    client lacks is then replaced by the nearest one that it has. `has_own_broker` False: the cluster is somebody
    else's, and may know more settings than Apache Kafka 4.3.
    """
    sweep_client = sweep_client or client
    for name, location in ((client, ("client",)), (sweep_client, ("sweep", "client"))):
        if not is_client(name):
            raise UsageError(f"{source.place_of(location)}: client {name!r}: no such client{near_client(name)}")
    access = access_check(is_own=has_own_broker, has_tls=not cells or any(cell.security.is_tls for cell in cells))
    problems = problems_alone(
        source, client, sweep_client, access=access, has_own_broker=has_own_broker, has_sweep=has_sweep
    )
    placed = [one for one in placed_settings(source.data) if has_sweep or one.location[0] not in ("sweep", "search")]
    lines = list(dict.fromkeys([*problems, *_together(source, cells, placed, {*problems.values()})]))
    if lines:
        more = [f"… and {len(lines) - _PROBLEMS_SHOWN_MAX} more"] if len(lines) > _PROBLEMS_SHOWN_MAX else []
        raise UsageError("\n".join([*lines[:_PROBLEMS_SHOWN_MAX], *more]))


def check_scenario_settings(source: Source, scenario: Scenario, *, has_own_broker: bool = True) -> None:
    """The same for a scenario by itself. It is checked against the clients that it is for, or else against Kafka's
    names as `reference` has them. UsageError."""
    client = scenario.clients[0] if scenario.clients else "reference"
    check_settings(source, client, (), has_own_broker=has_own_broker)
    for name in scenario.cases:
        try:
            check_properties(client, scenario.properties_of(name))
        except PropertyError as error:
            raise UsageError(f"{source.place_of(('cases', name, 'properties', error.name))}: {error}") from error


def near_client(name: str) -> str:
    """Ours for the library that is named, else the nearest name, else all; of a name with a version, what is wrong."""
    said = _VERSION_SAID.fullmatch(name)
    if said is None:
        return ours_for_client(name) or nearest(name, client_names())
    client, version = said.groups()
    if ours := ours_for_client(client):
        return f"{ours}{SEPARATOR}{version}"
    right = f"{client}{SEPARATOR}{version}"
    return f"; did you mean {right!r}?" if is_client(right) else f"; {version_problem(right)}"


# --- what is wrong with them together --------------------------------------------------------------------------------


def _together(
    source: Source, cells: Sequence[PlannedCell], placed: Sequence[PlacedSetting], wrong: set[str]
) -> Iterator[str]:
    """Problems of settings that are right alone but not together. Each problem once, with the first cell."""
    told: dict[str, list[PlannedCell]] = {}
    named: dict[str, str] = {}
    for cell in cells:
        if cell.kind == "chaos" or not wrong.isdisjoint(cell.properties):
            continue  # a scenario that a client cannot run is left out of the run, with a message
        try:
            check_properties(cell.client, dict(cell.properties))
            if cell.workload.is_transactional:
                has_readers = bool(cell.workload.reader_groups)
                check_transactions(cell.client, dict(cell.properties), has_readers=has_readers)
        except PropertyError as error:
            told.setdefault(str(error), []).append(cell)
            named[str(error)] = error.name
        except ClientError as error:
            told.setdefault(str(error), []).append(cell)
    for problem, where in told.items():
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        place = _place(source, placed, named.get(problem, ""), where[0])
        yield f"{place}: cell {where[0].cell_id}{more}: {problem}"


def _place(source: Source, placed: Sequence[PlacedSetting], name: str, cell: PlannedCell) -> str:
    """The place of the cell's setting with this name. If several places give the same value, the most specific one."""
    value = cell.properties.get(name)
    found = [setting for setting in placed if setting.name == name and setting.value == value]
    location = max((setting.location for setting in found), key=len, default=("sweep",))
    return source.place_of(location)
