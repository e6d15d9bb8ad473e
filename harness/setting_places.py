"""Checks every Kafka setting of a suite or a scenario against the table of the client that will use it, and names its
place.

There are two checks: each value by itself, where it stands in the file, and then each cell's values together. Pure
except for the clients' libraries, which are imported and asked. Shown by tests/harness/test_harness_setting_places.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from chaos.model import Scenario
from harness.access_settings import access_check
from harness.errors import UsageError
from harness.foreign_names import ours_for_client
from harness.planned_cell import PlannedCell
from harness.suite_source import Source, nearest
from harness.unknown_settings import settings_problem
from runlog.files.setting_text import setting_text
from workloads.clients import check_consumer_properties, check_properties, client_names, is_client, nearest_properties
from workloads.clients.protocol import ClientError, PropertyError

Scope = Literal["producer", "consumer", "group member", "topic", "broker"]
_PROBLEMS_SHOWN_MAX: Final = 12
_PARTS_OF_A_SWEEP: Final = ("workload.", "topic.", "cluster.")  # what `vary` names beside client settings
_CLUSTER: Final = ("topic", "broker")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedSetting:
    """One setting as it stands in a document."""

    location: tuple[str | int, ...]
    scope: Scope
    name: str
    value: str


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
    placed = [one for one in placed_settings(source.data) if has_sweep or one.location[0] not in ("sweep", "search")]
    problems: dict[str, None] = {}
    wrong: set[str] = set()
    for setting in placed:
        if setting.scope in _CLUSTER and not has_own_broker:
            continue
        own_client = sweep_client if setting.location[0] == "sweep" else client
        problem = "" if setting.scope in _CLUSTER else access(setting.name)
        if problem := problem or _alone(own_client, setting, stands_in=not has_sweep):
            problems[f"{source.place_of(setting.location)}: {problem}"] = None
            wrong.add(setting.name)
    for line in _together(source, cells, placed, wrong):
        problems[line] = None
    if problems:
        lines = list(problems)
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
    """Ours for the library that is named, else the nearest name, else all."""
    return ours_for_client(name) or nearest(name, client_names())


# --- where settings stand -------------------------------------------------------------------------------------------


def placed_settings(document: Mapping[str, Any]) -> Iterator[PlacedSetting]:
    """All settings of a suite or a scenario. The document was validated, so types are right."""
    for location, scope in _mappings(document):
        node: Any = document
        for part in location:
            node = node[part]
        for name, value in node.items():
            yield PlacedSetting(location=(*location, name), scope=scope, name=name, value=setting_text(value))
    yield from _varied(document.get("sweep") or {})


def _mappings(document: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Scope]]:
    """The mappings of settings, by what they belong to."""
    wanted: tuple[tuple[tuple[str, ...], Scope], ...] = (
        (("properties",), "producer"),
        (("sweep", "baseline"), "producer"),
        (("search", "properties"), "producer"),
        (("topic", "config"), "topic"),
        (("cluster", "settings"), "broker"),
        (("broker_settings",), "broker"),
    )
    yield from _present(document, (), wanted)
    cases = document.get("cases")
    for name, case in cases.items() if isinstance(cases, Mapping) else ():
        own: tuple[tuple[tuple[str, ...], Scope], ...] = (
            (("properties",), "producer"),
            (("topic_config",), "topic"),
            (("broker_settings",), "broker"),
        )
        yield from _present(case or {}, ("cases", name), own)
    readers = (document.get("workload") or {}).get("readers")
    for index, reader in enumerate(readers if isinstance(readers, list) else ()):
        scope: Scope = "group member" if reader.get("mode") == "group" else "consumer"
        yield from _present(reader, ("workload", "readers", index), ((("properties",), scope),))


def _present(
    node: Mapping[str, Any], at: tuple[str | int, ...], wanted: Sequence[tuple[tuple[str, ...], Scope]]
) -> Iterator[tuple[tuple[str | int, ...], Scope]]:
    for path, scope in wanted:
        inner: Any = node
        for part in path:
            inner = inner.get(part) if isinstance(inner, Mapping) else None
        if isinstance(inner, Mapping):
            yield (*at, *path), scope


def _varied(sweep: Mapping[str, Any]) -> Iterator[PlacedSetting]:
    for name, values in (sweep.get("vary") or {}).items():
        if name.startswith(_PARTS_OF_A_SWEEP):
            continue
        at: tuple[str | int, ...] = ("sweep", "vary", name)
        if isinstance(values, Mapping):  # a range: its ends
            for end in ("from", "to"):
                yield PlacedSetting(location=(*at, end), scope="producer", name=name, value=setting_text(values[end]))
            continue
        for index, value in enumerate(values):
            if not isinstance(value, Mapping):
                yield PlacedSetting(location=(*at, index), scope="producer", name=name, value=setting_text(value))
                continue
            inner = (*at, index)
            yield PlacedSetting(
                location=(*inner, "value"), scope="producer", name=name, value=setting_text(value["value"])
            )
            for other, demanded in (value.get("with") or {}).items():
                yield PlacedSetting(
                    location=(*inner, "with", other), scope="producer", name=other, value=setting_text(demanded)
                )


# --- what is wrong with them ----------------------------------------------------------------------------------------


def _alone(client: str, setting: PlacedSetting, *, stands_in: bool) -> str:
    """What is wrong with one setting, whatever the others are. Empty if nothing."""
    given: Mapping[str, str] = {setting.name: setting.value}
    if stands_in and setting.scope == "producer":
        with contextlib.suppress(ClientError):
            given, _ = nearest_properties(client, given, as_they_are=())
    if setting.scope == "topic" or setting.scope == "broker":
        return settings_problem(setting.scope, given)
    checks: dict[str, Callable[[], None]] = {
        "producer": lambda: check_properties(client, given),
        "consumer": lambda: check_consumer_properties(client, given, is_member=False),
        "group member": lambda: check_consumer_properties(client, given, is_member=True),
    }
    try:
        checks[setting.scope]()
    except PropertyError as error:
        # It is about another setting, so it belongs to the check of all of them together.
        return str(error) if error.name in (setting.name, "a property") else ""
    except ClientError:
        return ""  # the check of the cells reports a library that is not installed, once
    return ""


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
