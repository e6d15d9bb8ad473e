"""Gathers the run logs that load hosts still have of a run whose harness died, compacts them, and notes it in
cell.json.

A cell that had not ended has all of its segments at the hosts still, because they are forgotten only when the harness
has made them its own. So they are gathered whole and compacted anew. While a host is missing, or has less than the run
knows that it had, nothing is compacted: what has come stays where it is, and the next try goes on from there. Shown by
tests/harness/test_harness_gather.py and test_harness_host_evidence.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from harness.errors import EnvironmentFault
from harness.run.directory.recover import recover_cell, recover_run
from harness.run.hosts.host_evidence import missing_of, told_of_hosts
from runlog.records.cell import CellRecord
from runlog.records.documents import read_cell, read_run_record, write_cell
from runlog.records.hosts import LoadHostRecord
from runlog.streams.compact import CompactionError, compact_anew

Say = Callable[[str], None]


class Hosts(Protocol):
    """harness.run.hosts.load_hosts.LoadHosts, which `harness report` need not import."""

    def gather(
        self, run_dir: Path, cell_id: str, names: Sequence[str], should_stop: Callable[[], bool]
    ) -> tuple[LoadHostRecord, ...]: ...

    def forget(self) -> None: ...


def cells_to_gather(run_dir: Path) -> list[CellRecord]:
    """Those that had not ended and of which load hosts have something."""
    found = []
    for path in sorted((run_dir / "cells").glob("*/cell.json")):
        try:
            record = read_cell(run_dir, path.parent.name)
        except ValueError:
            continue  # the analysis says what is wrong with it
        outcome = record.outcome
        if outcome.ended_us is None and any(not host.is_gathered for host in outcome.load_hosts):
            found.append(record)
    return found


def hosts_to_gather(run_dir: Path) -> list[str]:
    """Names of the load hosts that have something of the run."""
    return sorted({host.name for cell in cells_to_gather(run_dir) for host in cell.outcome.load_hosts})


def never_gathered(run_dir: Path) -> list[str]:
    """A line for each load host whose run log was not gathered when its cell ended. Those of the others are compacted
    and forgotten, so it cannot be added any more."""
    found = []
    for path in sorted((run_dir / "cells").glob("*/cell.json")):
        try:
            outcome = read_cell(run_dir, path.parent.name).outcome
        except ValueError:
            continue
        if outcome.ended_us is not None:
            found += [
                f"{path.parent.name}: load host {host.name}: {host.reason or 'its run log was not gathered'}"
                for host in outcome.load_hosts
                if not host.is_gathered
            ]
    return found


def gather_late(
    run_dir: Path, cells: list[CellRecord], hosts: Hosts, say: Say, should_stop: Callable[[], bool]
) -> None:
    """EnvironmentFault names the hosts whose run logs are not here yet."""
    t0_ns = read_run_record(run_dir).t0_monotonic_ns
    missing: dict[str, str] = {}
    for record in cells:
        names = [host.name for host in record.outcome.load_hosts]
        came = hosts.gather(run_dir, record.cell_id, names, should_stop)
        gathered = {host.name: host for host in _held_against_run(run_dir, record, came)}
        for host in gathered.values():
            say(f"{record.cell_id}: {_words(host)}")
        not_here = {name: host.reason for name, host in gathered.items() if not host.is_gathered}
        if not not_here:
            try:
                say(_make_its_own(run_dir, record.cell_id, gathered, t0_ns))
                hosts.forget()
            except CompactionError as error:
                not_here = {record.cell_id: str(error)}
        missing.update(not_here)
    if missing:
        reasons = "; ".join(f"{name}: {why}" for name, why in sorted(missing.items()))
        raise EnvironmentFault(
            f"not all run logs could be gathered ({reasons}): start `harness worker` on these hosts with the same "
            "--name and --spool as before, and try again; what has come is kept"
        )
    for line in recover_run(run_dir):  # the cells that no load host had a part in
        say(line)


def _held_against_run(run_dir: Path, record: CellRecord, came: Sequence[LoadHostRecord]) -> tuple[LoadHostRecord, ...]:
    """Who had more than what has come was not gathered."""
    told = told_of_hosts(run_dir, record.cell_id)
    shares = {host.name: host for host in record.outcome.load_hosts}
    held = []
    for host in came:
        why = missing_of(run_dir, record.cell_id, shares[host.name], told) if host.is_gathered else ""
        held.append(replace(host, is_gathered=False, reason=f"its run log is not whole: {why}") if why else host)
    return tuple(held)


def _make_its_own(run_dir: Path, cell_id: str, gathered: Mapping[str, LoadHostRecord], t0_ns: int | None) -> str:
    """Compact all segments, in the place of what an earlier recovery made of some of them. On disk when it returns,
    because the hosts forget their part then."""
    line = recover_cell(run_dir, cell_id, t0_ns, compact_anew)
    record = read_cell(run_dir, cell_id)
    told = tuple(
        replace(host, files=gathered[host.name].files, bytes=gathered[host.name].bytes, is_gathered=True)
        for host in record.outcome.load_hosts
    )
    write_cell(run_dir, replace(record, outcome=replace(record.outcome, load_hosts=told)))
    os.sync()
    return line


def _words(host: LoadHostRecord) -> str:
    if host.is_gathered:
        return f"load host {host.name}: {host.files} files, {host.bytes:,} bytes brought, all verified"
    return f"load host {host.name}: {host.reason}"
