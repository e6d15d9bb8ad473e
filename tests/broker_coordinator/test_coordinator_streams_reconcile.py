"""A member of a streams group goes towards its target in steps, and no task is in two places meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams_cases import ready

from broker.coordinator.groups.streams.assignor import StreamsMemberSpec, assign
from broker.coordinator.groups.streams.reconcile import Current, FencedMemberError, Holders, MemberState, reconcile
from broker.coordinator.groups.streams.tasks import EpochMap, HeldTasks, TaskId, TaskMap, Tasks
from tests.amount import examples

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_TASKS, MemberState.UNRELEASED_TASKS


def active(**epochs: int) -> EpochMap:
    """Tasks of subtopology `s`: t0=3 is task 0 of epoch 3."""
    return {"s": {int(name[1:]): epoch for name, epoch in epochs.items()}} if epochs else {}


def some(*indexes: int) -> TaskMap:
    return {"s": frozenset(indexes)} if indexes else {}


def holders(
    held: dict[int, str] | None = None, standby: dict[int, str] | None = None, warmup: dict[int, str] | None = None
) -> Holders:
    """The process that has each task of subtopology `s`."""

    def copies(of: dict[int, str] | None, task: TaskId) -> Set[str]:
        return {(of or {})[task[1]]} if task[1] in (of or {}) else set()

    return Holders(
        active=lambda task: (held or {}).get(task[1]),
        standby=lambda task: copies(standby, task),
        warmup=lambda task: copies(warmup, task),
    )


def step(
    current: Current, target: Tasks, *, epoch: int = 5, owned: Tasks | None = None, held: Holders | None = None
) -> Current:
    return reconcile(
        current, target=target, target_epoch=epoch, process_id="me", owned=owned, holders=held or holders()
    )


# -- rules -----------------------------------------------------------------------------------------------------------


def test_a_new_member_takes_the_tasks_that_are_free() -> None:
    target = Tasks(active=some(0, 1), standby=some(2), warmup=some(3))
    assert step(Current(), target) == Current(
        member_epoch=5,
        state=STABLE,
        assigned=HeldTasks(active=active(t0=5, t1=5), standby=some(2), warmup=some(3)),
    )


def test_a_member_that_has_its_target_stays_as_it_is() -> None:
    current = Current(member_epoch=5, previous_member_epoch=4, assigned=HeldTasks(active=active(t0=4)))
    assert step(current, Tasks(active=some(0, 1))) is current


def test_a_task_that_another_process_has_is_waited_for() -> None:
    after = step(Current(member_epoch=4), Tasks(active=some(0, 1)), held=holders({1: "other"}))
    assert after.state is UNRELEASED
    assert (after.member_epoch, after.previous_member_epoch) == (5, 4)
    assert after.assigned.active == active(t0=5)
    later = step(after, Tasks(active=some(0, 1)), held=holders({0: "me", 1: "other"}))
    assert later == replace(after, previous_member_epoch=5), "it goes on waiting"
    released = step(later, Tasks(active=some(0, 1)), held=holders({0: "me"}))
    assert released.state is STABLE
    assert released.assigned.active == active(t0=5, t1=5)


def test_a_task_that_another_member_of_the_process_has_is_waited_for_too() -> None:
    assert step(Current(), Tasks(active=some(0)), held=holders({0: "me"})).state is UNRELEASED


@pytest.mark.parametrize("kind", ["standby", "warmup"])
def test_a_task_is_not_taken_while_the_own_process_has_a_copy(kind: str) -> None:
    here = holders(standby={0: "me"}) if kind == "standby" else holders(warmup={0: "me"})
    there = holders(standby={0: "other"}) if kind == "standby" else holders(warmup={0: "other"})
    for target in (Tasks(active=some(0)), Tasks(standby=some(0)), Tasks(warmup=some(0))):
        assert step(Current(), target, held=here).state is UNRELEASED
        assert step(Current(), target, held=there).state is STABLE


def test_a_copy_may_be_made_of_a_task_that_is_active_elsewhere() -> None:
    for target in (Tasks(standby=some(0)), Tasks(warmup=some(0))):
        assert step(Current(), target, held=holders({0: "other"})).state is STABLE
        assert step(Current(), target, held=holders({0: "me"})).state is UNRELEASED


def test_tasks_are_revoked_first_and_the_epoch_stays() -> None:
    had = HeldTasks(active=active(t0=2, t1=3), standby=some(4, 5), warmup=some(6))
    current = Current(member_epoch=4, previous_member_epoch=3, assigned=had)
    target = Tasks(active=some(1, 2), standby=some(5))
    waiting = step(current, target)
    assert waiting == Current(
        member_epoch=4,
        previous_member_epoch=4,
        state=UNREVOKED,
        assigned=HeldTasks(active=active(t1=3), standby=some(5)),
        pending_revocation=HeldTasks(active=active(t0=2), standby=some(4), warmup=some(6)),
    )
    for owned in (None, Tasks(active=some(0, 1)), Tasks(standby=some(4)), Tasks(warmup=some(6))):
        assert step(waiting, target, owned=owned) is waiting
    done = step(waiting, target, owned=Tasks(active=some(1), standby=some(5)))
    assert done == Current(
        member_epoch=5,
        previous_member_epoch=4,
        assigned=HeldTasks(active=active(t1=3, t2=5), standby=some(5)),
    )


def test_a_task_that_is_owned_in_another_role_is_not_in_the_way() -> None:
    current = Current(
        member_epoch=4, state=UNREVOKED, pending_revocation=HeldTasks(active=active(t0=2), standby=some(1))
    )
    assert step(current, Tasks(), owned=Tasks(active=some(1), standby=some(0))).state is STABLE


def test_tasks_that_the_member_does_not_own_any_more_need_no_revocation() -> None:
    current = Current(member_epoch=4, assigned=HeldTasks(active=active(t0=4, t1=4)))
    after = step(current, Tasks(active=some(0)), owned=Tasks(active=some(0)))
    assert after.state is STABLE
    assert after.assigned.active == active(t0=4)


def test_a_member_that_has_revoked_and_must_revoke_more_enters_the_next_epoch() -> None:
    current = Current(
        member_epoch=2,
        state=UNREVOKED,
        assigned=HeldTasks(active=active(t1=2)),
        pending_revocation=HeldTasks(active=active(t0=2)),
    )
    after = step(current, Tasks(active=some(7)), epoch=9, owned=Tasks(active=some(1)))
    assert after.state is UNREVOKED
    assert (after.member_epoch, after.previous_member_epoch) == (3, 2), "one more, though the target is of epoch 9"
    assert after.pending_revocation == HeldTasks(active=active(t1=2))


def test_a_waiting_member_follows_a_newer_target() -> None:
    current = Current(member_epoch=5, state=UNRELEASED, assigned=HeldTasks(active=active(t0=5)))
    after = step(current, Tasks(active=some(0), standby=some(1)), epoch=6)
    assert (after.state, after.member_epoch) == (STABLE, 6)
    revoking = step(current, Tasks(standby=some(1)), epoch=6)
    assert (revoking.state, revoking.member_epoch) == (UNREVOKED, 5)


def test_a_member_in_an_unknown_state_must_give_up_everything() -> None:
    current = Current(member_epoch=5, state=MemberState.UNKNOWN, assigned=HeldTasks(active=active(t0=5)))
    for owned in (None, Tasks(active=some(0)), Tasks(standby=some(0)), Tasks(warmup=some(0))):
        with pytest.raises(FencedMemberError, match="must abandon all its tasks and rejoin"):
            step(current, Tasks(active=some(0)), owned=owned)
    assert step(current, Tasks(active=some(0)), owned=Tasks(), epoch=6).state is STABLE


# -- a group ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Member:
    process_id: str
    current: Current = field(default_factory=Current)
    target: Tasks = field(default_factory=Tasks)


class Group:
    """Members, their targets, and heartbeats that come in any order."""

    def __init__(self, subtopologies: dict[str, tuple[int, bool]], replicas: int) -> None:
        self.topology = ready(subtopologies)
        self.replicas = replicas
        self.members: dict[str, Member] = {}
        self.epoch = 1

    def rebalance(self) -> None:
        self.epoch += 1
        specs = [
            StreamsMemberSpec(member_id=name, process_id=member.process_id, present=member.target)
            for name, member in self.members.items()
        ]
        if specs:
            for name, tasks in assign(specs, self.topology, standby_replicas=self.replicas).items():
                self.members[name].target = tasks

    def heartbeat(self, name: str, *, tells: bool) -> None:
        """`tells`: the member says what it owns. That is what it was assigned last."""
        member = self.members[name]
        member.current = reconcile(
            member.current,
            target=member.target,
            target_epoch=self.epoch,
            process_id=member.process_id,
            owned=_flat(member.current.assigned) if tells else None,
            holders=self._holders(),
        )
        self.check_invariants()

    def _held(self) -> list[tuple[Member, HeldTasks]]:
        pairs = [(member, member.current) for member in self.members.values()]
        return [(m, tasks) for m, current in pairs for tasks in (current.assigned, current.pending_revocation)]

    def _holders(self) -> Holders:
        held = self._held()

        def active_in(task: TaskId) -> str | None:
            return next((m.process_id for m, tasks in held if task[1] in tasks.active.get(task[0], ())), None)

        return Holders(
            active=active_in,
            standby=lambda task: {m.process_id for m, tasks in held if task[1] in tasks.standby.get(task[0], ())},
            warmup=lambda task: {m.process_id for m, tasks in held if task[1] in tasks.warmup.get(task[0], ())},
        )

    def check_invariants(self) -> None:
        owners: Counter[TaskId] = Counter()
        places: Counter[tuple[str, TaskId]] = Counter()
        for member, tasks in self._held():
            for kind in (tasks.active, tasks.standby, tasks.warmup):
                for name, indexes in kind.items():
                    assert indexes, "no empty sets"
                    places.update((member.process_id, (name, index)) for index in indexes)
            owners.update((name, index) for name, epochs in tasks.active.items() for index in epochs)
        assert all(count == 1 for count in owners.values()), "an active task has one owner"
        assert all(count == 1 for count in places.values()), "a process has a task once"
        assert all(member.current.member_epoch <= self.epoch for member in self.members.values())


def _flat(tasks: HeldTasks) -> Tasks:
    return Tasks(
        active={name: frozenset(epochs) for name, epochs in tasks.active.items()},
        standby=tasks.standby,
        warmup=tasks.warmup,
    )


@settings(max_examples=examples(120), deadline=None)
@given(data=st.data(), replicas=st.integers(0, 2), tasks=st.integers(1, 5))
def test_no_task_is_in_two_places_and_every_member_gets_its_target(
    data: st.DataObject, replicas: int, tasks: int
) -> None:
    group = Group({"0": (tasks, True), "1": (2, False)}, replicas)
    for number in range(data.draw(st.integers(1, 12))):
        kind = data.draw(st.sampled_from(("join", "leave", "heartbeat", "heartbeat", "heartbeat")))
        if kind == "join" or not group.members:
            group.members[f"m{number}"] = Member(process_id=data.draw(st.sampled_from("pqr")))
            group.rebalance()
        elif kind == "leave":
            del group.members[data.draw(st.sampled_from(sorted(group.members)))]
            group.rebalance()
        else:
            group.heartbeat(data.draw(st.sampled_from(sorted(group.members))), tells=data.draw(st.booleans()))
    for _ in range(4):  # rounds: revoke, take what is free, take what others released
        for name in sorted(group.members):
            group.heartbeat(name, tells=True)
    for member in group.members.values():
        assert member.current.state is STABLE
        assert member.current.member_epoch == group.epoch
        assert _flat(member.current.assigned) == member.target
