"""`harness.tape.group`: one member and several, who waits for whom, and who is gone."""

from __future__ import annotations

from harness.tape.group import Group, Wish

UNKNOWN, ILLEGAL, REBALANCING = 25, 22, 27
SESSION_MS, REBALANCE_MS = 6_000, 10_000


def wish(metadata: bytes = b"m", *protocols: str, instance: str | None = None) -> Wish:
    return Wish(
        protocol_type="consumer",
        protocols=[(name, metadata) for name in protocols or ("range",)],
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        instance=instance,
    )


def stable(group: Group, *members: str, now_ms: int = 0) -> dict[str, str]:
    """All of them have joined, and have the assignment that says their name."""
    ids = {name: group.join("", wish(name.encode()), now_ms) for name in members}
    joined = [group.joined(one, now_ms) for one in ids.values()]
    # Who came before the others joins again when it is told so.
    if any(one is None for one in joined):
        ids = {name: group.join(one, wish(name.encode()), now_ms) for name, one in ids.items()}
    found = {name: group.joined(one, now_ms) for name, one in ids.items()}
    leader = next(one.leader for one in found.values() if one is not None)
    group.sync(leader, group.generation, {one: name.encode() for name, one in ids.items()}, now_ms)
    assert {name: group.synced(one, group.generation, now_ms) for name, one in ids.items()} == {
        name: (0, name.encode()) for name in members
    }
    return ids


def test_the_only_member_leads_at_once_and_each_join_is_another_generation() -> None:
    group = Group(1)
    member = group.join("", wish(b"mine", "range", "roundrobin"), 0)
    first = group.joined(member, 0)
    assert first is not None
    assert (first.code, first.generation, first.leader, first.protocol) == (0, 1, member, "range")
    assert first.others == [(member, None, b"mine")]
    group.sync(member, 1, {member: b"all"}, 0)
    assert group.synced(member, 1, 0) == (0, b"all")
    assert group.code_of(member, 1, 0) == 0
    group.join(member, wish(b"mine"), 0)
    again = group.joined(member, 0)
    assert again is not None
    assert again.generation == 2
    assert group.code_of(member, 1, 0) == ILLEGAL


def test_a_second_member_waits_until_the_first_one_has_joined_again() -> None:
    group = Group(2)
    ids = stable(group, "a")
    b = group.join("", wish(b"b"), 10)
    assert group.joined(b, 10) is None
    assert group.code_of(ids["a"], 1, 20) == REBALANCING
    group.join(ids["a"], wish(b"a"), 30)
    found = group.joined(b, 30)
    assert found is not None
    assert (found.generation, found.leader, found.others) == (2, ids["a"], ())
    assert group.synced(b, 2, 30) is None, "the leader has not said who gets what"
    group.sync(ids["a"], 2, {b: b"half"}, 40)
    assert group.synced(b, 2, 40) == (0, b"half")


def test_who_does_not_join_in_time_is_gone_and_the_others_go_on() -> None:
    group = Group(2)
    ids = stable(group, "a")
    b = group.join("", wish(b"b"), 0)
    for now_ms in range(0, REBALANCE_MS, 1_000):
        assert group.code_of(ids["a"], 1, now_ms) == REBALANCING  # It is alive, but never joins.
        assert group.joined(b, now_ms) is None
    found = group.joined(b, REBALANCE_MS)
    assert found is not None
    assert found.leader == b
    assert group.code_of(ids["a"], 1, REBALANCE_MS) == UNKNOWN


def test_who_is_silent_for_a_session_loses_its_partitions_to_the_others_and_alone_it_keeps_them() -> None:
    group = Group(2)
    ids = stable(group, "a", "b")
    assert group.code_of(ids["a"], group.generation, SESSION_MS - 1) == 0
    assert group.code_of(ids["a"], group.generation, SESSION_MS + 1) == REBALANCING, "b is gone"
    alone = Group(1)
    member = stable(alone, "a")["a"]
    assert alone.code_of(member, 1, 10 * SESSION_MS) == 0


def test_who_was_killed_makes_nobody_wait_because_the_program_has_no_more_members() -> None:
    group = Group(1)
    before = stable(group, "a")["a"]
    after = group.join("", wish(), 5)
    found = group.joined(after, 5)
    assert found is not None
    assert (found.code, found.leader) == (0, after)
    assert group.code_of(before, 1, 5) == UNKNOWN


def test_an_instance_comes_back_in_its_own_place() -> None:
    group = Group(2)
    first = group.join("", wish(instance="one"), 0)
    again = group.join("", wish(instance="one"), 1)
    found = group.joined(again, 1)
    assert found is not None
    assert [instance for _, instance, _ in found.others] == ["one"]
    assert group.code_of(first, 1, 1) == UNKNOWN


def test_a_member_that_leaves_makes_room_and_a_follower_that_joins_again_disturbs_nobody() -> None:
    group = Group(2)
    ids = stable(group, "a", "b")
    generation = group.generation
    group.join(ids["b"], wish(b"b"), 1)
    same = group.joined(ids["b"], 1)
    assert same is not None
    assert same.generation == generation
    assert group.leave(ids["b"], None, 2) == 0
    assert group.leave(ids["b"], None, 2) == UNKNOWN
    assert group.code_of(ids["a"], generation, 3) == REBALANCING


def test_a_commit_is_taken_from_who_has_the_partitions() -> None:
    group = Group(2)
    ids = stable(group, "a")
    assert group.code_of_commit("", -1, 0) == 0, "somebody who is no member"
    assert group.code_of_commit(ids["a"], 1, 0) == 0
    assert group.code_of_commit(ids["a"], 7, 0) == ILLEGAL
    assert group.code_of_commit("nobody", 1, 0) == UNKNOWN
    b = group.join("", wish(b"b"), 0)
    assert group.code_of_commit(ids["a"], 1, 0) == 0, "what it has, before it gives it up"
    group.join(ids["a"], wish(b"a"), 0)
    assert group.code_of_commit(b, 2, 0) == REBALANCING, "nobody knows yet who has what"


def test_the_protocol_is_one_that_all_offer() -> None:
    group = Group(2)
    a = group.join("", wish(b"a", "sticky", "range"), 0)
    b = group.join("", wish(b"b", "range"), 0)
    group.join(a, wish(b"a", "sticky", "range"), 0)
    assert {group.joined(one, 0).protocol for one in (a, b)} == {"range"}  # type: ignore[union-attr]
