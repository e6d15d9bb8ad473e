"""`harness gather`: the run logs that load hosts still have of a run whose harness died.

It waits for the load hosts that the cells of the run name. harness/run/gather_late.py says what it does with their run
logs. Shown by tests/harness/test_harness_gather.py.
"""

from __future__ import annotations

import time
from pathlib import Path

from harness.errors import EnvironmentFault, ExitCode, UsageError
from harness.run.gather_late import cells_to_gather, gather_late, hosts_to_gather
from harness.run.load_hosts import LoadHosts, load_hosts_request
from harness.run.recover import refuse_while_it_goes_on
from harness.run.rundir import check_run_directory
from harness.run.stop import StopFlag, signals_set
from harness.run.terminal_tables import print_fitting
from runlog.records.documents import read_run_record


def gather_run(directory: Path, listen: str, key_file: Path) -> ExitCode:
    """PASS also if there is nothing to gather. EnvironmentFault names the hosts that are missing."""
    check_run_directory(directory)
    run_dir = directory.resolve()
    run = read_run_record(run_dir)
    refuse_while_it_goes_on(run_dir, run)
    cells = cells_to_gather(run_dir)
    names = hosts_to_gather(run_dir)
    if not names:
        _say(f"{directory}: no load host has anything of this run that is not here")
        return ExitCode.PASS
    if run.mark is None:
        raise UsageError(f"{directory}: its manifest does not say under which name load hosts keep its run log")
    request = load_hosts_request(len(names), listen, key_file)
    stop = StopFlag()
    with signals_set(stop):
        hosts = LoadHosts(request, run.mark, run_dir / "load.stderr.log", time.monotonic_ns())
        try:
            hosts.start(stop.is_set, _say, names)
            if stop.is_set():
                return ExitCode.INTERRUPTED
            gather_late(run_dir, cells, hosts, _say, stop.is_set)
        except EnvironmentFault:
            if stop.is_set():
                return ExitCode.INTERRUPTED
            raise
        finally:
            hosts.stop()
    _say(f"`harness report {directory}` shows what was measured")
    return ExitCode.PASS


def _say(line: str) -> None:
    if line:
        print_fitting(line, to_stderr=True, hanging=2)
