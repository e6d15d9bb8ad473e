"""`harness worker` and `harness load-keys`: a load host, and the keys of the link to it; and what `harness doctor` says
of load hosts.

The worker itself is a process of `workloads` (workloads/hosts/agent.py). This command checks what it is given, starts
it, shows what it says, and runs the broker that stores nothing when a ceiling is measured.
Shown by tests/harness/test_harness_load_hosts.py.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from broker.door.addresses import AddressError, parse_address
from chaos.lease import Lease, default_root
from harness import VERSION
from harness.cleanup_steps import undo_all
from harness.clusters.kafka.jars import cache_directory
from harness.clusters.security import read_properties
from harness.errors import EnvironmentFault, ExitCode, HarnessError, UsageError
from harness.lease_root import lease_root
from harness.run.generator.client_runtime import client_runtime
from harness.run.hosts.fault_hosts import FaultHosts, fault_host_line
from harness.run.hosts.load_hosts import LoadHosts, LoadHostsRequest, host_line
from harness.run.hosts.store_copy import store_of
from harness.run.preparation.null_broker import NullBroker
from harness.terminal.operator_log import Saying
from harness.terminal.signals import StopFlag, signals_set
from harness.terminal.tables import fitting, print_fitting
from workloads.clients import client_names
from workloads.clients.process.build import RECIPES, is_built
from workloads.clients.process.versions.installing import installed_versions
from workloads.clients.process.versions.names import SEPARATOR
from workloads.clients.process.versions.table import VERSIONS
from workloads.hosts.keys import KeyFileError, read_key, write_keys
from workloads.hosts.may_connect import parse_may_connect

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_Hosts = TypeVar("_Hosts", LoadHosts, FaultHosts)
_HANGING: Final = len("missing  ")  # as `harness doctor` has it
_END_S: Final = 30.0
_MODULE_OF: Final = {"confluent": "confluent_kafka", "aiokafka": "aiokafka", "kafka_python": "kafka"}


def make_keys(directory: Path) -> None:
    try:
        master, worker = write_keys(directory)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}" if error.strerror else str(error)) from error
    print(master)
    print(worker)
    print_fitting("keep the first with the harness, copy the second to each load host", to_stderr=True)


def run_worker(
    master: str,
    key_file: Path,
    name: str | None,
    client_config: Path | None,
    spool: Path | None,
    allow_faults: Path | None = None,
    store: str | None = None,
    may_connect: str | None = None,
) -> ExitCode:
    """Until Ctrl-C or SIGTERM, or until its master refuses it."""
    try:
        host, port = parse_address(master)
    except AddressError as error:
        raise UsageError(f"--master: {error}") from error
    if not host:
        raise UsageError(f"--master: expected host:port, got {master!r}")
    try:
        key = read_key(key_file, "worker")
    except KeyFileError as error:
        raise UsageError(f"--key: {error}") from error
    own_name = name or socket.gethostname()
    if not _NAME.fullmatch(own_name):
        raise UsageError(f"--name: letters, digits, dot, dash and underscore, got {own_name!r}")
    if store is not None:
        store_of(store)  # what is wrong with it is said now
    # With a spool elsewhere only the null broker needs it, and says so.
    root = lease_root() if spool is None else default_root(os.environ)
    if allow_faults is not None:
        if any(option is not None for option in (client_config, spool, store, may_connect)):
            raise UsageError(
                "--allow-faults makes a fault host, which sends no load: leave --client-config, --may-connect, "
                "--spool, --store out"
            )
        from harness.cli.hosts.fault_worker import run_fault_worker

        return run_fault_worker(host, port, key, own_name, allow_faults, root.parent / "fault-leases")
    permitted = _permitted(client_config, may_connect)
    own_spool = (spool or root.parent / "load-spool") / own_name
    _require_spool(own_spool)
    config = {
        "master_host": host,
        "master_port": port,
        "key": key.document(),
        "name": own_name,
        "version": VERSION,
        "spool": str(own_spool),
        "access": {} if client_config is None else dict(read_properties(client_config)),
        "may_connect": permitted,
        "runtimes": _runtimes(),
        "store": store or "",
    }
    stop = StopFlag()
    with signals_set(stop):
        return _Worker(config, root, stop).run()


def _permitted(client_config: Path | None, may_connect: str | None) -> tuple[str, ...]:
    """The brokers that the operator of this host has named. UsageError if credentials could go anywhere."""
    if may_connect is None:
        if client_config is not None:
            raise UsageError(
                "--client-config needs --may-connect HOST:PORT[,HOST:PORT...], the brokers that may get these "
                "credentials: a master names the brokers of each run, and clients here log in to them"
            )
        return ()
    try:
        return parse_may_connect(may_connect)
    except AddressError as error:
        raise UsageError(f"--may-connect: {error}") from error


def _require_spool(directory: Path) -> None:
    """UsageError where no run log can be kept: told before a run relies on this host."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return
    except OSError as error:
        raise UsageError(
            f"--spool {directory.parent}: no run log can be kept in {directory}: {error.strerror}; give a directory "
            "that can be written"
        ) from error


def show_load_hosts(request: LoadHostsRequest) -> ExitCode:
    """For `harness doctor`: waits for the load hosts and prints a line for each."""
    return _shown(LoadHosts, request, "load", lambda hosts: [host_line(host) for host in hosts.look().hosts])


def show_fault_hosts(request: LoadHostsRequest) -> ExitCode:
    """For `harness doctor`: waits for the fault hosts and prints a line for each."""
    return _shown(FaultHosts, request, "fault", lambda hosts: [fault_host_line(host) for host in hosts.look().hosts])


def _shown(
    make_hosts: Callable[[LoadHostsRequest, str, Path, int], _Hosts],
    request: LoadHostsRequest,
    kind: str,
    lines_of: Callable[[_Hosts], list[str]],
) -> ExitCode:
    stop = StopFlag()
    with tempfile.TemporaryDirectory() as directory, signals_set(stop):
        hosts = make_hosts(request, f"doctor-{os.getpid()}", Path(directory) / "hub.stderr", time.monotonic_ns())
        try:
            hosts.start(stop.is_set, show_missing)
            for line in lines_of(hosts):
                show_host(kind, line)
        except HarnessError as error:
            print_fitting(f"FAIL     {kind} hosts: {error}", hanging=_HANGING)
            return ExitCode.ENVIRONMENT
        finally:
            hosts.stop()
    return ExitCode.INTERRUPTED if stop.is_set() else ExitCode.PASS


def show_missing(line: str) -> None:
    """What is waited for."""
    print_fitting(line, to_stderr=True, hanging=2)


def show_host(kind: str, line: str) -> None:
    print_fitting(f"ok       {kind} host {line}", hanging=_HANGING)


def said_line(text: str) -> str:
    """What a worker says, as its terminal shows it."""
    return fitting(f"worker: {text}", sys.stderr, hanging=2)


def _runtimes() -> dict[str, dict[str, str]]:
    """The clients that work here, each with what it needs beside its settings."""
    found: dict[str, dict[str, str]] = {}
    for client in client_names():
        module = _MODULE_OF.get(client)
        if module is not None and importlib.util.find_spec(module) is None:
            continue
        if client in RECIPES and not is_built(client, cache_directory()):
            continue  # a worker that starts builds nothing
        try:
            found[client] = client_runtime(client)
        except HarnessError:  # no Java or no jars: a plan for this client is refused with its name
            continue
    for client in VERSIONS:
        for version in installed_versions(client, cache_directory()):
            found[f"{client}{SEPARATOR}{version}"] = client_runtime(f"{client}{SEPARATOR}{version}")
    return found


class _Worker:
    def __init__(self, config: dict[str, Any], lease_root: Path, stop: StopFlag) -> None:
        self._stop, self._lease_root = stop, lease_root
        self._saying = Saying(shape=said_line)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "workloads", "--agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._answer(config)
        self._broker: NullBroker | None = None
        self._directory = tempfile.TemporaryDirectory()
        self._lease: Lease | None = None

    def run(self) -> ExitCode:
        watcher = threading.Thread(target=self._end_on_stop, daemon=True)
        watcher.start()
        try:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self._take(json.loads(line))
            code = self._process.wait(timeout=_END_S)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            for problem in undo_all([self._end_broker, self._directory.cleanup]):
                self._saying.say(f"at its end: {type(problem).__name__}: {problem}")
            self._saying.close()
        if self._stop.is_set():
            return ExitCode.INTERRUPTED
        if code == int(ExitCode.ENVIRONMENT):
            raise EnvironmentFault("its master refused this load host")
        return ExitCode.PASS if code == 0 else ExitCode.HARNESS_ERROR

    def _end_on_stop(self) -> None:
        while self._process.poll() is None:
            if self._stop.is_set():
                assert self._process.stdin is not None
                self._process.stdin.close()
                return
            time.sleep(0.1)

    def _take(self, said: dict[str, Any]) -> None:
        if "say" in said:
            self._saying.say(str(said["say"]))
        elif said.get("ask") == "broker":
            self._answer(self._broker_for(str(said["topic"]), int(said["partitions"])))
        elif said.get("ask") == "release":
            self._end_broker()

    def _broker_for(self, topic: str, partitions: int) -> dict[str, Any]:
        """A topic on a broker that stores nothing, on this host. It runs until a cell begins."""
        try:
            if self._broker is None:
                self._lease = self._lease or Lease(self._lease_root)
                broker = NullBroker(Path(self._directory.name) / "cluster", lease=self._lease)
                broker.__enter__()
                self._broker = broker
            self._broker.create_topic(topic, partitions)
        except (HarnessError, OSError) as error:
            return {"problem": str(error)}
        return {"bootstrap_servers": self._broker.bootstrap_servers}

    def _end_broker(self) -> None:
        if self._broker is not None:
            self._broker.__exit__(None, None, None)
            self._broker = None
        if self._lease is not None:
            self._lease.close()
            self._lease = None

    def _answer(self, document: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(document).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            return  # it has ended: its exit code tells why
