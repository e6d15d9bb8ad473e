"""`harness doctor`: tries each part of the set-up for real. If something does not work, it names the fix.

If a part that the demo needs fails, the exit code is 3. An optional part is only reported.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from broker.door.batches import PURE_VARIABLE, use_compiled
from chaos.toxiproxy.lookup import ServerUnavailable, find_binary, start_embedded, start_real, use_server
from harness.clusters.base import ClusterKey
from harness.clusters.factory import build_cluster
from harness.clusters.kafka.jars import (
    cache_directory,
    check_java,
    fetched_releases,
    has_jars,
    jar_directory,
    java_command,
    java_major,
)
from harness.clusters.ports import is_free
from harness.clusters.proxies import check_proxy_choice
from harness.clusters.requests.admin import Admin
from harness.errors import ExitCode, HarnessError
from harness.kafka_releases import DEFAULT, Release, java_of
from harness.lease_root import lease_root
from harness.run.directory.reserved_space import try_keep_room
from harness.run.directory.run_directory import RUNS
from harness.terminal.tables import print_fitting
from workloads.clients.process.build import RECIPES, is_built, missing_tool, version_of
from workloads.clients.process.versions.installers import missing_tool as first_missing
from workloads.clients.process.versions.installing import installed_versions
from workloads.clients.process.versions.table import VERSIONS

_HANGING: Final = len("missing  ")
_JAVA_MIN: Final = 17
_LOAD_TIMEOUT_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`probe` returns what it found, or raises with the reason."""

    name: str
    needed: bool
    probe: Callable[[], str]
    fix: str


class CheckFailed(Exception):
    """The text says what was found instead."""


def examine(toxiproxy: str) -> ExitCode:
    """Prints a line a check: ok, missing (optional) or FAIL, and the fix."""
    check_proxy_choice(toxiproxy)
    code = ExitCode.PASS
    for check in _checks(toxiproxy):
        try:
            print_fitting(f"ok       {check.name}: {check.probe()}", hanging=_HANGING)
        except (
            CheckFailed,
            HarnessError,
            ServerUnavailable,
            OSError,
            ImportError,
            subprocess.SubprocessError,
        ) as error:
            word = "FAIL    " if check.needed else "missing "
            print_fitting(f"{word} {check.name}: {error}", hanging=_HANGING)
            print_fitting(f"{' ' * _HANGING}fix: {check.fix}", hanging=_HANGING + len("fix: "))
            if check.needed:
                code = ExitCode.ENVIRONMENT
    return code


def _checks(toxiproxy: str) -> list[Check]:
    install = "install the package again, from the checkout or the wheel that it came from"
    return [
        Check(
            name="loopback", needed=True, probe=_loopback, fix="Linux with all of 127.0.0.0/8 on lo: ip addr show lo"
        ),
        Check(
            name="run directory",
            needed=True,
            probe=_run_directory,
            fix="free some space, go to a directory that can be written, or give each run a --run-dir elsewhere",
        ),
        Check(
            name="state directory",
            needed=True,
            probe=lambda: f"{lease_root()} can be written",
            fix="set XDG_STATE_HOME to a directory that can be written",
        ),
        Check(
            name="Java for Spark", needed=True, probe=_java, fix="apt install openjdk-17-jre-headless, or set JAVA_HOME"
        ),
        Check(name="load process", needed=True, probe=_load_process, fix=install),
        Check(name="reference cluster", needed=True, probe=_reference_cluster, fix="see the stderr.log that it names"),
        Check(
            name="compiled record check",
            needed=False,
            probe=_compiled,
            fix="not needed: brokers check records in Python; where a C compiler is, an installation builds it",
        ),
        Check(name="embedded Toxiproxy", needed=True, probe=_embedded_toxiproxy, fix=install),
        Check(
            name="Toxiproxy server",
            needed=toxiproxy not in ("auto", "embedded"),
            probe=lambda: _toxiproxy(toxiproxy),
            fix=_toxiproxy_fix(toxiproxy),
        ),
        Check(
            name="client confluent",
            needed=False,
            probe=lambda: _import("confluent_kafka"),
            fix="pip install confluent-kafka",
        ),
        Check(
            name="client kafka_python",
            needed=False,
            probe=lambda: _import("kafka"),
            fix="pip install 'kafka-python>=2.2,<4'",
        ),
        Check(
            name="client aiokafka",
            needed=False,
            probe=lambda: _import("aiokafka"),
            fix="pip install 'aiokafka>=0.12,<1'",
        ),
        *(
            Check(name=f"client {name}", needed=False, probe=partial(_built_client, name), fix=recipe.fix)
            for name, recipe in RECIPES.items()
        ),
        *(
            Check(name=f"client {name}==VERSION", needed=False, probe=partial(_versions, name), fix=_tools_of(name))
            for name in VERSIONS
        ),
        *(
            Check(name=f"Apache Kafka {release}", needed=False, probe=partial(_kafka_jars, release), fix=_kafka_fix())
            for release in sorted({DEFAULT, *fetched_releases()})
        ),
    ]


def _toxiproxy_fix(choice: str) -> str:
    if choice not in ("auto", "embedded"):
        return f"start a Toxiproxy server at {choice}, or leave --toxiproxy out"
    go = "" if shutil.which("go") else "install Go, then "
    return f"not needed, the embedded server is used; to have it: {go}`make setup` in the checkout, or put it on PATH"


def _kafka_fix() -> str:
    """The fix for what is missing. Java is checked before."""
    maven = "" if shutil.which("mvn") else "apt install maven, then "
    return f"only for --cluster kafka: {maven}`harness run demo --cluster kafka` fetches the jars"


def _loopback() -> str:
    if not is_free("127.0.100.3", 0):
        raise CheckFailed("127.0.100.3 cannot be listened on")
    return "127.0.0.0/8 can be listened on"


def _run_directory() -> str:
    """Where a run goes that is given no --run-dir. What is tried leaves nothing there."""
    directory = (RUNS if RUNS.is_dir() else Path()).absolute()
    with tempfile.TemporaryDirectory(dir=directory, prefix=".doctor-") as scratch:
        if not try_keep_room(Path(scratch)):
            raise CheckFailed(f"there is no room on the disk of {directory}")
    found = os.statvfs(directory)
    return f"{directory} can be written, {found.f_bavail * found.f_frsize / 2**30:,.1f} GiB are free"


def _java() -> str:
    done = subprocess.run([java_command(), "-version"], capture_output=True, text=True, timeout=20)
    text = (done.stderr or done.stdout).splitlines()
    first = text[0] if text else "no output"
    number = first.partition('"')[2].partition(".")[0].partition('"')[0]
    if done.returncode != 0 or not number.isdigit() or int(number) < _JAVA_MIN:
        raise CheckFailed(f"{_JAVA_MIN} or newer is needed, found {first}")
    return first


def _load_process() -> str:
    from harness.run.generator.workload_process import WorkloadProcess

    with tempfile.TemporaryDirectory() as directory:
        process = WorkloadProcess(Path(directory) / "stderr.log")
        try:
            process.wait_ready(_LOAD_TIMEOUT_S)
        finally:
            process.stop(3.0)
    return "starts and says ready"


def _reference_cluster() -> str:
    with tempfile.TemporaryDirectory() as directory:
        key = ClusterKey(engine="reference", proxied=False, brokers=3, settings=())
        cluster = build_cluster(key, Path(directory), proxy_choice="embedded", lease=None, seed=0)
        try:
            cluster.start()
            admin = Admin(cluster.direct_addresses)
            admin.create_topic("doctor", partitions=1, replication_factor=3, config={})
            if not cluster.wait_healthy("doctor", timeout_s=10, replication_factor=3):
                raise CheckFailed("a topic got no full ISR within 10 s")
        finally:
            cluster.stop()
    return "three brokers start, elect a controller and replicate a topic"


def _compiled() -> str:
    if not use_compiled(True):
        raise CheckFailed("not built at the installation")
    return f"built, but {PURE_VARIABLE} is set" if os.environ.get(PURE_VARIABLE) else "in use by reference brokers"


def _embedded_toxiproxy() -> str:
    server = start_embedded()
    server.stop()
    return f"answers, version {server.version}"


def _toxiproxy(choice: str) -> str:
    if choice not in ("auto", "embedded"):
        return f"{choice} answers, version {use_server(choice).version}"
    binary = find_binary(None, [cache_directory() / "bin"])
    if binary is None:
        raise CheckFailed(f"no toxiproxy-server on PATH or in {cache_directory() / 'bin'}")
    server = start_real(binary)
    server.stop()
    return f"{binary} answers, version {server.version}"


def _import(module: str) -> str:
    found = importlib.import_module(module)
    return f"version {getattr(found, '__version__', 'unknown')}"


def _built_client(name: str) -> str:
    if is_built(name, cache_directory()):
        return f"built, version {version_of(name)}"
    if problem := missing_tool(name):
        raise CheckFailed(problem)
    return f"is built when it is used first, version {version_of(name)}"


def _versions(name: str) -> str:
    if (tool := first_missing(VERSIONS[name])) is not None:
        raise CheckFailed(f"{tool.program} is not on PATH")
    there = installed_versions(name, cache_directory())
    told = f"; installed: {', '.join(there)}" if there else ""
    return f"any that {VERSIONS[name].registry} has, installed when it is used first{told}"


def _tools_of(name: str) -> str:
    return "; ".join(tool.fix for tool in VERSIONS[name].tools)


def _kafka_jars(release: Release) -> str:
    """Other releases are listed once they were fetched."""
    directory, java = jar_directory(release), java_of(release)
    if not has_jars(directory, release):
        raise CheckFailed(f"no jars in {directory}")
    major = java_major(java_command())
    check_java(release, major)
    runs_on = f"Java {java.oldest} to {java.newest}"
    return f"jars in {directory}; for {runs_on}{'' if major is None else f', and this is Java {major}'}"
