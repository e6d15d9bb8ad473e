"""`harness worker … --allow-faults FILE`: faults on a broker's host, as far as its operator permits them.

This process acts and has no socket. Its agent (workloads/hosts/fault_agent.py) has the link, and hands over asks that
were checked. If the agent ends or says nothing any more, everything is healed, as if the harness were lost. Shown by
tests/harness/test_harness_fault_hosts.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from chaos.fault_host.host import Epochs, FaultHost, Refused
from chaos.fault_host.journal import Journal, JournalError
from chaos.fault_host.permits import Permits, PermitsError, read_permits
from chaos.fault_host.proxies import ProxyFaults
from chaos.fault_host.proxy_server import ProxyServerError
from chaos.fault_host.proxy_servers import ProxyServers
from chaos.fault_host.request_record import Piece, RequestRecord
from chaos.fault_host.site import NotDone
from chaos.toxiproxy.lookup import find_binary
from harness import VERSION
from harness.cleanup_steps import undo_all
from harness.cli.hosts.fault_answers import (
    broker_answer,
    not_done,
    probe_wanted,
    proxy_answer,
    requests_answer,
    toxic_wanted,
)
from harness.clusters.kafka.jars import cache_directory
from harness.clusters.segment_files import read_partition_headers
from harness.errors import EnvironmentFault, ExitCode, UsageError
from harness.run.recording.truncation import dump_epochs
from harness.terminal.operator_log import Saying
from harness.terminal.signals import StopFlag, signals_set
from workloads.hosts.fault_wire import (
    EPOCHS_MAX,
    PROXY_ACTIONS,
    REQUEST_ACTIONS,
    Answer,
    Ask,
    BrokerOffer,
    FaultHello,
    ProxyOffer,
)
from workloads.hosts.keys import LinkKey

STEP_S: Final = 0.1
_END_S: Final = 30.0
_LOOKS: Final = ("look", "logs", "proxy_state", "probe", "requests_piece", "requests_forget")


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
    saying = Saying()
    faults = FaultHost(permits, journal, output=root, read_epochs=epochs_in, say=saying.say)
    servers = ProxyServers(permits.proxies, root, name, binary=find_binary(None, [cache_directory() / "bin"]))
    proxies = ProxyFaults(permits, servers, say=saying.say)
    record = RequestRecord(permits.proxies, servers, root, name, say=saying.say)
    stop, pool = StopFlag(), ThreadPoolExecutor(max_workers=8, thread_name_prefix="fault")
    with signals_set(stop):
        try:
            proxies.open()  # first: links of the brokers go through them
            record.open()
            faults.heal_left()
            hello = hello_of(name, permits, servers.label)
            config = {
                "master_host": host, "master_port": port, "key": key.document(), "hello": hello.model_dump(mode="json"),
            }  # fmt: skip
            return _FaultWorker(config, name, faults, proxies, record, stop, pool, saying.say).run()
        except ProxyServerError as error:
            raise EnvironmentFault(str(error)) from error
        finally:
            # An action may take minutes. What is broken is healed meanwhile, and no action is begun after that.
            ends = [
                proxies.heal, faults.close, lambda: pool.shutdown(wait=True, cancel_futures=True), record.forget,
                proxies.close,
            ]  # fmt: skip
            for problem in undo_all(ends):
                saying.say(f"at its end: {type(problem).__name__}: {problem}")
            saying.close()


def hello_of(name: str, permits: Permits, proxy_server: str = "") -> FaultHello:
    offers = tuple(
        BrokerOffer(broker=broker, allow=permit.allow, has_logs=bool(permit.log_dirs))
        for broker, permit in permits.brokers.items()
    )
    proxies = tuple(
        ProxyOffer(
            name=proxy, links=tuple(sorted(permit.links)), allow=permit.allow, listen=permit.listen,
            upstream=permit.upstream, is_tls=permit.tls, has_requests=permit.requests,
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
        self,
        config: dict[str, Any],
        name: str,
        faults: FaultHost,
        proxies: ProxyFaults,
        record: RequestRecord,
        stop: StopFlag,
        pool: ThreadPoolExecutor,
        say: Callable[[str], object],
    ) -> None:
        self._name, self._faults, self._proxies, self._record, self._stop = name, faults, proxies, record, stop
        self._pool, self._say = pool, say
        self._agent = subprocess.Popen(
            [sys.executable, "-m", "workloads", "--fault-agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._writing = threading.Lock()
        self._write(config)

    def run(self) -> ExitCode:
        threading.Thread(target=self._step, name="heal", daemon=True).start()
        try:
            assert self._agent.stdout is not None
            for line in self._agent.stdout:
                self._take(json.loads(line))
            code = self._agent.wait(timeout=_END_S)
        finally:
            if self._agent.poll() is None:
                self._agent.kill()
                self._agent.wait()
        if self._stop.is_set():
            return ExitCode.INTERRUPTED
        if code == int(ExitCode.ENVIRONMENT):
            raise EnvironmentFault("its master refused this fault host")
        return ExitCode.PASS if code == 0 else ExitCode.HARNESS_ERROR

    def _step(self) -> None:
        """Whatever one step meets, the others go on: without them nobody heals when the harness is lost."""
        told = ""
        while self._agent.poll() is None:
            if self._stop.is_set():
                self._end_agent()
                return
            problems = undo_all([self._faults.step, self._proxies.step, self._record.step])
            words = "; ".join(f"{type(problem).__name__}: {problem}" for problem in problems)
            if words and words != told:
                self._say(words)
            told = words
            time.sleep(STEP_S)

    def _end_agent(self) -> None:
        """It ends when its stdin does. If it hangs, it is made to end: healing must not wait for it."""
        assert self._agent.stdin is not None
        if self._writing.acquire(timeout=_END_S):
            with suppress(OSError):
                self._agent.stdin.close()
            self._writing.release()
        try:
            self._agent.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._agent.kill()

    def _take(self, line: dict[str, Any]) -> None:
        if "say" in line:
            self._say(str(line["say"]))
        elif "heard" in line:
            self._heard()
        elif "run" in line:
            self._heard()
            self._pool.submit(self._faults.begin_run, str(line["run"]))
            self._pool.submit(self._proxies.begin_run, str(line["run"]))
            self._pool.submit(self._record.forget)
        elif "ask" in line:
            self._pool.submit(self._carry_out, Ask.model_validate(line["ask"]))

    def _heard(self) -> None:
        self._faults.heard()
        self._proxies.heard()
        self._record.heard()

    def _done(self, ask: Ask) -> Answer:
        if ask.action in PROXY_ACTIONS:
            assert ask.proxy is not None
            toxic, probe = toxic_wanted(ask.toxic), probe_wanted(ask)
            return proxy_answer(ask, self._proxies.act(ask.action, ask.proxy, toxic=toxic, probe=probe))
        if ask.action in REQUEST_ACTIONS:
            from_ns = time.monotonic_ns()
            return requests_answer(ask, self._recorded(ask), from_ns, time.monotonic_ns())
        assert ask.broker is not None
        return broker_answer(ask, self._faults.act(ask.action, ask.broker, topic=ask.topic, partitions=ask.partitions))

    def _recorded(self, ask: Ask) -> Piece:
        match ask.action:
            case "requests_begin":
                self._record.begin(ask.topics)
            case "requests_piece":
                return self._record.piece(ask.offset)
            case "requests_end":
                return self._record.end()
            case "requests_forget":
                self._record.forget()
        return Piece()

    def _carry_out(self, ask: Ask) -> None:
        try:
            answer = self._done(ask)
        except Refused as error:
            self._say(f"refused: {error}")
            answer = not_done(ask, f"fault host {self._name} refuses {error}", is_refused=True)
        except NotDone as error:
            answer = not_done(ask, f"fault host {self._name}: {error}", is_unknown=error.is_unknown)
        except Exception as error:  # The harness must hear of it, and the next ask can still be done.
            problem = f"fault host {self._name}: {type(error).__name__}: {error}"
            answer = not_done(ask, problem, is_unknown=True)
        if ask.action not in _LOOKS:
            self._say(f"{ask.action} of {ask.who}: {'done' if answer.is_done else answer.problem}")
        self._write(answer.model_dump(mode="json"))

    def _write(self, document: dict[str, Any]) -> None:
        assert self._agent.stdin is not None
        with self._writing:
            try:
                self._agent.stdin.write(json.dumps(document).encode() + b"\n")
                self._agent.stdin.flush()
            except (OSError, ValueError):
                return  # it has ended: its exit code tells why
