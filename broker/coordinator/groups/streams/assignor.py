"""The sticky assignor of streams groups (KIP-1071). It is pure.

First the active tasks are assigned, then the standby tasks of subtopologies with state. A task goes

1. to the member that had it as active task,
2. else to a member that had it as standby task,
3. else to the least loaded member of the least loaded process. The load of a process is its number of tasks for each
   member.

In steps 1 and 2 a member takes tasks only up to its even share. A process never has a task twice. So there are fewer
standby tasks than wanted if there are too few processes. Racks, client tags, warm-up tasks and offsets have no effect,
as in Apache Kafka 4.3.1.

The results are those of Kafka's StickyTaskAssignor, also where it breaks ties in the order of a hash map: java_order.py
knows that order. It does not know in which order Kafka's coordinator met members whose ids fall into the same bucket.
These are taken by id here. So Kafka may choose another of several members that are equally good.
Shown by tests/broker_coordinator/test_coordinator_streams_assignor.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from broker.coordinator.groups.streams.configured import ConfiguredSubtopology, ConfiguredTopology
from broker.coordinator.groups.streams.java_order import PriorityQueue, hash_order
from broker.coordinator.groups.streams.tasks import TaskId, TaskMap, Tasks

NAME = "sticky"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMemberSpec:
    member_id: str
    process_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    present: Tasks = field(default_factory=Tasks)  # its previous target assignment
    task_offsets: Mapping[TaskId, int] = field(default_factory=dict)
    task_end_offsets: Mapping[TaskId, int] = field(default_factory=dict)


class AssignorError(Exception):
    """The tasks cannot be assigned: there is no member."""


def assign(
    members: Sequence[StreamsMemberSpec], topology: ConfiguredTopology, *, standby_replicas: int = 0
) -> dict[str, Tasks]:
    """The target tasks of each member, by member id. `standby_replicas` is num.standby.replicas. Nobody gets a task
    while topics are missing. Raises AssignorError."""
    if not topology.is_ready:
        return {member.member_id: Tasks() for member in members}
    assert topology.subtopologies is not None
    work = _Work(members, topology.subtopologies, standby_replicas)
    work.assign_active()
    if standby_replicas > 0:
        work.assign_standby()
    return work.result()


class _Process:
    """The members of one process, and their tasks."""

    def __init__(self, member_ids: Iterable[str]) -> None:
        self.counts = dict.fromkeys(hash_order(member_ids), 0)  # member id -> number of its tasks
        self.tasks: set[TaskId] = set()
        self.load = 0.0
        self._by_load: PriorityQueue[str] | None = None  # None: a count has changed since

    def add(self, member_id: str, task: TaskId) -> int:
        """Returns how many tasks the member has then."""
        self._by_load = None
        return self._add(member_id, task)

    def add_to_least_loaded(self, task: TaskId) -> tuple[str, int]:
        """Returns the member, and how many tasks it has then."""
        if self._by_load is None:
            self._by_load = PriorityQueue()
            for each, count in self.counts.items():
                self._by_load.push(count, each)
        member_id = self._by_load.pop()
        assert member_id is not None
        count = self._add(member_id, task)
        self._by_load.push(count, member_id)
        return member_id, count

    def _add(self, member_id: str, task: TaskId) -> int:
        self.tasks.add(task)
        self.counts[member_id] += 1
        self.load = len(self.tasks) / len(self.counts)
        return self.counts[member_id]


class _Share:
    """How many tasks a member may keep. Members that have reached the share leave the calculation with their tasks. So
    the share of the others may become smaller."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self._compute()

    def _compute(self) -> None:
        self.size = -(-self._tasks // self._members) if self._members else 0

    def count(self, tasks: int) -> None:
        """A member has this many tasks now."""
        if tasks == self.size:
            self._members -= 1
            self._tasks -= tasks
            self._compute()


class _Work:
    def __init__(
        self,
        members: Sequence[StreamsMemberSpec],
        subtopologies: Mapping[str, ConfiguredSubtopology],
        standby_replicas: int,
    ) -> None:
        self._replicas = standby_replicas
        self._active_tasks = _tasks_of(subtopologies)
        self._stateful_tasks = _tasks_of({name: each for name, each in subtopologies.items() if each.is_stateful})
        self._active: dict[str, list[TaskId]] = {member.member_id: [] for member in members}
        self._standby: dict[str, list[TaskId]] = {member.member_id: [] for member in members}
        total = len(self._active_tasks) + len(self._stateful_tasks) * standby_replicas
        self._active_share = _Share(len(self._active_tasks), len(members))
        self._total_share = _Share(total, len(members))
        by_id = {member.member_id: member for member in members}
        ranked = [by_id[member_id] for member_id in hash_order(sorted(by_id))]
        in_process: dict[str, list[str]] = {}
        for member in ranked:
            in_process.setdefault(member.process_id, []).append(member.member_id)
        order = hash_order(in_process, capacity=len(members))
        self._processes = {process_id: _Process(in_process[process_id]) for process_id in order}
        self._process_of = {member.member_id: self._processes[member.process_id] for member in ranked}
        self._had_active: dict[TaskId, str] = {}
        self._had_standby: dict[TaskId, list[str]] = {}
        for member in ranked:
            for task in _each(member.present.active):
                self._had_active[task] = member.member_id
            for task in _each(member.present.standby):
                self._had_standby.setdefault(task, []).append(member.member_id)

    # -- active tasks ------------------------------------------------------------------------------------------------

    def assign_active(self) -> None:
        tasks = sorted(self._active_tasks, key=_by_partition)
        tasks = [task for task in tasks if not self._keep_active(task, self._had_active.get(task))]
        tasks = [task for task in tasks if not self._keep_active(task, self._least_loaded(self._had_standby.get(task)))]
        queue = self._queue()
        for task in sorted(tasks):
            process = queue.pop()
            if process is None:
                raise AssignorError(f"No process available to assign active task {task[0]}_{task[1]}.")
            member_id, count = process.add_to_least_loaded(task)
            self._add_active(member_id, task, count)
            queue.push(process.load, process)

    def _keep_active(self, task: TaskId, member_id: str | None) -> bool:
        if member_id is None:
            return False
        process = self._process_of[member_id]
        if process.counts[member_id] >= self._active_share.size:
            return False
        self._add_active(member_id, task, process.add(member_id, task))
        return True

    def _add_active(self, member_id: str, task: TaskId, count: int) -> None:
        self._active[member_id].append(task)
        self._active_share.count(count)
        self._total_share.count(count)

    # -- standby tasks -----------------------------------------------------------------------------------------------

    def assign_standby(self) -> None:
        missing: list[tuple[TaskId, int]] = []
        for task in sorted(self._stateful_tasks, key=_by_partition, reverse=True):
            for kept in range(self._replicas):
                if not self._keep_standby(task):
                    missing.append((task, self._replicas - kept))
                    break
        queue = self._queue()
        for task, count in sorted(missing, reverse=True):
            for _ in range(count):
                if not self._add_to_least_loaded_process(queue, task):
                    break  # every process has the task already

    def _keep_standby(self, task: TaskId) -> bool:
        had_active = self._had_active.get(task)
        if had_active is not None and task not in self._process_of[had_active].tasks and self._may_keep(had_active):
            self._add_standby(had_active, task, self._process_of[had_active].add(had_active, task))
            return True
        had_standby = self._least_loaded(self._had_standby.get(task), without=task)
        if had_standby is not None and self._may_keep(had_standby):
            self._add_standby(had_standby, task, self._process_of[had_standby].add(had_standby, task))
            return True
        return False

    def _may_keep(self, member_id: str) -> bool:
        return self._process_of[member_id].counts[member_id] < self._total_share.size

    def _add_to_least_loaded_process(self, queue: PriorityQueue[_Process], task: TaskId) -> bool:
        """At most `standby_replicas` + 1 processes have the task, so few are taken from the queue."""
        taken: list[_Process] = []
        is_added = False
        while not is_added and (process := queue.pop()) is not None:
            taken.append(process)
            if task not in process.tasks:
                member_id, count = process.add_to_least_loaded(task)
                self._add_standby(member_id, task, count)
                is_added = True
        for process in reversed(taken):
            queue.push(process.load, process)
        return is_added

    def _add_standby(self, member_id: str, task: TaskId, count: int) -> None:
        self._standby[member_id].append(task)
        self._total_share.count(count)

    # -- both --------------------------------------------------------------------------------------------------------

    def _queue(self) -> PriorityQueue[_Process]:
        queue: PriorityQueue[_Process] = PriorityQueue()
        for process in self._processes.values():
            queue.push(process.load, process)
        return queue

    def _least_loaded(self, member_ids: Sequence[str] | None, *, without: TaskId | None = None) -> str | None:
        """A member is better than the best before it if its process has less load and it has fewer tasks itself.

        `without`: only members of processes without this task. As in Kafka, there is no result if the process of the
        first member has it.
        """
        if not member_ids:
            return None
        first = best = member_ids[0]
        if without is not None and without in self._process_of[first].tasks:
            return None
        for member_id in member_ids[1:]:
            process, least = self._process_of[member_id], self._process_of[best]
            if process.load >= least.load or process.counts[member_id] >= least.counts[best]:
                continue
            if without is None or without not in process.tasks:
                best = member_id
        return best

    def result(self) -> dict[str, Tasks]:
        return {
            member_id: Tasks(active=_by_subtopology(active), standby=_by_subtopology(self._standby[member_id]))
            for member_id, active in self._active.items()
        }


def _tasks_of(subtopologies: Mapping[str, ConfiguredSubtopology]) -> list[TaskId]:
    return [(name, index) for name, subtopology in subtopologies.items() for index in range(subtopology.tasks)]


def _by_partition(task: TaskId) -> tuple[int, str]:
    return task[1], task[0]


def _each(tasks: TaskMap) -> Iterable[TaskId]:
    return ((name, index) for name, indexes in tasks.items() for index in indexes)


def _by_subtopology(tasks: Iterable[TaskId]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for name, index in tasks:
        found.setdefault(name, set()).add(index)
    return {name: frozenset(indexes) for name, indexes in sorted(found.items())}
