"""`harness gather`: the run logs that load hosts still have of a run whose harness died.

It takes them from the store of the run, if the run had one, and waits for the load hosts that the cells of the run
name, if a key is given. A run directory that was lost is made anew from the store. harness/run/hosts/gather_late.py and
store_rebuild.py say how. Shown by tests/harness/test_harness_gather.py and test_harness_store.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentFault, ExitCode, UsageError
from harness.run.directory.recover import refuse_while_it_goes_on
from harness.run.directory.run_directory import PRIVATE_DIRECTORY, check_run_directory
from harness.run.hosts.gather_late import Hosts, cells_to_gather, gather_late, hosts_to_gather, never_gathered
from harness.run.hosts.load_hosts import LoadHosts, load_hosts_request
from harness.run.hosts.store_copy import store_of
from harness.run.hosts.store_rebuild import StoredHosts, every_file, find_run, rebuild
from harness.terminal.signals import StopFlag, signals_set
from harness.terminal.tables import print_fitting
from runlog.files.paths import manifest_path
from runlog.records.documents import read_run_record
from runlog.records.run import RunRecord

_NEVER: Final = (
    "a run log cannot be added to a cell that has ended: the cells above stay without it, and it stays in the spool of "
    "its load host"
)


def gather_run(
    directory: Path, listen: str, key_file: Path | None, store_url: str | None = None, run_id: str | None = None
) -> ExitCode:
    """PASS also if there is nothing to gather. EnvironmentFault names what is missing."""
    if store_url is not None:
        rebuild_directory(directory, store_url, run_id or directory.name, every_file)
    elif run_id is not None:
        raise UsageError("--run needs --load-store URL")
    check_run_directory(directory)
    run_dir = directory.resolve()
    run = read_run_record(run_dir)
    refuse_while_it_goes_on(run_dir, run)
    cells = cells_to_gather(run_dir)
    names = hosts_to_gather(run_dir)
    never = never_gathered(run_dir)
    if not names and not never:
        _say(f"{directory}: no load host has anything of this run that is not here")
        return ExitCode.PASS
    for line in never:
        _say(f"{line}; its cell has ended without it")
    if not names:
        raise EnvironmentFault(_NEVER)
    if run.mark is None:
        raise UsageError(f"{directory}: its manifest does not say under which name load hosts keep its run log")
    stop = StopFlag()
    with signals_set(stop):
        link = None if key_file is None else _Link(run_dir, run.mark, listen, key_file, stop)
        try:
            gather_late(run_dir, cells, _hosts(run, run.mark, names, link), _say, stop.is_set)
        except EnvironmentFault:
            if stop.is_set():
                return ExitCode.INTERRUPTED
            raise
        finally:
            if link is not None:
                link.close()
    _say(f"`harness report {directory}` shows what was measured")
    if never:
        raise EnvironmentFault(_NEVER)
    return ExitCode.PASS


def rebuild_directory(directory: Path, url: str, run_id: str, is_wanted: Callable[[str], bool]) -> None:
    """From the store alone. UsageError for a directory of something else."""
    store = store_of(url)
    if directory.exists() and any(directory.iterdir()) and not (directory / "cells").is_dir():
        raise UsageError(f"{directory}: exists and is no run directory; nothing was written into it")
    directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    mark = find_run(store, run_id)
    if manifest_path(directory).is_file() and read_run_record(directory).mark != mark:
        raise UsageError(f"{directory}: is the directory of another run than {run_id} in {url}")
    rebuild(store, mark, directory.resolve(), _say, is_wanted)


def _hosts(run: RunRecord, mark: str, names: Sequence[str], link: _Link | None) -> Hosts:
    """The sources of run logs: first the store, then the link, each only if there is one."""
    if run.store is not None:
        return StoredHosts(store_of(run.store), mark, None if link is None else link.open, _say)
    if link is None:
        raise UsageError("--load-key master.key is needed: this run had no store, so only its load hosts have it")
    return link.open(names)


class _Link:
    """To the load hosts; opened if somebody needs it."""

    def __init__(self, run_dir: Path, mark: str, listen: str, key_file: Path, stop: StopFlag) -> None:
        self._run_dir, self._mark, self._listen, self._key_file, self._stop = run_dir, mark, listen, key_file, stop
        load_hosts_request(1, listen, key_file)  # an address or a key that cannot be used is told before anything
        self._hosts: LoadHosts | None = None

    def open(self, names: Sequence[str]) -> Hosts:
        """EnvironmentFault if they do not come."""
        request = load_hosts_request(len(names), self._listen, self._key_file)
        self._hosts = LoadHosts(request, self._mark, self._run_dir / "load.stderr.log", time.monotonic_ns())
        self._hosts.start(self._stop.is_set, _say, names)
        if self._stop.is_set():
            raise EnvironmentFault("stopped while waiting for load hosts")
        return self._hosts

    def close(self) -> None:
        if self._hosts is not None:
            self._hosts.stop()


def _say(line: str) -> None:
    if line:
        print_fitting(line, to_stderr=True, hanging=2)
