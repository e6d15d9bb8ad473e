"""One cell from topic to outcome: load, faults, healing, final read, compaction. It leaves the cluster healthy for the
next cell.

After any error, faults are healed, the load process ends, the recorders stop, and cell.json says how far the cell came.
Shown by tests/harness/test_harness_wheel_install.py, which runs the demo, and test_harness_full_disk_at_end.py.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from harness.cleanup_steps import undo_all
from harness.clusters.capabilities import Processes
from harness.clusters.cluster import Cluster
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.own_groups import OwnGroups
from harness.errors import CellError, is_full
from harness.planned_cell import PlannedCell
from harness.run.cells.cell_record import cell_record
from harness.run.cells.load_run import LoadRun
from harness.run.cells.members import MemberProcesses
from harness.run.cells.own_users import OwnUsersProcess
from harness.run.cells.send_outcomes import nothing_came_of
from harness.run.cells.timeline_driver import TimelineDriver
from harness.run.cells.topics import delete_own, own_groups, own_topics
from harness.run.context import RunContext
from harness.run.directory.outcome import Outcome
from harness.run.directory.reserved_space import is_room_gone, write_last
from harness.run.directory.secret_removal import scrub
from harness.run.evidence.ground_truth import HEALTH_TIMEOUT_S, GroundTruth
from harness.run.generator.workload_process import Load
from harness.run.recording.cell_recording import CellRecording
from harness.run.recording.truncation import DeadLogs
from runlog.files.paths import cell_directory, events_path
from runlog.records.cell import CellAnomaly, CellStatus, FilesRecord, MembersRecord, OutcomeRecord
from runlog.records.documents import write_cell
from runlog.records.holes import HoleKind
from runlog.records.lines import CLUSTER, STATS, RecordWriter
from runlog.streams.compact import compact_cell
from runlog.streams.inventory import take_inventory

TOPIC_TIMEOUT_S: Final = 20.0
_ASK_FOR_ROOM_S: Final = 3.0


def _nothing() -> None:
    """Does nothing. The default for a listener that is not set."""


class CellRun:
    def __init__(
        self,
        context: RunContext,
        planned: PlannedCell,
        cluster: Cluster,
        load: Load,
        order: int,
        chaos: TimelineDriver | None,
    ) -> None:
        self._context, self._planned, self._cluster = context, planned, cluster
        self._order, self._chaos = order, chaos
        self._directory = cell_directory(context.run_dir, planned.cell_id)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._outcome = Outcome(started_us=context.clock.now_us())
        self._admin = Admin(cluster.direct_addresses, should_stop=context.stop.is_set)
        self._topics = own_topics(self._admin, cluster, context)
        self._groups: OwnGroups | None = None
        self._cluster_events = RecordWriter(events_path(context.run_dir, planned.cell_id, "cluster"), CLUSTER)
        self._stats = RecordWriter(events_path(context.run_dir, planned.cell_id, "stats"), STATS)
        # The credentials go only to the load and the members, and into no file of the run, because they contain
        # passwords.
        access = dict(cluster.client_properties)
        self._members = MemberProcesses(planned, context, cluster.bootstrap_servers, access)
        self._own_users = OwnUsersProcess(planned, context, cluster.bootstrap_servers, access)
        self._load = LoadRun(
            context, planned, cluster, load, access=access, chaos=chaos, outcome=self._outcome, stats=self._stats
        )
        dead_logs = DeadLogs(planned.topic_name, planned.partitions)
        self._recording = CellRecording(
            planned,
            cluster,
            context.clock,
            cluster_events=self._cluster_events,
            stats=self._stats,
            wire_path=events_path(context.run_dir, planned.cell_id, "wire"),
            load_pid=self._load.pid,
            dead_logs=dead_logs,
        )
        self._truth = GroundTruth(
            context,
            planned,
            cluster,
            dead_logs=dead_logs,
            outcome=self._outcome,
            cluster_events=self._cluster_events,
            exchanges=self._recording.exchanges,
        )
        self._load.on_hosts = self._write_for_gathering
        self._files: FilesRecord | None = None
        self._was_without_room = False  # at the end, before the load gave some back or after it
        self.is_disk_full = False  # the disk of the run, or that of a process of ours; known at the end
        if chaos is not None:
            chaos.on_cluster_event = self._cluster_events.append
            chaos.members = self._members
            chaos.own_topics = self._topics
        # The orchestrator starts the next load process from here.
        self.on_load_finished: Callable[[], object] = _nothing

    def add_notes(self, notes: Iterable[str]) -> None:
        """Adds notes from before the cell began. They become a part of its outcome."""
        self._outcome.note(*notes)

    def carry_out(self) -> OutcomeRecord:
        """Never raises for errors of cluster or load, nor for a full disk. The outcome says what happened."""
        outcome = self._outcome
        try:
            self._write()
            with self._recording.running(outcome):
                self._prepare_topic()
                self._recording.begin_requests()
                self._members.start()
                self._own_users.start()
                self._load.run()
                self._end_own_users()
                self._heal_and_wait()
                self._await_members()
                self._read_back()
            outcome.end(*self._verdict_of_run())
        except CellError as error:
            # Often the words of a client library.
            outcome.end(CellStatus.FAILED, self._context.redactor.foreign_text(str(error)), error.anomaly)
            if self._context.stop.is_set():
                outcome.end(*self._verdict_of_run())
        except OSError as error:
            if not is_full(error):
                raise
            outcome.fail_to_write(error)  # told at the end, with what else is known then
            is_stopped = self._context.stop.is_set()
            outcome.end(*(self._verdict_of_run() if is_stopped else (CellStatus.FAILED, "")))
        finally:
            self._finish()
        return outcome.record

    # --- phases -----------------------------------------------------------------------------------------------------

    def _prepare_topic(self) -> None:
        planned = self._planned
        self._context.progress.phase("topic")
        self._groups = own_groups(planned, self._cluster, self._context)
        for topic in planned.all_topics:
            self._topics.create(
                topic,
                partitions=planned.partitions,
                replication_factor=planned.replication_factor,
                config=planned.topic_config,
            )
        for topic in planned.all_topics:
            if not self._becomes_healthy(topic, TOPIC_TIMEOUT_S):
                raise CellError(f"topic {topic} had no full ISR after {TOPIC_TIMEOUT_S:.0f} s")
        record = self._outcome.record
        settings = replace(
            record.effective, topic=self._admin.topic_config(planned.topic_name), broker=self._broker_settings()
        )
        self._outcome.record = replace(record, effective=settings)

    def _heal_and_wait(self) -> None:
        """Runs also after an interruption, because every fault of this cell must be healed."""
        self._context.progress.phase("heal")
        if self._chaos is not None:
            self._chaos.finish(interrupted=self._context.stop.is_set())
        if self._context.stop.is_set():
            return
        self.on_load_finished()
        if isinstance(self._cluster, Processes) and set(self._cluster.pids()) != set(self._cluster.broker_addresses()):
            self._check_room()
        self._cluster.ensure_all_running()
        if not all(self._becomes_healthy(topic, HEALTH_TIMEOUT_S) for topic in self._planned.all_topics):
            state = f":\n{self._cluster.describe()}" if isinstance(self._cluster, Processes) else ""
            raise CellError(
                f"the cluster did not get healthy again after the last fault was healed "
                f"(limit {HEALTH_TIMEOUT_S:.0f} s){state}",
                anomaly=CellAnomaly.NO_RECOVERY,
            )
        self._truth.tell_of_lost_leaders()

    def _check_room(self) -> None:
        """OSError if the disk of the run is full or was: brokers of ours write there too, and one that cannot write
        does not come back and does not get into the ISR."""
        if self._load.full_disk or is_room_gone(self._context.run_dir):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _becomes_healthy(self, topic: str, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while True:
            began, turn_s = time.monotonic(), min(_ASK_FOR_ROOM_S, deadline - time.monotonic())
            if self._cluster.wait_healthy(topic, timeout_s=turn_s, replication_factor=self._planned.replication_factor):
                return True
            self._check_room()
            # What no waiting mends, a dead broker or a signal, has ended the turn before its time.
            if time.monotonic() < began + turn_s or time.monotonic() >= deadline:
                return False

    def _end_own_users(self) -> None:
        """What they did is part of the load, and none of the evidence."""
        if problem := self._own_users.problem:
            self._load.problems = (*self._load.problems, problem)
        self._own_users.stop()
        if self._own_users.note:
            self._outcome.note(self._own_users.note)

    def _await_members(self) -> None:
        """Members read on until they have everything. A member that does not, or that ended by itself, is reported."""
        if not self._members.are_there or self._context.stop.is_set():
            return
        self._context.progress.phase("members")
        missing = self._members.await_caught_up(self._truth.end_offset, self._planned.workload.drain_ms / 1000)
        found = MembersRecord(
            caught_up=not missing,
            missing=missing,
            died=tuple(self._members.unasked_ends()),
            deliveries=self._members.finish(),
        )
        self._outcome.record = replace(self._outcome.record, members=found)

    def _read_back(self) -> None:
        """An interrupted run skips it, because the log would be read while the cluster is taken down."""
        if not self._context.stop.is_set():
            self._truth.read(sent=self._load.sends.sent if self._load.sends else 0)

    def _verdict_of_run(self) -> tuple[CellStatus, str]:
        if self._context.stop.is_set():
            return CellStatus.INTERRUPTED, "stopped by a signal"
        if self._chaos is not None and self._chaos.problem:
            return CellStatus.FAILED, f"the fault timeline failed: {self._chaos.problem}"
        if problem := self._truth.problem or self._recording.problem:
            return CellStatus.FAILED, problem
        if self._load.problems:  # the evidence is complete, but a part of the planned load is missing
            problems = self._context.redactor.foreign_text("; ".join(self._load.problems))
            return CellStatus.FAILED, f"part of the load failed: {problems}"
        if self._planned.kind != "search" and (
            problem := nothing_came_of(self._load.sends, acks=str(self._planned.properties.get("acks", "all")))
        ):
            return CellStatus.FAILED, problem
        return CellStatus.DONE, ""

    # --- around -----------------------------------------------------------------------------------------------------

    def _broker_settings(self) -> dict[str, str]:
        for broker_id, address in self._cluster.broker_addresses().items():
            settings = self._admin.broker_config(broker_id, address)
            if settings:
                return settings
        return {}

    def _finish(self) -> None:
        """Runs at every end of a cell: end the load, heal, compact, write the outcome, drop the topic. Each is done,
        whatever became of the one before. An error that is no full disk is raised after all."""
        self._heal_and_end()
        problems = [*self._compact(), *self._close_files()]
        self._list_files()
        self._look_at_the_disk()
        problems += undo_all([self._write])
        # A host forgets only what is here, compacted and listed.
        problems += undo_all([self._delete_own] if problems else [self._load.forget_at_hosts, self._delete_own])
        if others := [problem for problem in problems if not is_full(problem)]:
            raise others[0]

    def _heal_and_end(self) -> None:
        chaos, outcome = self._chaos, self._outcome
        # Before the load ends, because it gives back much of its room then.
        ends: list[Callable[[], object]] = [self._look_for_room, self._load.stop, self._own_users.stop]
        ends.append(self._members.finish)
        if chaos is not None:
            ends.insert(0, partial(chaos.finish, interrupted=True))  # does nothing when it has finished already
        # The load and the members write down what they did when they end.
        self._miss(HoleKind.UNKNOWN, "at the end of the cell", undo_all(ends))
        if chaos is not None and chaos.unhealed:
            why = f"a heal of ours failed ({chaos.unhealed})"
            outcome.miss(HoleKind.FAULTS, why)  # how long that fault went on, nobody has seen
            outcome.blame_us(why)
        record, ended_us = outcome.record, self._context.clock.now_us()
        is_cut_short = record.measure_start_us is not None and record.measure_end_us is None
        outcome.record = replace(
            record,
            measure_end_us=ended_us if is_cut_short else record.measure_end_us,  # the measured window ends now
            ended_us=ended_us,
        )

    def _miss(self, kind: HoleKind, what: str, problems: Sequence[Exception]) -> None:
        for problem in problems:
            self._outcome.miss(kind, f"{what}: {problem}")
            self._outcome.fail_to_write(problem)

    def _compact(self) -> list[Exception]:
        """What failed. The segments stay then, and `harness report` tries it again."""

        def compact() -> None:
            result, record = compact_cell(self._context.run_dir, self._planned.cell_id), self._outcome.record
            self._outcome.record = replace(record, producers=result.producers or record.producers)

        problems = undo_all([compact])
        for kind in (HoleKind.SEND_ROWS, HoleKind.RECV_ROWS):
            self._miss(kind, "the run log was not brought into Parquet", problems)
        return problems

    def _close_files(self) -> list[Exception]:
        problems = undo_all([self._cluster_events.close, self._stats.close])
        self._miss(HoleKind.CELL_FILE, "a file of the cell was not closed", problems)
        return problems

    def _look_for_room(self) -> None:
        self._was_without_room = self._was_without_room or is_room_gone(self._context.run_dir)

    def _look_at_the_disk(self) -> None:
        """A full disk is ours, and so is what may have come of it: brokers of ours write there too."""
        outcome, chaos = self._outcome, self._chaos
        if chaos is not None and chaos.disk_error is not None:
            outcome.fail_to_write(chaos.disk_error)
        is_odd = outcome.record.anomaly is not CellAnomaly.NONE
        self._look_for_room()
        if is_odd and not outcome.full_disk and self._was_without_room:
            outcome.full_disk = "it has no room left"
        # A load process may tell of it. Words of others do not count: a fault may have filled the disk of a broker, and
        # load hosts and fault hosts have disks of their own.
        is_told = not is_odd and bool(self._load.full_disk)
        self.is_disk_full = is_told or bool(outcome.full_disk)
        if outcome.full_disk:
            outcome.spoil(f"the disk of the run is full: {outcome.full_disk}")

    def _delete_own(self) -> None:
        problems = delete_own(self._topics, self._groups, self._cluster, self._context)
        if problems:
            self._outcome.note(*problems)
            self._write()

    def _write_for_gathering(self) -> None:
        """Writes which host has which part, so that it can be gathered if the harness is killed or a host is lost."""
        self._write()
        if self._context.copy is not None:
            self._context.copy.cell_written(self._planned.cell_id)

    def _list_files(self) -> None:
        """Lists the files of the cell, after the last write, and after secrets in texts of others were removed. With
        the list, the analysis notices a file that is lost or changed. Without it the cell is inconclusive."""
        try:
            scrub(self._directory, self._context.redactor)
            self._files = take_inventory(self._context.run_dir, self._planned.cell_id)
        except (OSError, ValueError) as error:  # Arrow's errors are ValueErrors
            self._miss(HoleKind.CELL_FILE, "the cell's files could not be listed", [error])

    def _write(self) -> None:
        record = cell_record(
            self._planned, self._cluster, self._order, self._context, outcome=self._outcome.record, files=self._files
        )
        run_dir, clean = self._context.run_dir, self._context.redactor.document
        write_last(run_dir, lambda: write_cell(run_dir, record, clean=clean))
