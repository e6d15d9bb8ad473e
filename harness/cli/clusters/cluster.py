"""`harness cluster up|status|down`: a cluster that outlives the command. A small state file is used to find it again.

cluster_state.py keeps that file, so that `down` touches no process and no directory that `up` has not made. Shown by
tests/harness/test_harness_cluster_cli.py.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

from broker.door.addresses import parse_address
from chaos.lease import Lease
from harness.cli.clusters.cluster_state import (
    BrokerState,
    ClusterFile,
    StateProblem,
    alone,
    data_directory,
    read_state,
    state_directory,
    write_state,
)
from harness.cli.environment.descriptors import require_descriptors
from harness.cli.environment.preflight import check_releases
from harness.clusters.base import Address, ClusterKey, Engine
from harness.clusters.factory import build_cluster
from harness.clusters.requests.probe import BrokerProbe
from harness.clusters.requests.settings_check import check_settings
from harness.errors import EnvironmentFault, ExitCode, Interrupted, UsageError
from harness.kafka_releases import ClusterChoice, cluster_choice, parse_releases
from harness.lease_root import lease_root
from harness.suite_source import nearest, parse_override
from harness.terminal.signals import StopFlag, signals_set
from harness.terminal.tables import print_fitting
from harness.unknown_settings import settings_problem
from runlog.files.place import here
from runlog.files.redaction import hidden_assignment, hidden_settings
from runlog.files.setting_text import setting_text

_ENGINES: Final = ("reference", "kafka")
_NOT_UP: Final = "no cluster {!r} is up"
_TERM_WAIT_S: Final = 5.0
_KILL_WAIT_S: Final = 5.0


def up(*, cluster: str, brokers: int, settings: Sequence[str], name: str) -> None:
    """Prints the bootstrap addresses when all brokers answer. UsageError when a cluster of that name is up. `cluster`
    as `--cluster` says it."""
    choice = cluster_choice(cluster)
    if choice.engine not in _ENGINES:
        raise UsageError(f"--cluster {cluster}: {_why_not(choice.engine)}")
    if choice.engine == "kafka":
        check_releases(parse_releases(choice.releases))
    path = _state_path(name)
    lease_root()  # where the state files are, too: told before one is opened
    with _alone(path, name):
        _up(path, choice, brokers, settings, name)


@contextmanager
def _alone(path: Path, name: str) -> Iterator[None]:
    """Two commands at the same time would each start a cluster, and the state file would name only the later one."""
    try:
        with alone(path):
            yield
    except BlockingIOError as error:
        raise UsageError(f"cluster {name!r} is being started or ended by another process: wait for it") from error


def _up(path: Path, choice: ClusterChoice, brokers: int, settings: Sequence[str], name: str) -> None:
    _refuse_or_forget(path, name)
    wanted = _settings(settings)
    if problem := settings_problem("broker", wanted):
        raise UsageError(f"--set: {problem}")
    key = ClusterKey(
        engine=cast(Engine, choice.engine),
        proxied=False,
        brokers=brokers,
        releases=choice.releases,
        settings=tuple(sorted(wanted.items())),
    )
    require_descriptors()
    lease = Lease(lease_root())  # until the state file exists: `harness clean` ends what the lease names
    directory, mark = data_directory(name, path)
    stop = StopFlag()
    with signals_set(stop):
        cluster = build_cluster(
            key, directory, proxy_choice="embedded", lease=lease, seed=0, outlive_parent=True, should_stop=stop.is_set
        )
        print_fitting(f"starting {brokers} {cluster.version} broker(s) in {directory}", to_stderr=True)
        try:
            cluster.start()
            check_settings(cluster, wanted)
            if stop.is_set():
                raise Interrupted("interrupted; the cluster was stopped again")
            facts = {
                "name": name,
                "engine": cluster.engine,
                "version": cluster.version,
                "settings": hidden_settings(wanted),
            }
            facts["bootstrap_servers"] = cluster.bootstrap_servers
            write_state(path, mark=mark, directory=directory, pids=cluster.pids(), facts=facts)
        except BaseException:
            cluster.stop()
            shutil.rmtree(directory, ignore_errors=True)
            raise
        finally:
            lease.close()
    print(cluster.bootstrap_servers, flush=True)


def _why_not(engine: str) -> str:
    if engine == "external":
        return "it is up without us; expected reference or kafka"
    if engine == "docker":
        return "containers stay up by `docker compose up -d` (docs/guide/docker.md); expected reference or kafka"
    return f"no such cluster{nearest(engine, _ENGINES)}"


def _refuse_or_forget(path: Path, name: str) -> None:
    """UsageError if a cluster of that name is up, or may be up where we cannot see it. A file that cannot be read is
    put aside, because it must not prevent a start."""
    try:
        state = read_state(path)
    except FileNotFoundError:
        return
    except StateProblem as error:
        print_fitting(f"put aside: {error}", to_stderr=True)
        path.rename(path.with_suffix(".broken"))
        return
    if state.place.seen_from(here()) == "elsewhere":
        raise UsageError(f"cluster {name!r} was started {_elsewhere(state)}; take another --name, or remove {path}")
    if any(broker.is_running() for broker in state.brokers):
        raise UsageError(f"cluster {name!r} is up already at {state.bootstrap_servers}; `harness cluster down` first")
    _forget(path, state)


def _elsewhere(state: ClusterFile) -> str:
    return f"on {state.place.host}, {state.place.pid_namespace}, which cannot be seen from here"


def _read(path: Path, name: str) -> ClusterFile | None:
    """None, and a message on stderr, if there is no such cluster. EnvironmentFault if it cannot be handled
    from here."""
    try:
        state = read_state(path)
    except FileNotFoundError:
        print_fitting(_NOT_UP.format(name), to_stderr=True)
        return None
    except StateProblem as error:
        raise EnvironmentFault(f"{error}; look whether its processes run, end them, and remove the file") from error
    if state.place.seen_from(here()) == "elsewhere":
        raise EnvironmentFault(f"cluster {name!r} was started {_elsewhere(state)}: ask there")
    return state


def status(name: str) -> ExitCode:
    """Bootstrap addresses on stdout, broker by broker on stderr; ENVIRONMENT when it is not up or not whole."""
    state = _read(_state_path(name), name)
    if state is None:
        return ExitCode.ENVIRONMENT
    running = [broker.is_running() for broker in state.brokers]
    answers = _brokers_seen(state.bootstrap_servers)
    for broker, alive in zip(state.brokers, running, strict=True):
        print_fitting(f"broker {broker.broker}: {'running' if alive else 'gone'}", to_stderr=True)
    print_fitting(f"Metadata lists {len(answers)} broker(s): {answers}", to_stderr=True)
    print(state.bootstrap_servers)
    is_whole = all(running) and len(answers) == len(running)
    return ExitCode.PASS if is_whole else ExitCode.ENVIRONMENT


def down(name: str) -> None:
    """SIGTERM, SIGKILL after 5 s, then the data. EnvironmentFault if a process will not end."""
    path = _state_path(name)
    if not os.path.lexists(path):
        print_fitting(_NOT_UP.format(name), to_stderr=True)
        return
    with _alone(path, name):
        _down(path, name)


def _down(path: Path, name: str) -> None:
    state = _read(path, name)
    if state is None:
        return
    brokers = state.brokers
    for number, wait_s in ((signal.SIGTERM, _TERM_WAIT_S), (signal.SIGKILL, _KILL_WAIT_S)):
        for broker in brokers:
            _signal(broker, number)
        deadline = time.monotonic() + wait_s
        while any(broker.is_running() for broker in brokers) and time.monotonic() < deadline:
            time.sleep(0.05)
    left = [broker.identity.pid for broker in brokers if broker.is_running()]
    if left:
        raise EnvironmentFault(f"processes {left} of cluster {name!r} do not end")
    _forget(path, state)


def _signal(broker: BrokerState, number: signal.Signals) -> None:
    if broker.is_running():
        try:
            os.kill(broker.identity.pid, number)
            os.kill(broker.identity.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def _forget(path: Path, state: ClusterFile) -> None:
    if not state.remove_data():
        print_fitting(f"left alone {state.directory}: it is not the directory that `up` made", to_stderr=True)
    path.unlink(missing_ok=True)


def _brokers_seen(bootstrap_servers: str) -> list[int]:
    for text in bootstrap_servers.split(","):
        host, port = parse_address(text)
        probe = BrokerProbe(Address(host=host, port=port), timeout_s=2.0)
        answer = probe.metadata(None)
        probe.close()
        if answer is not None:
            return list(answer.brokers)
    return []


def _settings(texts: Sequence[str]) -> dict[str, str]:
    settings = {}
    for text in texts:
        key, value = parse_override(text)
        if isinstance(value, list | dict):
            raise UsageError(f"--set {hidden_assignment(text)}: expected a text, number or boolean")
        settings[key] = setting_text(value)
    return settings


def _state_path(name: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise UsageError(f"--name {name!r}: letters, digits, dot, dash and underscore only")
    return state_directory() / f"{name}.json"
