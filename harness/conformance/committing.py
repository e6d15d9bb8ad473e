"""The trials of members of groups: assignments, commits, a second member, copies in transactions, shares."""

from __future__ import annotations

import time
from typing import Final

from harness.conformance.bench import READ_S, Bench
from harness.conformance.consuming import RECORDS, filled
from harness.conformance.judge import Rule, Sent, judge_reading
from harness.conformance.world import PARTITIONS
from workloads.clients.process.messages import Ability, ShareAcknowledged, partitions_of

_MEMBER: Final = {"enable.auto.commit": "false", "auto.offset.reset": "earliest"}
_QUICK: Final = {"session.timeout.ms": "10000", "heartbeat.interval.ms": "500", "metadata.max.age.ms": "2000"}
_ALL: Final = PARTITIONS * RECORDS


def _join(bench: Bench, topic: str, group: str) -> None:
    bench.connect("consumer", properties={**_MEMBER, "group.id": group}, wished=_QUICK)
    bench.do("subscribe", topics=[topic])


def member(bench: Bench) -> None:
    """A member alone gets all partitions and all records. What it commits, the coordinator has. A second life of it
    begins there. When it is closed, the group is empty."""
    topic, group = filled(bench, "member"), bench.world.name("group")
    log = bench.world.log(topic)
    _join(bench, topic, group)
    bench.poll_until(lambda: len(bench.given(topic)) >= _ALL)
    bench.note(*judge_reading(bench.heard, log, begins=dict.fromkeys(range(PARTITIONS), 0)))
    if (held := bench.holds(topic)) != set(range(PARTITIONS)):
        bench.wrong(Rule.LIE, f"the only member was told of partitions {sorted(held)} by assigned and revoked")
    begins = {0: 10, 1: 60, 2: RECORDS}
    if bench.can(Ability.COMMIT):
        bench.commit({(topic, partition): at for partition, at in begins.items()})
        if (there := bench.world.committed(group, topic)) != begins:
            message = f"committed was told of {begins}, and the coordinator has {there}"
            bench.wrong(Rule.LIE, message, bench.heard[-1].event)
    _leave(bench, group)
    if not bench.can(Ability.COMMIT):
        return
    since = len(bench.heard)
    _join(bench, topic, group)
    wanted = sum(RECORDS - at for at in begins.values())
    bench.poll_until(lambda: len(bench.given(topic, since=since)) >= wanted)
    bench.poll()
    bench.note(*judge_reading(bench.heard[since:], log, begins=begins))
    _leave(bench, group)


def rebalance(bench: Bench, other: Bench) -> None:
    """A second member joins and leaves: together they have each partition once, and then the first has all again."""
    topic, group = filled(bench, "rebalance"), bench.world.name("group")
    _join(bench, topic, group)
    bench.poll_until(lambda: bench.holds(topic) == set(range(PARTITIONS)))
    _join(other, topic, group)
    deadline_s = time.monotonic() + 2 * READ_S

    def is_shared() -> bool:
        mine, theirs = bench.holds(topic), other.holds(topic)
        return bool(mine) and bool(theirs) and len(mine) + len(theirs) == PARTITIONS and not mine & theirs

    while not is_shared() and time.monotonic() < deadline_s:
        bench.poll(timeout_s=0.2)
        other.poll(timeout_s=0.2)
    if not is_shared():
        mine, theirs = sorted(bench.holds(topic)), sorted(other.holds(topic))
        bench.wrong(Rule.LIE, f"two members of one group say that they have partitions {mine} and {theirs}")
    other.close()
    if not bench.poll_until(lambda: bench.holds(topic) == set(range(PARTITIONS)), limit_s=2 * READ_S):
        bench.wrong(Rule.LIE, f"the other member has left, and this one has {sorted(bench.holds(topic))}")
    _leave(bench, group)


def copies(bench: Bench) -> None:
    """Records are copied to another topic with the group's offsets, in one transaction: committed, then aborted."""
    source, target, group = filled(bench, "source"), bench.world.topic("copies"), bench.world.name("group")
    properties = {**_MEMBER, "group.id": group, "transactional.id": bench.world.name("copier")}
    bench.connect("copier", properties=properties, wished=_QUICK)
    bench.do("subscribe", topics=[source])
    bench.poll_until(lambda: len(bench.given(source)) > 0)
    for end in ("commit", "abort"):
        before = bench.world.committed(group, source)
        positions = dict(bench.positions)
        bench.do("begin")
        bench.send(target, [Sent(key=None, value=b"%s-%d" % (end.encode(), seq)) for seq in range(10)])
        bench.do("send-offsets", timeout_s=READ_S, partitions=partitions_of(positions))
        bench.do(f"{end}-transaction", timeout_s=READ_S)
        wanted = {partition: at for (_, partition), at in positions.items()} if end == "commit" else before
        if (there := bench.world.committed(group, source)) != wanted:
            bench.wrong(Rule.LIE, f"after {end}-transaction the group's offsets are {there}, not {wanted}")
        bench.poll()
    # No transaction is open. What the library says to that is an error, and not the end of the program.
    bench.try_to("send-offsets", timeout_s=READ_S, partitions=partitions_of(bench.positions))
    bench.close()
    for record in bench.world.log(target).records:
        expected = "committed" if (record.value or b"").startswith(b"commit") else "aborted"
        if record.status != expected:
            where = f"{target}-{record.partition}, offset {record.offset}"
            bench.wrong(Rule.LIE, f"the record at {where} is {record.status}, and its transaction {expected}")
            return


def share(bench: Bench) -> None:
    """A member of a share group accepts some records, releases others and rejects the rest. Only the released ones come
    again."""
    topic, group = filled(bench, "share"), bench.world.name("share")
    bench.world.admin.alter_configs("group", group, {"share.auto.offset.reset": "earliest"})
    bench.connect("sharer", properties={"group.id": group})
    bench.do("subscribe", topics=[topic])
    kinds: dict[tuple[int, int], str] = {}
    deadline_s = time.monotonic() + READ_S
    while len(kinds) < _ALL and time.monotonic() < deadline_s:
        told = []
        for record in bench.poll():
            place = (record.partition, record.offset)
            kind = "accept" if place in kinds else ("accept", "release", "reject")[record.offset % 3]
            if place in kinds and kinds[place] != "release":
                bench.wrong(Rule.REPEATED, f"{topic}-{place[0]}, offset {place[1]} comes again after {kinds[place]}")
            kinds[place] = kind
            told.append({"topic": topic, "partition": place[0], "offset": place[1], "type": kind})
        if told:
            bench.do("share-acknowledge", records=told)
    if len(kinds) < _ALL:
        bench.wrong(Rule.NOT_READ, f"{len(kinds)} of {_ALL} records were given to the only member")
    bench.close()
    if not any(isinstance(each.event, ShareAcknowledged) for each in bench.heard):
        bench.wrong(Rule.LIE, "no share-acknowledged tells what the broker said")


def _leave(bench: Bench, group: str) -> None:
    bench.close()
    if count := bench.world.members(group):
        bench.wrong(Rule.LIE, f"the client is closed, and {count} member(s) are in its group {group}")
