"""`harness worker … --allow-faults FILE`: faults on a broker's host, as far as its operator permits them.

This process acts and has no socket. Its agent (workloads/hosts/fault_agent.py) has the link, and hands over asks that
were checked. If the agent ends or says nothing any more, everything is healed, as if the harness were lost. Shown by
tests/harness/test_harness_fault_hosts.py.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from chaos.fault_host.host import Done, Epochs, FaultHost, Refused
from chaos.fault_host.journal import Journal, JournalError
from chaos.fault_host.permits import Permits, PermitsError, read_permits
from chaos.fault_host.proxies import ProbeWanted, ProxyDone, ProxyFaults, ToxicWanted
from chaos.fault_host.proxy_server import ProxyServer, ProxyServerError
from chaos.fault_host.site import NotDone
from chaos.link_probe import LoadProbe
from chaos.process_identity import ProcessIdentity
from chaos.toxiproxy.lookup import find_binary
from harness import VERSION
from harness.clusters.kafka.jars import cache_directory
from harness.errors import EnvironmentFault, ExitCode, UsageError
from harness.run.stop import StopFlag, signals_set
from harness.run.truncation import dump_epochs, read_partition_headers
from workloads.hosts.fault_wire import (
    EPOCHS_MAX,
    PROXY_ACTIONS,
    Answer,
    Ask,
    BrokerOffer,
    FaultHello,
    ProbeSeen,
    ProcessSeen,
    ProxyOffer,
    ProxySeen,
    Toxic,
)
from workloads.hosts.keys import LinkKey

STEP_S: Final = 0.1
_END_S: Final = 30.0
_LOOKS: Final = ("look", "logs", "proxy_state", "probe")
_UNPRINTABLE: Final = re.compile(r"[^ -~]")


def run_fault_worker(host: str, port: int, key: LinkKey, name: str, permits_file: Path, root: Path) -> ExitCode:
    """Until Ctrl-C or SIGTERM, or until its master refuses it. `root`: the directory of this worker's leases."""
    try:
        permits = read_permits(permits_file)
    except PermitsError as error:
        raise UsageError(f"--allow-faults: {error}") from error
    try:
        journal = Journal(root, name)
    except JournalError as error:
        raise EnvironmentFault(str(error)) from error
    faults = FaultHost(permits, journal, output=root, read_epochs=epochs_in, say=_say)
    server = ProxyServer(permits.proxies, root, name, binary=find_binary(None, [cache_directory() / "bin"]))
    proxies = ProxyFaults(permits, server, say=_say)
    stop = StopFlag()
    with signals_set(stop):
        try:
            proxies.open()  # first: links of the brokers go through them
            faults.heal_left()
            hello = hello_of(name, permits, server.label)
            config = {
                "master_host": host, "master_port": port, "key": key.document(), "hello": hello.model_dump(mode="json"),
            }  # fmt: skip
            return _FaultWorker(config, name, faults, proxies, stop).run()
        except ProxyServerError as error:
            raise EnvironmentFault(str(error)) from error
        finally:
            proxies.close()
            faults.close()


def hello_of(name: str, permits: Permits, proxy_server: str = "") -> FaultHello:
    offers = tuple(
        BrokerOffer(broker=broker, allow=permit.allow, has_logs=bool(permit.log_dirs))
        for broker, permit in permits.brokers.items()
    )
    proxies = tuple(
        ProxyOffer(
            name=proxy, links=tuple(sorted(permit.links)), allow=permit.allow, listen=permit.listen,
            upstream=permit.upstream, is_tls=permit.tls,
        )
        for proxy, permit in permits.proxies.items()
    )  # fmt: skip
    return FaultHello(name=name, version=VERSION, brokers=offers, proxies=proxies, proxy_server=proxy_server)


def epochs_in(directory: Path) -> Epochs:
    """Leader epochs and offsets of the batches in a partition's directory. No record is read."""
    ranges = dump_epochs(read_partition_headers(directory))
    return [(each.leader_epoch, each.start_offset, each.end_offset) for each in ranges][-EPOCHS_MAX:]


class _FaultWorker:
    def __init__(
        self, config: dict[str, Any], name: str, faults: FaultHost, proxies: ProxyFaults, stop: StopFlag
    ) -> None:
        self._name, self._faults, self._proxies, self._stop = name, faults, proxies, stop
        self._agent = subprocess.Popen(
            [sys.executable, "-m", "workloads", "--fault-agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._writing = threading.Lock()
        self._write(config)

    def run(self) -> ExitCode:
        threading.Thread(target=self._step, name="heal", daemon=True).start()
        pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="fault")
        try:
            assert self._agent.stdout is not None
            for line in self._agent.stdout:
                self._take(json.loads(line), pool)
            code = self._agent.wait(timeout=_END_S)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            if self._agent.poll() is None:
                self._agent.kill()
                self._agent.wait()
        if self._stop.is_set():
            return ExitCode.INTERRUPTED
        if code == int(ExitCode.ENVIRONMENT):
            raise EnvironmentFault("its master refused this fault host")
        return ExitCode.PASS if code == 0 else ExitCode.HARNESS_ERROR

    def _step(self) -> None:
        while self._agent.poll() is None:
            if self._stop.is_set():
                assert self._agent.stdin is not None
                with self._writing:
                    self._agent.stdin.close()
                return
            self._faults.step()
            self._proxies.step()
            time.sleep(STEP_S)

    def _take(self, line: dict[str, Any], pool: ThreadPoolExecutor) -> None:
        if "say" in line:
            _say(str(line["say"]))
        elif "heard" in line:
            self._heard()
        elif "run" in line:
            self._heard()
            pool.submit(self._faults.begin_run, str(line["run"]))
            pool.submit(self._proxies.begin_run, str(line["run"]))
        elif "ask" in line:
            pool.submit(self._carry_out, Ask.model_validate(line["ask"]))

    def _heard(self) -> None:
        self._faults.heard()
        self._proxies.heard()

    def _done(self, ask: Ask) -> Answer:
        if ask.action in PROXY_ACTIONS:
            assert ask.proxy is not None
            toxic, probe = _toxic_wanted(ask.toxic), _probe_wanted(ask)
            return _proxy_answer(ask, self._proxies.act(ask.action, ask.proxy, toxic=toxic, probe=probe))
        assert ask.broker is not None
        return _answer(ask, self._faults.act(ask.action, ask.broker, topic=ask.topic, partitions=ask.partitions))

    def _carry_out(self, ask: Ask) -> None:
        try:
            answer = self._done(ask)
        except Refused as error:
            _say(f"refused: {error}")
            answer = _not_done(ask, f"fault host {self._name} refuses {error}", is_refused=True)
        except NotDone as error:
            answer = _not_done(ask, f"fault host {self._name}: {error}", is_unknown=error.is_unknown)
        except Exception as error:  # of one ask: the harness must hear of it, and the next one can still be done
            problem = f"fault host {self._name}: {type(error).__name__}: {error}"
            answer = _not_done(ask, problem, is_unknown=True)
        if ask.action not in _LOOKS:
            _say(f"{ask.action} of {ask.who}: {'done' if answer.is_done else answer.problem}")
        self._write(answer.model_dump(mode="json"))

    def _write(self, document: dict[str, Any]) -> None:
        assert self._agent.stdin is not None
        with self._writing:
            try:
                self._agent.stdin.write(json.dumps(document).encode() + b"\n")
                self._agent.stdin.flush()
            except (OSError, ValueError):
                return  # it has ended: its exit code tells why


def _answer(ask: Ask, done: Done) -> Answer:
    states = dict(done.processes)
    return Answer(
        number=ask.number,
        run_id=ask.run_id,
        is_done=True,
        from_ns=done.from_ns,
        to_ns=done.to_ns,
        running=None if done.running is None else _seen(done.running, states.get(done.running, "")),
        processes=tuple(_seen(identity, state) for identity, state in done.processes),
        epochs=dict(done.epochs),
    )


def _toxic_wanted(toxic: Toxic | None) -> ToxicWanted | None:
    if toxic is None:
        return None
    return ToxicWanted(name=toxic.name, type=toxic.type, stream=toxic.stream, attributes=toxic.attributes)


def _probe_wanted(ask: Ask) -> ProbeWanted | None:
    probe = ask.probe
    if probe is None:
        return None
    return ProbeWanted(timeout_ms=probe.timeout_ms, stream=probe.stream, size_bytes=probe.size_bytes)


def _proxy_answer(ask: Ask, done: ProxyDone) -> Answer:
    state, probe = done.state, done.probe
    proxy = None if state is None else ProxySeen(
        is_enabled=state.is_enabled,
        toxics=tuple(
            Toxic.model_validate(
                {"name": each.name, "type": each.type, "stream": each.stream, "attributes": each.attributes}
            )
            for each in state.toxics
        ),
    )  # fmt: skip
    seen = None if probe is None else ProbeSeen(
        outcome=probe.outcome,
        elapsed_us=probe.elapsed_us,
        size_bytes=probe.size_bytes if isinstance(probe, LoadProbe) else 0,
    )  # fmt: skip
    return Answer(
        number=ask.number, run_id=ask.run_id, is_done=True, from_ns=done.from_ns, to_ns=done.to_ns, proxy=proxy,
        probe=seen,
    )  # fmt: skip


def _seen(identity: ProcessIdentity, state: str) -> ProcessSeen:
    return ProcessSeen(pid=identity.pid, start_ticks=identity.start_ticks, state=state)


def _not_done(ask: Ask, problem: str, *, is_refused: bool = False, is_unknown: bool = False) -> Answer:
    return Answer(
        number=ask.number,
        run_id=ask.run_id,
        is_done=False,
        is_refused=is_refused,
        is_unknown=is_unknown,
        problem=problem[:1_900],
    )


def _say(text: str) -> None:
    """What comes from another host may hold anything: nothing of it reaches the terminal but text."""
    print(_UNPRINTABLE.sub("?", text), file=sys.stderr, flush=True)
