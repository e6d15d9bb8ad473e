"""Which cells of a plan can run with this cluster and this client. Others are left out, with the reason. If a client
lacks a setting of a scenario, the nearest one that it has is used, and a line says so. Starts nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from harness.errors import UsageError
from harness.planned_cell import PlannedCell, knobs_of
from harness.release_needs import release_problem
from harness.scenarios import load_scenario
from harness.terminal.tables import print_fitting
from workloads.clients import check_properties, check_transactions, nearest_properties
from workloads.clients.process.versions.names import client_of
from workloads.clients.protocol import ClientError, PropertyError

_STARTED: Final = "a cluster that the harness starts (--cluster reference, docker or kafka)"
_FORETOLD: Final = ("predicted", "exact")
_IN_FLIGHT: Final = "max.in.flight.requests.per.connection"


def fitting(cells: Sequence[PlannedCell], engine: str, *, has_fault_hosts: bool = False) -> tuple[PlannedCell, ...]:
    """Leaves out scenarios that need another kind of cluster (a broken disk, a broken broker) or of client. Cells of a
    sweep are never changed or left out, because without one of them the sweep would answer another question."""
    kept: list[PlannedCell] = []
    left_out: list[tuple[str, str]] = []
    changed: list[tuple[str, str]] = []
    for planned in cells:
        cell, change = _with_nearest(planned) if planned.kind == "chaos" else (planned, "")
        reason = _why_not(cell, engine, has_fault_hosts=has_fault_hosts) if cell.kind == "chaos" else ""
        if reason:
            left_out.append((reason, cell.record.scenario or ""))
            continue
        kept.append(cell)
        if change:
            changed.append((change, cell.record.scenario or ""))
    lines = _by_reason(left_out)
    if lines and not kept:
        raise UsageError(f"nothing is left to run: {'; '.join(lines)}")
    for line in lines:
        print_fitting(f"left out: {line}", to_stderr=True, hanging=2)
    for line in _by_reason(changed):
        print_fitting(f"changed: {line}", to_stderr=True, hanging=2)
    return tuple(kept)


def property_problem(cell: PlannedCell) -> str:
    """What the cell's client says about its settings, before anything is started for it. Empty if nothing is wrong."""
    return _problem_of(
        cell.client,
        tuple(sorted(cell.properties.items())),
        is_transactional=cell.workload.is_transactional,
        has_readers=bool(cell.workload.reader_groups),
    )


def _by_reason(found: Iterable[tuple[str, str]]) -> list[str]:
    """Scenarios by reason, each once and in order."""
    scenarios: dict[str, dict[str, None]] = {}
    for reason, scenario in found:
        scenarios.setdefault(reason, {})[scenario] = None
    return [f"{', '.join(names)} ({reason})" for reason, names in scenarios.items()]


def _why_not(cell: PlannedCell, engine: str, *, has_fault_hosts: bool) -> str:
    """Why the cell cannot run; empty if it can."""
    kinds = {"reference", "docker"} if engine == "docker" else {engine}  # the same brokers, in containers
    if kinds.isdisjoint(cell.engines) and not (has_fault_hosts and cell.is_for_fault_hosts):
        if has_fault_hosts:
            return f"needs {_STARTED}: it acts on more than links and brokers' processes"
        if cell.is_for_fault_hosts and engine == "external":
            return f"needs --fault-hosts or {_STARTED}: it acts on brokers' processes or links between them"
        if engine == "external":
            return f"needs {_STARTED}: it acts on more than the clients' links, or sets brokers up"
        return f"needs --cluster {' or '.join(cell.engines)}"
    if engine == "kafka" and (problem := release_problem(cell)):
        return problem
    if cell.clients and cell.client not in cell.clients:
        if client_of(cell.client) not in cell.clients:
            return f"needs --client {' or '.join(cell.clients)}"
        if problem := _beyond_a_program(cell):
            return f"{problem}; the version that is built in can: --client {client_of(cell.client)}"
    if problem := load_scenario(cell.scenario_reference).host_problem(engine):
        return f"not on this host: {problem}"
    return property_problem(cell)


def _beyond_a_program(cell: PlannedCell) -> str:
    """What a program that speaks the client protocol is not asked to do yet. Empty if the cell has nothing of that."""
    readers = cell.workload.readers
    if any(reader.copies for reader in readers):
        return f"{cell.client} is a program, and programs are no transactional copiers"
    if any(reader.mode == "share" for reader in readers):
        return f"{cell.client} is a program, and programs are no members of share groups"
    if cell.security.protocol not in ("", "plaintext"):
        return f"{cell.client} is a program, and programs have no TLS and no SASL"
    return ""


def _with_nearest(cell: PlannedCell) -> tuple[PlannedCell, str]:
    """The cell with settings that its client has, and what was changed. The report's page says it too."""
    # Then the scenario wants to see overtaking.
    about = (_IN_FLIGHT,) if cell.record.expect.reordered in _FORETOLD else ()
    try:
        properties, changes = nearest_properties(cell.client, cell.properties, as_they_are=about)
    except ClientError:
        return cell, ""  # the client is not installed; property_problem reports that
    if not changes:
        return cell, ""
    change = f"client {cell.client}: {', '.join(changes)}"
    record = replace(
        cell.record,
        properties=properties,
        knobs=knobs_of(properties),
        note=f"{cell.record.note} With {change}.".lstrip(),
    )
    return replace(cell, record=record), change


@functools.cache
def _problem_of(
    client: str, properties: tuple[tuple[str, str], ...], *, is_transactional: bool, has_readers: bool
) -> str:
    try:
        check_properties(client, dict(properties))
        if is_transactional:
            check_transactions(client, dict(properties), has_readers=has_readers)
    except (ClientError, PropertyError) as error:
        return str(error)
    return ""
