"""Load from other hosts: the hub process of a run, who is there, and each cell's load as any other load process.

The hub (`python -m workloads --hub`) is Locust's master and lives as long as the run. What it tells are the events of a
load process, and beside them what became of each load host's share. Shown by tests/harness/test_harness_load_hosts.py.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from broker.door.addresses import AddressError, format_address, parse_address
from harness import VERSION
from harness.errors import CellError, EnvironmentFault, LoadHostsLost, UsageError
from harness.run.generator.workload_process import WorkloadProcess
from harness.run.hosts.host_evidence import missing_of, told_of_hosts
from harness.run.hosts.store_copy import RunCopy, store_of
from runlog.files.store import Store
from runlog.records.hosts import HostState, LoadHostRecord
from runlog.records.load import CeilingsTold, HostCeiling, HostsTold, LoadEnded, LoadError, LoadEvent
from workloads.hosts.keys import KeyFileError, LinkKey, read_key

WAIT_S: Final = 300.0  # Load hosts have this time to come. It is longer than a worker waits between two tries.
GATHER_STOP_S: Final = 3_700.0  # the hub has limits of its own, for hosts that give nothing
CEILING_S: Final = 480.0  # the hub answers before
PREPARE_S: Final = 150.0  # a bit more than the hub waits for its hosts
STOP_S: Final = 10.0  # the hub waits for hosts that forget a cell, not as long
_LOOK_S: Final = 0.5
_COMMAND: Final = (sys.executable, "-m", "workloads", "--hub")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadHostsRequest:
    """What the command line asked for."""

    count: int
    listen_host: str
    listen_port: int
    key: LinkKey
    store: Store | None = None  # where load hosts put their run logs; none: they come over the link


def load_hosts_request(
    count: int, listen: str, key_file: Path | None, store: str | None = None, *, option: str = "--load"
) -> LoadHostsRequest:
    """UsageError for an address, a key or a store that cannot be used. `option`: how the options' names begin."""
    try:
        host, port = parse_address(listen)
    except AddressError as error:
        raise UsageError(f"{option}-listen: {error}") from error
    if not host:
        raise UsageError(f"{option}-listen: expected host:port, got {listen!r}")
    if key_file is None:
        raise UsageError(f"{option}-hosts needs --load-key master.key: `harness load-keys DIR` makes a pair of keys")
    try:
        key = read_key(key_file, "master")
    except KeyFileError as error:
        raise UsageError(f"--load-key: {error}") from error
    return LoadHostsRequest(
        count=count, listen_host=host, listen_port=port, key=key, store=None if store is None else store_of(store)
    )


def _nothing() -> None:
    """While an answer is waited for."""


class LoadHosts:
    """The hub of one run. `start` waits until all load hosts are there."""

    def __init__(
        self,
        request: LoadHostsRequest,
        run_id: str,
        stderr_path: Path,
        t0_monotonic_ns: int,
        copy: RunCopy | None = None,
    ) -> None:
        self._request, self._copy = request, copy
        self._hub = WorkloadProcess(stderr_path, _COMMAND)
        self._say(
            {
                "listen_host": request.listen_host,
                "listen_port": request.listen_port,
                "key": request.key.document(),
                "version": VERSION,
                "run_id": run_id,
                "t0_monotonic_ns": t0_monotonic_ns,
                "store": "" if copy is None else copy.token,
            }
        )
        self.present: tuple[LoadHostRecord, ...] = ()

    def start(
        self, should_stop: Callable[[], bool], say: Callable[[str], None], names: Collection[str] = frozenset()
    ) -> None:
        """EnvironmentFault if they do not come, with what kept them away as far as it is known. `names`: those that
        must be among them."""
        try:
            self._hub.wait_ready(should_stop=should_stop)
        except CellError as error:
            raise EnvironmentFault(str(error)) from error
        deadline_s, told = time.monotonic() + WAIT_S, ""
        while not should_stop():
            found = self.look()
            absent = sorted(set(names) - {host.name for host in found.hosts})
            if (
                not absent
                and len(found.hosts) >= self._request.count
                and all(host.clock is not None and not host.clock.problem for host in found.hosts)
            ):
                say("load hosts: " + "; ".join(host_line(host) for host in found.hosts))
                return
            line = f"waiting for load hosts: {len(found.hosts)} of {self._request.count}"
            line += "".join(f"; {reason}" for reason in (*map(_not_there, absent), *found.refused))
            if line != told:
                is_first, told = not told, line
                say(line)
                if is_first:
                    say(f"for at most {WAIT_S:.0f} s; on each: {self._command()}")
            if time.monotonic() > deadline_s:
                where = format_address(self._request.listen_host, self._request.listen_port)
                raise EnvironmentFault(
                    f"{len(found.hosts)} of {self._request.count} load hosts came to {where} within {WAIT_S:.0f} s"
                    + "".join(f"; {reason}" for reason in (*map(_not_there, absent), *found.refused))
                    + f"; start {self._command()} on each"
                )
            time.sleep(_LOOK_S)

    def _command(self) -> str:
        host = self._request.listen_host
        every = host in ("0.0.0.0", "::", "")
        where = format_address("THIS-HOST" if every else host, self._request.listen_port)
        return f"`harness worker --key worker.key --master {where}`"

    def look(self) -> HostsTold:
        """Who is there now. EnvironmentFault if the hub has ended."""
        self._say({"do": "hosts"})
        found: HostsTold = self._answer(HostsTold, 30.0)
        self.present = found.hosts
        return found

    def measure_ceilings(self, plan: Mapping[str, Any]) -> tuple[HostCeiling, ...]:
        """What each host reaches by itself with its share of this plan, all at the same time."""
        self._say({"do": "certify", "plan": dict(plan)})
        found: CeilingsTold = self._answer(CeilingsTold, CEILING_S)
        return found.ceilings

    def gather(
        self, run_dir: Path, cell_id: str, names: Sequence[str], should_stop: Callable[[], bool]
    ) -> tuple[LoadHostRecord, ...]:
        """What the load hosts have of a cell whose harness died, into its directory. What has come when it is stopped
        stays."""
        self._say({"do": "gather", "run_dir": str(run_dir), "cell_id": cell_id, "hosts": list(names)})

        def stop_if_asked() -> None:
            if should_stop():
                self._say({"do": "stop"})

        found: HostsTold = self._answer(HostsTold, GATHER_STOP_S, stop_if_asked)
        return found.hosts

    def forget(self) -> None:
        """What was gathered last may go at the load hosts."""
        self._say({"do": "forget", "but": []})

    def take(self, *, all_needed: bool) -> HubLoad:
        """The load of the next cell. LoadHostsLost if nobody is left, or not all are where all are needed."""
        there = len(self.look().hosts)
        if not there:
            raise LoadHostsLost("no load host is left")
        if all_needed and there < self._request.count:
            raise LoadHostsLost(
                f"{self._request.count - there} of {self._request.count} load hosts were lost, and the suite says "
                "lost_load_host: end"
            )
        return HubLoad(self._hub, self._copy)

    def stop(self) -> None:
        """The hub first sees that load hosts forget what they were told to."""
        self._hub.finish(STOP_S)

    def _say(self, document: Mapping[str, Any]) -> None:
        self._hub.say(document)

    def _answer(self, kind: type[Any], timeout_s: float, meanwhile: Callable[[], object] = _nothing) -> Any:
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            meanwhile()
            event = self._hub.next_event(0.2)
            if isinstance(event, kind):
                return event
            if isinstance(event, LoadError | LoadEnded):
                raise EnvironmentFault(f"the hub of the load hosts: {self._hub.problem_of(event)}")
        raise EnvironmentFault(f"the hub of the load hosts gave no answer within {timeout_s:.0f} s")


class HubLoad:
    """One cell's load on load hosts, in the place of a WorkloadProcess. `hosts` is what became of them, after `stop`.
    If nobody lives to say that, it is who had which share, and none of them was gathered."""

    carries_access = False  # credentials stay where they are: each worker has its own --client-config
    prepare_s = PREPARE_S
    is_here = False

    def __init__(self, hub: WorkloadProcess, copy: RunCopy | None = None) -> None:
        self._hub, self._copy = hub, copy
        self._plan: Mapping[str, Any] = {}
        self._has_begun = False
        self._is_over = False
        self.hosts: tuple[LoadHostRecord, ...] = ()

    @property
    def pid(self) -> int:
        return self._hub.pid

    def wait_ready(self, timeout_s: float = 60.0, should_stop: Callable[[], bool] = lambda: False) -> None:
        self._hub.wait_ready(timeout_s, should_stop)

    def begin(self, plan: Mapping[str, Any]) -> None:
        self._has_begun, self._plan = True, plan
        self._hub.say({"do": "cell", "plan": {**plan, "runtime": {}, "web_port": None}})

    def next_event(self, timeout_s: float) -> LoadEvent | None:
        event = self._hub.next_event(timeout_s)
        if isinstance(event, HostsTold):
            self.hosts = event.hosts or self.hosts
            if not event.is_beginning:
                self._is_over = True
                return None
        return event

    def ask_to_stop(self) -> None:
        self._hub.say({"do": "stop"})

    def forget(self) -> None:
        """What was gathered in this cell may go at the load hosts."""
        with contextlib.suppress(CellError):  # the hub has ended: it stays there, and is in nobody's way
            self._hub.say({"do": "forget", "but": [host.name for host in self.hosts if not host.is_gathered]})

    def problem_of(self, event: LoadError | LoadEnded) -> str:
        return self._hub.problem_of(event)

    def describe_end(self) -> str:
        return self._hub.describe_end()

    def is_running(self) -> bool:
        return self._hub.is_running() and not self._is_over

    def stop(self, grace_s: float) -> int:
        """Until the load has ended and its run log was gathered, or the hub has given up on a host."""
        if not self._has_begun:
            return 0
        with contextlib.suppress(CellError):
            self.ask_to_stop()
        deadline_s = time.monotonic() + GATHER_STOP_S
        while not self._is_over and time.monotonic() < deadline_s:
            if isinstance(self.next_event(0.2), LoadEnded):
                break
        self._fetch_stored()
        self._hold_against_run()
        return 0

    def _hold_against_run(self) -> None:
        """A host that has less than it said that it had was not gathered, whatever it listed."""
        run_dir, cell_id = Path(self._plan["run_dir"]), str(self._plan["cell_id"])
        told = told_of_hosts(run_dir, cell_id)
        self.hosts = tuple(
            _not_whole(host, why) if host.is_gathered and (why := missing_of(run_dir, cell_id, host, told)) else host
            for host in self.hosts
        )

    def _fetch_stored(self) -> None:
        """What load hosts have put into the store. If the store does not give it back, it comes over the link."""
        if self._copy is None:
            return
        fetched = tuple(map(self._with_stored, self.hosts))
        lacking = [host.name for host in fetched if host.files_stored and not host.is_gathered]
        if lacking and self._hub.is_running():
            with contextlib.suppress(CellError):
                by_link = self._by_link(lacking)
                fetched = tuple(by_link.get(host.name, host) for host in fetched)
        self.hosts = fetched

    def _with_stored(self, host: LoadHostRecord) -> LoadHostRecord:
        assert self._copy is not None
        if not host.files_stored:
            return host
        found = self._copy.fetch(str(self._plan["cell_id"]), host.name)
        if found.problem or found.files < host.files_stored:
            return _not_gathered(host, found.problem or "the store has lost some of its run log")
        return replace(host, files=(host.files or 0) + host.files_stored, bytes=(host.bytes or 0) + found.bytes)

    def _by_link(self, names: list[str]) -> dict[str, LoadHostRecord]:
        """Records of the hosts whose run log came after all."""
        cell = {"run_dir": str(self._plan["run_dir"]), "cell_id": self._plan["cell_id"], "hosts": names}
        self._hub.say({"do": "gather", **cell})
        deadline_s = time.monotonic() + GATHER_STOP_S
        while time.monotonic() < deadline_s:
            event = self._hub.next_event(0.2)
            if isinstance(event, LoadEnded):
                break
            if isinstance(event, HostsTold):
                before = {host.name: host for host in self.hosts}
                return {
                    late.name: replace(before[late.name], files=late.files, files_stored=0, bytes=late.bytes)
                    for late in event.hosts
                    if late.is_gathered
                }
        return {}

    def kill(self) -> None:
        self._hub.kill()


def _not_gathered(host: LoadHostRecord, why: str) -> LoadHostRecord:
    """What else was wrong with it stays its reason."""
    if host.state is HostState.DONE:
        host = replace(host, state=HostState.FAILED, reason=f"its run log could not be fetched: {why}")
    return replace(host, is_gathered=False)


def _not_whole(host: LoadHostRecord, why: str) -> LoadHostRecord:
    why = f"its run log is not whole: {why}"
    if host.state is HostState.DONE:
        return replace(host, state=HostState.FAILED, reason=why, is_gathered=False)
    return replace(host, reason=f"{host.reason}; {why}", is_gathered=False)


def _not_there(name: str) -> str:
    return f"{name} is not there"


def host_line(host: LoadHostRecord) -> str:
    """A load host in words: version, cores, how far its clock is off."""
    clock = host.clock
    if clock is None or clock.problem:
        offset = f"clock: {clock.problem if clock else 'not known'}"
    else:
        offset = f"clock {clock.offset_us / 1e3:+,.3f} ms, within {clock.error_us / 1e3:.3f} ms"
    return f"{host.name}: version {host.version}, {host.cores} cores, {offset}"


def problems_of(hosts: tuple[LoadHostRecord, ...]) -> tuple[str, ...]:
    """What was wrong with them in a cell, by name."""
    return tuple(f"load host {host.name}: {host.reason}" for host in hosts if host.state is not HostState.DONE)


def added_up(ceilings: tuple[HostCeiling, ...], alive: frozenset[str]) -> float:
    """Records a second of those that are there. ValueError names a host without a ceiling."""
    for ceiling in ceilings:
        if ceiling.why and (not ceiling.host or ceiling.host in alive):
            raise ValueError(f"load host {ceiling.host}: {ceiling.why}" if ceiling.host else ceiling.why)
    return round(sum(each.records_per_s for each in ceilings if each.host in alive), 1)
