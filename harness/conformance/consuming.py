"""The trials of readers with partitions of their own: what is given against the log, after seeks and pauses."""

from __future__ import annotations

from typing import Final

from harness.conformance.bench import READ_S, Bench
from harness.conformance.judge import Rule, judge_reading
from harness.conformance.world import PARTITIONS
from workloads.clients.process.messages import EARLIEST, LATEST, Ability, partitions_of

RECORDS: Final = 120  # in each partition
_IDLE_POLLS: Final = 4
_DELETED: Final = 3_000  # in each partition
_DELETED_BYTES: Final = 100
ALONE: Final = {"enable.auto.commit": "false", "auto.offset.reset": "earliest"}


def filled(bench: Bench, what: str) -> str:
    topic = bench.world.topic(what)
    bench.world.fill(
        topic,
        [
            (partition, b"key-%d" % index if index % 3 else None, b"%s-%d-%d" % (topic.encode(), partition, index))
            for partition in range(PARTITIONS)
            for index in range(RECORDS)
        ],
    )
    return topic


def _connect(bench: Bench) -> None:
    """With a group only where the partitions come from one; nobody else is in it."""
    group = {} if bench.can(Ability.ASSIGN) else {"group.id": bench.world.name("reader")}
    bench.connect("consumer", properties=group, wished=ALONE)


def _read_from_the_beginning(bench: Bench, topic: str) -> None:
    """All partitions, with assign where the client has it, else as the only member of a group."""
    _connect(bench)
    if bench.can(Ability.ASSIGN):
        bench.do("assign", partitions=partitions_of({(topic, partition): 0 for partition in range(PARTITIONS)}))
    else:
        bench.do("subscribe", topics=[topic])


def assigned(bench: Bench) -> None:
    """One partition from its beginning, one from offset 50, one from its end: what stands there, once and in order."""
    topic = filled(bench, "assigned")
    log = bench.world.log(topic)
    _connect(bench)
    begins = {0: 0, 1: 50, 2: RECORDS}
    asked = {(topic, 0): EARLIEST, (topic, 1): 50, (topic, 2): LATEST}
    bench.do("assign", partitions=partitions_of(asked))
    wanted = RECORDS + RECORDS - 50
    bench.poll_until(lambda: len(bench.given(topic)) >= wanted)
    bench.poll()  # nothing more may come
    bench.close()
    bench.note(*judge_reading(bench.heard, log, begins=begins))


def small_polls(bench: Bench) -> None:
    """Polls of at most 7 records, of which the second half does not wait: none has more, and none is lost between."""
    topic = filled(bench, "small")
    log = bench.world.log(topic)
    _connect(bench)
    bench.do("assign", partitions=partitions_of({(topic, 0): 0}))
    bench.poll_until(lambda: len(bench.given(topic)) >= RECORDS // 2, max_records=7)
    bench.poll_until(lambda: len(bench.given(topic)) >= RECORDS, max_records=7, timeout_s=0)
    bench.close()
    bench.note(*judge_reading(bench.heard, log, begins={0: 0}))


def seeks(bench: Bench) -> None:
    """Seeks on all partitions at once, back and forward, after records were given: the next is the one sought."""
    topic = filled(bench, "seeks")
    log = bench.world.log(topic)
    _read_from_the_beginning(bench, topic)
    everywhere = set(range(PARTITIONS))
    bench.poll_until(lambda: {partition for partition, _ in bench.given(topic)} == everywhere, max_records=40)
    for target in ({0: 5, 1: 60, 2: 30}, {0: 100, 1: 7, 2: 90}):
        since = len(bench.heard)
        bench.do("seek", partitions=partitions_of({(topic, partition): at for partition, at in target.items()}))
        wanted = sum(RECORDS - at for at in target.values())

        def is_all(since: int = since, wanted: int = wanted) -> bool:
            return len(bench.given(topic, since=since)) >= wanted

        bench.poll_until(is_all, max_records=40)
        bench.note(*judge_reading(bench.heard[since:], log, begins=target))
    bench.close()


def pauses(bench: Bench) -> None:
    """Nothing of a paused partition is given, the others go on; after resume nothing is missing."""
    topic = filled(bench, "pauses")
    log = bench.world.log(topic)
    first = len(bench.heard)
    _read_from_the_beginning(bench, topic)
    bench.poll_until(lambda: len(bench.given(topic)) > 0, max_records=5)
    bench.do("pause", partitions=[{"topic": topic, "partition": 0}])
    since = len(bench.heard)
    bench.poll_until(lambda: {(1, RECORDS - 1), (2, RECORDS - 1)} <= set(bench.given(topic)), max_records=50)
    for _ in range(_IDLE_POLLS):
        bench.poll()
    for each, polled in bench.polled(since=since):
        if any(record.partition == 0 for record in polled.records):
            bench.note(each.mistake(Rule.LIE, f"{topic}-0 is paused, and a record of it is given"))
            break
    bench.do("resume", partitions=[{"topic": topic, "partition": 0}])
    bench.poll_until(lambda: len(bench.given(topic)) >= PARTITIONS * RECORDS)
    bench.close()
    bench.note(*judge_reading(bench.heard[first:], log, begins=dict.fromkeys(range(PARTITIONS), 0)))


def deletes(bench: Bench) -> None:
    """All but the last record of each partition is deleted when the reader has had some of the first: more than it may
    have fetched already. It goes on with what is there, as auto.offset.reset says, as a member of a group and alone."""
    for is_member in (True, False) if bench.can(Ability.ASSIGN) else (True,):
        topic = bench.world.topic("deletes")
        records = [(partition, None, b"x" * _DELETED_BYTES) for partition in range(PARTITIONS)] * (_DELETED + 1)
        bench.world.fill(topic, records)
        _read_what_is_left(bench, topic, is_member=is_member)


def _read_what_is_left(bench: Bench, topic: str, *, is_member: bool) -> None:
    group = {"group.id": bench.world.name("reader")} if is_member else {}
    bench.connect("consumer", properties=group, wished={**ALONE, "max.partition.fetch.bytes": "2000"})
    if is_member:
        bench.do("subscribe", topics=[topic])
    else:
        bench.do("assign", partitions=partitions_of({(topic, partition): 0 for partition in range(PARTITIONS)}))
    bench.poll_until(lambda: len(bench.given(topic)) > 0, max_records=5)
    for partition in range(PARTITIONS):
        bench.world.delete_records(topic, partition, _DELETED)
    last = {(partition, _DELETED) for partition in range(PARTITIONS)}
    if not bench.poll_until(lambda: last <= set(bench.given(topic))):
        reader, missing = "a member" if is_member else "alone", sorted(last - set(bench.given(topic)))
        what = f"{reader}, after the deletion of where it was: (partition, offset) {missing} did not come"
        bench.wrong(Rule.NOT_READ, what)
    bench.close()


def one_by_one(bench: Bench) -> None:
    """Seeks and pauses once more, where polls give one record each, by the library's other call."""
    bench.is_one_by_one = True
    if bench.can(Ability.SEEK):
        seeks(bench)
    if bench.can(Ability.PAUSE):
        pauses(bench)


def overlaps(bench: Bench) -> None:
    """A seek and a close while a poll waits, and a poll that is cancelled: each is answered, also the poll."""
    topic = filled(bench, "overlaps")
    _connect(bench)
    if bench.can(Ability.ASSIGN):  # the last record: some libraries seek only where something was polled
        bench.do("assign", partitions=partitions_of({(topic, 0): RECORDS - 1}))
    else:
        bench.do("subscribe", topics=[topic])
    bench.poll_until(lambda: len(bench.given(topic)) > 0)
    polling = bench.ask("poll", timeout_s=READ_S, max_records=10)
    if bench.can(Ability.CANCEL):
        bench.do("cancel", command=polling)
        bench.answer(polling)
        polling = bench.ask("poll", timeout_s=READ_S, max_records=10)
    if bench.can(Ability.SEEK) and bench.can(Ability.ASSIGN):
        bench.do("seek", partitions=partitions_of({(topic, 0): 10}))
        bench.answer(polling)
        polling = bench.ask("poll", timeout_s=READ_S, max_records=10)
    bench.close()
    bench.answer(polling)


def odd_bytes(bench: Bench) -> None:
    """A record's key and value come with their bytes, whatever they are."""
    topic = bench.world.topic("bytes")
    odd = ((bytes(range(256)), b"\x00\xff\n\r" * 50), (b"", b""), (b"large", b"x" * 900_000))
    bench.world.fill(topic, [(0, key, value) for key, value in odd])
    log = bench.world.log(topic)
    _connect(bench)
    bench.do("assign", partitions=partitions_of({(topic, 0): EARLIEST}))
    bench.poll_until(lambda: len(bench.given(topic)) >= 3)
    bench.close()
    bench.note(*judge_reading(bench.heard, log, begins={0: 0}))
