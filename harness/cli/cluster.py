"""`harness cluster up|status|down`: a cluster that outlives the command, found again by a small state file.

State: $XDG_STATE_HOME/kafka-harness/clusters/<name>.json with pids and their start times, so that `down` never
touches a process that only took over a pid. Shown by tests/harness/test_harness_cluster_cli.py.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from chaos.lease import Lease, ProcessIdentity, default_root, is_alive, read_identity
from harness.clusters.base import Address, ClusterKey, Engine
from harness.clusters.factory import build_cluster
from harness.clusters.kafka.jars import cache_directory
from harness.clusters.metadata import BrokerProbe
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.settings_check import check_settings
from harness.errors import EnvironmentFault, ExitCode, Interrupted, UsageError
from harness.kafka_settings import settings_problem
from harness.run.stop import StopFlag, signals_set
from harness.suite import kafka_text
from harness.suite_source import nearest, parse_override
from runlog.events import read_json, write_json

_ENGINES: Final = ("reference", "kafka")
_TERM_WAIT_S: Final = 5.0
_KILL_WAIT_S: Final = 5.0


def up(*, engine: str, brokers: int, settings: Sequence[str], name: str) -> None:
    """Prints the bootstrap addresses when all brokers answer. UsageError when a cluster of that name is up."""
    if engine not in _ENGINES:
        raise UsageError(f"--cluster {engine}: {_why_not(engine)}")
    path = _state_path(name)
    if path.exists():
        state = read_json(path)
        if any(is_alive(identity) for identity in _identities(state)):
            raise UsageError(
                f"cluster {name!r} is up already at {state['bootstrap_servers']}; `harness cluster down` first"
            )
        _forget(path, state)
    wanted = _settings(settings)
    if problem := settings_problem("broker", wanted):
        raise UsageError(f"--set: {problem}")
    key = ClusterKey(
        engine=cast(Engine, engine), proxied=False, brokers=brokers, settings=tuple(sorted(wanted.items()))
    )
    directory = cache_directory() / "clusters" / f"{name}-{os.getpid()}"
    lease = Lease(default_root(os.environ))  # until the state file takes over: `harness clean` ends what it names
    stop = StopFlag()
    with signals_set(stop):
        cluster = build_cluster(
            key, directory, proxy_choice="embedded", lease=lease, seed=0, outlive_parent=True, should_stop=stop.is_set
        )
        print(f"starting {brokers} {engine} broker(s) in {directory}", file=sys.stderr)
        try:
            cluster.start()
            check_settings(cluster, wanted)
            if stop.is_set():
                raise Interrupted("interrupted; the cluster was stopped again")
            _write_state(path, name, directory, cluster, wanted)
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
        return "containers stay up by `docker compose up -d` (docs/docker.md); expected reference or kafka"
    return f"no such cluster{nearest(engine, _ENGINES)}"


def _write_state(path: Path, name: str, directory: Path, cluster: ProcessCluster, settings: Mapping[str, str]) -> None:
    processes = {broker: read_identity(pid) for broker, pid in cluster.pids().items()}
    write_json(
        path,
        {
            "name": name,
            "engine": cluster.engine,
            "version": cluster.version,
            "bootstrap_servers": cluster.bootstrap_servers,
            "directory": str(directory),
            "settings": dict(settings),
            "brokers": {
                str(broker): {"pid": identity.pid, "start_ticks": identity.start_ticks}
                for broker, identity in processes.items()
                if identity is not None
            },
        },
    )


def status(name: str) -> ExitCode:
    """Bootstrap addresses on stdout, broker by broker on stderr; ENVIRONMENT when it is not up or not whole."""
    path = _state_path(name)
    if not path.exists():
        print(f"no cluster {name!r} is up", file=sys.stderr)
        return ExitCode.ENVIRONMENT
    state = read_json(path)
    running = [is_alive(identity) for identity in _identities(state)]
    answers = _brokers_seen(str(state["bootstrap_servers"]))
    for broker, alive in zip(state["brokers"], running, strict=True):
        print(f"broker {broker}: {'running' if alive else 'gone'}", file=sys.stderr)
    print(f"Metadata lists {len(answers)} broker(s): {answers}", file=sys.stderr)
    print(state["bootstrap_servers"])
    is_whole = all(running) and len(answers) == len(running)
    return ExitCode.PASS if is_whole else ExitCode.ENVIRONMENT


def down(name: str) -> None:
    """SIGTERM, SIGKILL after 5 s, then the data. EnvironmentFault if a process will not end."""
    path = _state_path(name)
    if not path.exists():
        print(f"no cluster {name!r} is up", file=sys.stderr)
        return
    state = read_json(path)
    identities = _identities(state)
    for number, wait_s in ((signal.SIGTERM, _TERM_WAIT_S), (signal.SIGKILL, _KILL_WAIT_S)):
        for identity in identities:
            _signal(identity, number)
        deadline = time.monotonic() + wait_s
        while any(is_alive(identity) for identity in identities) and time.monotonic() < deadline:
            time.sleep(0.05)
    left = [identity.pid for identity in identities if is_alive(identity)]
    if left:
        raise EnvironmentFault(f"processes {left} of cluster {name!r} do not end")
    _forget(path, state)


def _signal(identity: ProcessIdentity, number: signal.Signals) -> None:
    if is_alive(identity):
        try:
            os.kill(identity.pid, number)
            os.kill(identity.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def _forget(path: Path, state: Mapping[str, Any]) -> None:
    shutil.rmtree(str(state["directory"]), ignore_errors=True)
    path.unlink(missing_ok=True)


def _identities(state: Mapping[str, Any]) -> list[ProcessIdentity]:
    return [
        ProcessIdentity(pid=int(entry["pid"]), start_ticks=int(entry["start_ticks"]))
        for entry in state["brokers"].values()
    ]


def _brokers_seen(bootstrap_servers: str) -> list[int]:
    for text in bootstrap_servers.split(","):
        host, _, port = text.rpartition(":")
        probe = BrokerProbe(Address(host=host, port=int(port)), timeout_s=2.0)
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
            raise UsageError(f"--set {text}: expected a text, number or boolean")
        settings[key] = kafka_text(value)
    return settings


def _state_path(name: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise UsageError(f"--name {name!r}: letters, digits, dot, dash and underscore only")
    return state_directory() / f"{name}.json"


def state_directory() -> Path:
    """Where the clusters that are up are written down."""
    root = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(root) / "kafka-harness" / "clusters"
