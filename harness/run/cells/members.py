"""The member processes of one cell: group members and copiers, started, watched, killed, paused, stopped.

Call `start` before the load, and `await_caught_up` and `finish` after it. Faults on clients use `kill`, `pause`,
`resume`, `leave` and `start_again` with a member's name (app-0). Each start has its own spec and journal under
RUN/cells/<cell>/members. Shown by tests/harness/test_harness_members.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness.clusters.broker_process import ManagedProcess, spawn, tail_text
from harness.errors import CellError
from harness.planned_cell import PlannedCell
from harness.run.cells.share_groups import ShareGroups, held_by
from harness.run.context import RunContext
from harness.run.generator.client_runtime import client_runtime
from runlog.files.documents import write_json
from runlog.records.codec import to_json
from runlog.records.lines import MEMBER_JOURNAL, own_lines, read_line
from runlog.records.member import MemberSpec
from runlog.records.member_journal import (
    JournalKind,
    MemberSaid,
    OffsetsCommitted,
    PartitionsRevoked,
    RecordsDelivered,
)
from workloads.clients import BUILTIN
from workloads.clients.java.bearer import jvm_options, with_login
from workloads.clients.java.build import PROGRAM
from workloads.clients.process.library import is_process
from workloads.members import COPIERS, JAVA, SHARERS
from workloads.members.spec import spec_text, to_properties
from workloads.members.transcribe import members_directory, transcribe_cell
from workloads.model import copy_topic
from workloads.reader_group import ReaderGroup

START_TIMEOUT_S: Final = 45.0
LEAVE_GRACE_S: Final = 10.0
CAUGHT_UP_POLL_S: Final = 0.25
STDIN: Final = "/dev/stdin"
_DELIVERED: Final = f'"{JournalKind.DELIVERED.value}"'.encode()  # other lines are not even parsed

EndOffset = Callable[[str, int], int | None]  # It answers for a topic and partition. None: it is not known now.


@dataclass(slots=True, kw_only=True)
class _Member:
    spec: MemberSpec
    process: ManagedProcess | None = None
    twins: int = 0


class MemberProcesses:
    """The member processes of one cell. If a cell has none, nothing happens. The timeline's thread may call it too."""

    def __init__(
        self,
        planned: PlannedCell,
        context: RunContext,
        bootstrap_servers: str,
        access: Mapping[str, str] | None = None,
    ) -> None:
        """`access`: the security settings that the load has too (`--client-config`)."""
        self._planned, self._context = planned, context
        self._directory = members_directory(context.run_dir, planned.cell_id)
        self._lock = threading.RLock()
        specs = _specs(planned, bootstrap_servers, access or {})
        self._members = {spec.member: _Member(spec=spec) for spec in specs}
        self._share_groups = ShareGroups(specs, bootstrap_servers, access or {}, self._directory)
        self._twins: list[ManagedProcess] = []
        self._ended: set[str] = set()  # those that a fault has ended
        self._seen: dict[Path, tuple[int, dict[tuple[str, int], int]]] = {}

    @property
    def are_there(self) -> bool:
        return bool(self._members)

    @property
    def stderr_path(self) -> Path:
        return self._directory / "stderr.log"

    def start(self) -> None:
        """Start all, and wait until each has said that it started. CellError with what a member said instead."""
        if not self._members:
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        self._share_groups.prepare()
        for name in self._members:
            self._spawn(name)
        deadline = time.monotonic() + START_TIMEOUT_S
        waiting = set(self._members)
        while waiting and not self._context.stop.is_set():
            waiting -= {name for name in waiting if self._has_started(name)}
            for name in waiting:
                process = self._members[name].process
                if process is not None and not process.is_running():
                    raise CellError(f"member {name} did not start: {self._last_words(name)}")
            if waiting and time.monotonic() > deadline:
                raise CellError(f"members {', '.join(sorted(waiting))} did not start within {START_TIMEOUT_S:.0f} s")
            time.sleep(0.05)

    # --- what faults do ---------------------------------------------------------------------------------------------

    def names(self) -> Sequence[str]:
        return tuple(self._members)

    def pids(self) -> Mapping[str, int]:
        """The pids of the members that run."""
        with self._lock:
            running = {name: member.process for name, member in self._members.items()}
            return {name: process.pid for name, process in running.items() if process and process.is_running()}

    def committed_ahead(self, name: str) -> int | None:
        """How many records it has committed, or was given by a share group, but not processed. None for any other
        member."""
        with self._lock:
            spec = self._members[name].spec
        if spec.is_share:
            return held_by(Path(spec.journal))
        return committed_ahead(Path(spec.journal)) if spec.commit == "before" else None

    def kill(self, name: str) -> None:
        """SIGKILL: no commit, no LeaveGroup; the coordinator finds out by the session timeout."""
        process = self._process(name)
        if process is not None:
            self._ended.add(name)
            process.kill_and_wait()

    def pause(self, name: str) -> None:
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    def leave(self, name: str) -> None:
        """SIGTERM: the member commits what it may, leaves its group, and ends."""
        process = self._process(name)
        if process is not None:
            self._ended.add(name)
            process.stop(LEAVE_GRACE_S)

    def start_again(self, name: str) -> None:
        with self._lock:
            process = self._members[name].process
            if process is None or not process.is_running():
                self._spawn(name)

    def twin(self, name: str) -> int:
        """A second process with the same group and transactional.id beside the first; returns its pid."""
        with self._lock:
            return self._spawn(name, is_twin=True).pid

    def end_twins(self) -> None:
        with self._lock:
            twins, self._twins = self._twins, []
        for twin in twins:
            twin.stop(LEAVE_GRACE_S)

    # --- after the load ---------------------------------------------------------------------------------------------

    def await_caught_up(self, end_offset: EndOffset, timeout_s: float) -> str:
        """Waits until every reader has got the last record of every partition. Otherwise returns what is missing."""
        deadline = time.monotonic() + timeout_s
        missing = "" if not self._members else "nobody looked"
        while self._members and not self._context.stop.is_set():
            missing = self._missing(end_offset)
            if not missing or time.monotonic() > deadline:
                break
            time.sleep(CAUGHT_UP_POLL_S)
        return missing

    def unasked_ends(self) -> list[str]:
        """Members that ended although no fault ended them, with their last output."""
        return [
            f"member {name} ended by itself: {self._last_words(name)}"
            for name, member in self._members.items()
            if member.process is not None and not member.process.is_running() and name not in self._ended
        ]

    def finish(self) -> int:
        """Ends all and writes the run log. Returns the deliveries. Works after a failure, and may be called twice."""
        if not self._members:
            return 0
        self.end_twins()
        with self._lock:
            processes = [member.process for member in self._members.values() if member.process]
        running = [process for process in processes if process.is_running()]
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + LEAVE_GRACE_S
        for process in running:
            process.wait(max(0.1, deadline - time.monotonic()))
            process.stop(0.1)
        planned = self._planned
        return transcribe_cell(
            self._context.run_dir,
            planned.cell_id,
            topic=planned.topic_name,
            t0_monotonic_ns=self._context.clock.t0_monotonic_ns,
        )

    # --- inside -----------------------------------------------------------------------------------------------------

    def _process(self, name: str) -> ManagedProcess | None:
        with self._lock:
            return self._members[name].process

    def _signal(self, name: str, number: signal.Signals) -> None:
        """The signal goes to the whole session, because a member may have started other processes."""
        process = self._process(name)
        if process is not None and process.is_running():
            os.killpg(process.pid, number)

    def _spawn(self, name: str, *, is_twin: bool = False) -> ManagedProcess:
        with self._lock:
            member = self._members[name]
            # Starts are counted for each member, twins too, because each start has its own files.
            incarnation = len(list(self._directory.glob(f"{name}-*.json")))
            stem = self._directory / f"{name}-{incarnation}"
            spec = replace(member.spec, incarnation=incarnation, journal=f"{stem}.jsonl")
            write_json(Path(f"{stem}.json"), self._context.redactor.document(to_json(spec)))
            # The spec itself goes by stdin: it may hold passwords.
            if spec.client == JAVA:
                login = replace(
                    spec,
                    properties=with_login(spec.properties),
                    producer_properties=with_login(spec.producer_properties),
                )
                mode = "share" if spec.is_share else "copier" if spec.is_copier else "member"
                command = _java_command(mode, jvm_options(spec.properties))
                told = to_properties(login)
            else:
                command, told = (sys.executable, "-m", "workloads.members", STDIN), spec_text(spec)
            process = spawn(f"member {name}", command, stderr_path=self.stderr_path, stdin=told.encode())
            if is_twin:
                self._twins.append(process)
            else:
                member.process, member.spec = process, spec
                self._ended.discard(name)
            return process

    def _has_started(self, name: str) -> bool:
        return any(line.kind is JournalKind.STARTED for line in self._said(name))

    def _said(self, name: str) -> Iterator[MemberSaid]:
        for line in own_lines(Path(self._members[name].spec.journal), MEMBER_JOURNAL):
            if isinstance(line, MemberSaid):
                yield line

    def _last_words(self, name: str) -> str:
        problems = [line.message or "" for line in self._said(name) if line.kind is JournalKind.PROBLEM]
        if problems:
            return problems[-1]
        return tail_text(self.stderr_path, 4) if self.stderr_path.exists() else "it said nothing"

    def _missing(self, end_offset: EndOffset) -> str:
        given: dict[str, dict[int, int]] = {}
        for name, member in self._members.items():
            if member.spec.is_share:  # It says nothing which of its members gets the last record.
                continue
            reader = name.rpartition("-")[0]
            tops = given.setdefault(f"{reader} of {member.spec.topic}", {})
            for path in self._directory.glob(f"{name}-*.jsonl"):
                for (_, partition), offset in self._tops(path).items():
                    tops[partition] = max(tops.get(partition, -1), offset)
        for reader, tops in given.items():
            topic = reader.partition(" of ")[2]
            if topic == copy_topic(self._planned.topic_name):
                continue  # markers stand between records: a log does not always end with a record
            for partition in range(self._planned.partitions):
                end = end_offset(topic, partition)
                if end is None or tops.get(partition, -1) + 1 < end:
                    return f"{reader}, partition {partition}: given up to {tops.get(partition, -1)}, the end is {end}"
        return self._share_groups.missing(end_offset, self._planned.partitions)

    def _tops(self, path: Path) -> dict[tuple[str, int], int]:
        """The highest offset by partition. Reads only what has been added since the last look."""
        position, tops = self._seen.get(path, (0, {}))
        with path.open("rb") as file:
            file.seek(position)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                position += len(line)
                found = read_line(line, MEMBER_JOURNAL) if _DELIVERED in line else None
                if isinstance(found, RecordsDelivered):
                    for topic, partition, offset, *_ in found.records:
                        tops[topic, partition] = max(tops.get((topic, partition), -1), offset)
        self._seen[path] = (position, tops)
        return tops


def committed_ahead(journal: Path) -> int:
    """Counts only partitions from which it has processed a record. Before that its start position is not known."""
    committed: dict[int, int] = {}
    processed: dict[int, int] = {}
    for line in own_lines(journal, MEMBER_JOURNAL):
        match line:
            case OffsetsCommitted():
                committed |= {partition: offset for _, partition, offset in line.offsets}
            case RecordsDelivered():
                processed |= {partition: offset + 1 for _, partition, offset, *_ in line.records}
            case PartitionsRevoked():
                for _, partition in line.partitions:
                    processed.pop(partition, None)
    return sum(max(0, committed.get(partition, 0) - position) for partition, position in processed.items())


def transactional_id(topic: str, member: str) -> str:
    return f"{topic}-{member}"


def _specs(planned: PlannedCell, bootstrap_servers: str, access: Mapping[str, str]) -> list[MemberSpec]:
    """One for each member, in the order of the run log's consumer numbers."""
    specs: list[MemberSpec] = []
    consumer = 0
    for number, reader in enumerate(planned.workload.reader_groups):
        for member in range(reader.consumers):
            if reader.own_processes:
                specs.append(_spec(planned, bootstrap_servers, access, reader, number, member, consumer))
            consumer += 1
    return specs


def _spec(
    planned: PlannedCell,
    bootstrap_servers: str,
    access: Mapping[str, str],
    reader: ReaderGroup,
    number: int,
    member: int,
    consumer: int,
) -> MemberSpec:
    copies = copy_topic(planned.topic_name)
    name = f"{reader.name}-{member}"
    if reader.copies and planned.client in BUILTIN and planned.client not in COPIERS:
        raise CellError(f"client {planned.client} is no transactional copier; {', '.join(COPIERS)} are")
    if reader.mode == "share" and planned.client in BUILTIN and planned.client not in SHARERS:
        raise CellError(f"client {planned.client} is no member of share groups; {', '.join(SHARERS)} are")
    transactional = ("linger.ms", "batch.size", "compression.type", "request.timeout.ms")
    return MemberSpec(
        member=name,
        consumer=consumer,
        reader=number,
        incarnation=0,
        client=planned.client,
        bootstrap_servers=bootstrap_servers,
        topic=copies if reader.reads == "copies" else planned.topic_name,
        group_id=reader.group_id(planned.topic_name),
        journal="",
        # Clients differ in their defaults: Java's reads uncommitted records, librdkafka's does not.
        properties={
            **access,
            **({"isolation.level": "read_committed"} if reader.reads == "copies" else planned.workload.isolation),
            **reader.properties,
        },
        start=reader.start,
        commit=reader.commit,
        processing_us=reader.processing_us,
        copy_to=copies if reader.copies else "",
        transactional_id=transactional_id(planned.topic_name, name) if reader.copies else "",
        is_share=reader.mode == "share",
        runtime=client_runtime(planned.client) if is_process(planned.client) else {},
        group_settings=reader.group_settings,
        rejects_every=reader.rejects_every,
        releases_every=reader.releases_every,
        producer_properties={
            **access,
            **{name: value for name, value in planned.properties.items() if name in transactional},
            **reader.producer_properties,
        }
        if reader.copies
        else {},
    )


def _java_command(mode: str, options: Sequence[str]) -> tuple[str, ...]:
    """`mode`: of the Java program (workloads/clients/java/Client.java). `options`: further ones of the JVM."""
    runtime = client_runtime(JAVA)
    return (runtime["java.command"], "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options, "-cp",
            runtime["java.classpath"], PROGRAM, mode, STDIN)  # fmt: skip
