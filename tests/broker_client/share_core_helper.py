"""A cluster for the share consumer's core: the cores of share_groups/delivery, and a network that loses requests."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError
from broker.client.core.metadata import BrokerAddress, MetadataAnswer, MetadataCache, PartitionState, TopicState
from broker.client.core.shares.config import parse_share_consumer
from broker.client.core.shares.fetcher import ShareFetcher
from broker.client.core.shares.ranges import ranges_of
from broker.client.core.shares.values import (
    FINAL_EPOCH,
    FIRST_EPOCH,
    AcknowledgeType,
    Place,
    ShareAnswer,
    SharePart,
    ShareRecord,
    ShareRequest,
)
from broker.node.features.share_groups.delivery.deliveries import Fetched, Limits
from broker.node.features.share_groups.delivery.partition import Acknowledgement, Refusal, SharePartition
from broker.node.features.share_groups.delivery.sessions import ShareSessions
from broker.wire.errors import ErrorCode
from broker.wire.records import encode_batch

A = UUID(int=7)
LOCK_MS = 1000
SETTINGS = {"bootstrap.servers": "h:1", "group.id": "g", "retry.backoff.ms": 10, "retry.backoff.max.ms": 10}
BATCH = 5  # records of a batch in the model


def fetcher_of(seed: int = 1, *, leaders: tuple[int, ...] = (1, 1)) -> ShareFetcher:
    rng = random.Random(seed)
    metadata = MetadataCache(max_age_ms=10**9, backoff_first_ms=10, backoff_max_ms=10, rng=rng)
    metadata.on_answer(metadata_of(leaders), 0)
    return ShareFetcher(parse_share_consumer(SETTINGS), metadata, rng)


def metadata_of(leaders: tuple[int, ...]) -> MetadataAnswer:
    partitions = tuple(
        PartitionState(partition=index, leader=leader, leader_epoch=0) for index, leader in enumerate(leaders)
    )
    return MetadataAnswer(
        brokers=tuple(BrokerAddress(broker_id=node, host="h", port=node) for node in sorted(set(leaders))),
        topics=(TopicState(name="a", partitions=partitions, topic_id=str(A)),),
    )


def log_of(offsets: range) -> bytes:
    """One record batch with these offsets."""
    return encode_batch([str(offset).encode() for offset in offsets], timestamps_ms=1000, base_offset=offsets.start)


def run_of(fetcher: ShareFetcher, part: SharePart, now_ms: int = 0) -> None:
    """The fetcher reads partition a-0, and the broker answers with this."""
    fetcher.assign([TopicPartition("a", 0)])
    fetcher.on_sent(1, fetcher.plan(now_ms, wants_records=True)[1])
    fetcher.on_answer(1, ShareAnswer(lock_timeout_ms=LOCK_MS, parts={(A, 0): part}), now_ms)
    fetcher.check_invariants()


@dataclass(slots=True, eq=False)
class _Member:
    name: str
    fetcher: ShareFetcher
    connections: dict[int, list[bool]] = field(default_factory=dict)  # of each broker: [is open]
    answers: list[tuple[int, list[bool], ShareAnswer]] = field(default_factory=list)
    has: list[ShareRecord] = field(default_factory=list)


class Brokers:
    """Two brokers, each the leader of one partition with `records` records."""

    def __init__(self, rng: random.Random, *, records: int) -> None:
        self._rng, self._count, self._now_ms = rng, records, 0
        limits = Limits(lock_duration_ms=LOCK_MS, delivery_count_limit=1000)
        self._shares: dict[Place, SharePartition] = {
            (A, index): SharePartition(start_offset=0, limits=limits) for index in range(2)
        }
        self._sessions = {node: ShareSessions(sessions_max=10) for node in (1, 2)}
        self._members = [
            _Member(name=f"m{index}", fetcher=fetcher_of(rng.getrandbits(30), leaders=(1, 2))) for index in range(2)
        ]
        for member in self._members:
            member.fetcher.assign([TopicPartition("a", 0), TopicPartition("a", 1)])
        self.deliveries: Counter[tuple[int, int]] = Counter()
        self.delivered_after_confirmation: list[ShareRecord] = []
        self._final: set[tuple[int, int]] = set()
        self._decided: dict[tuple[int, int], set[AcknowledgeType]] = {}

    # -- what the test asks -----------------------------------------------------------------------------------------

    def offsets(self) -> dict[Place, range]:
        return dict.fromkeys(self._shares, range(self._count))

    def is_final(self, place: Place, offset: int) -> bool:
        return offset < self._shares[place].start_offset

    def lost_without_a_reason(self) -> list[tuple[int, int]]:
        """Records that are done, although no application accepted or rejected them."""
        done = {AcknowledgeType.ACCEPT, AcknowledgeType.REJECT}
        every = [(index, offset) for _, index in self._shares for offset in range(self._count)]
        return [each for each in every if not self._decided.get(each, set()) & done]

    # -- the schedule -----------------------------------------------------------------------------------------------

    def run(self, *, rounds: int) -> None:
        for _ in range(rounds):
            self._now_ms += self._rng.choice([1, 1, 5, 20, 200])
            member = self._rng.choice(self._members)
            self._rng.choice([self._send, self._send, self._deliver, self._deliver, self._work, self._work, self._cut])(
                member
            )
            self._check()

    def settle(self) -> None:
        """No more faults: everything is accepted."""
        for _ in range(400):
            self._now_ms += 50
            for member in self._members:
                self._accept(member)
                self._send(member)
                self._deliver(member)
            self._check()

    def _check(self) -> None:
        for share in self._shares.values():
            share.tick(self._now_ms)
            share.check_invariants()
        for member in self._members:
            member.fetcher.check_invariants()
            for outcome in member.fetcher.take_outcomes():
                for offset, kind in outcome.types.items():
                    is_final = kind in (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)
                    if outcome.error is None and is_final:
                        self._final.add((outcome.partition.partition, offset))

    def _cut(self, member: _Member) -> None:
        if self._rng.random() > 0.2:
            return
        node = self._rng.choice((1, 2))
        self._break(member, node)

    def _break(self, member: _Member, node: int) -> None:
        member.connections.pop(node, [True])[0] = False
        error = KafkaError(ErrorCode.network_exception, "cut", definite=False)
        member.fetcher.on_failed(node, error, self._now_ms)
        for session in self._sessions[node].lost():
            self._sessions[node].close(session)
            for share in self._shares.values():
                change = share.release(session.member_id)
                share.persisted(change.token, is_written=True)

    def _send(self, member: _Member) -> None:
        wants = member.fetcher.unacknowledged == 0
        for node, asked in member.fetcher.plan(self._now_ms, wants_records=wants).items():
            connection = member.connections.setdefault(node, [True])
            member.fetcher.on_sent(node, asked)
            if self._rng.random() < 0.02:
                self._break(member, node)  # the request does not arrive
                continue
            member.answers.append((node, connection, self._serve(member, node, asked, connection)))

    def _deliver(self, member: _Member) -> None:
        if member.answers:
            node, connection, answer = member.answers.pop(0)
            if connection[0]:
                member.fetcher.on_answer(node, answer, self._now_ms)

    def _work(self, member: _Member) -> None:
        """Finish some of the records, or take new ones."""
        member.has = [each for each in member.has if self._rng.random() < 0.3 or not self._decide(member, each)]
        if member.has:
            return
        member.has = member.fetcher.take(self._rng.choice([1, 3, 100]), self._now_ms)
        self._note(member.has)

    def _decide(self, member: _Member, record: ShareRecord) -> bool:
        kind = self._rng.choice([AcknowledgeType.ACCEPT] * 3 + list(AcknowledgeType)[2:])
        member.fetcher.acknowledge(TopicPartition(record.topic, record.partition), record.offset, kind)
        self._decided.setdefault((record.partition, record.offset), set()).add(kind)
        return True

    def _accept(self, member: _Member) -> None:
        for record in member.has:
            self._decided.setdefault((record.partition, record.offset), set()).add(AcknowledgeType.ACCEPT)
        member.fetcher.acknowledge_all(AcknowledgeType.ACCEPT)
        member.has = member.fetcher.take(100, self._now_ms)
        self._note(member.has)

    def _note(self, records: list[ShareRecord]) -> None:
        for record in records:
            key = (record.partition, record.offset)
            assert record.value == str(record.offset).encode()
            self.deliveries[key] += 1
            if key in self._final:
                self.delivered_after_confirmation.append(record)

    # -- the brokers ------------------------------------------------------------------------------------------------

    def _serve(self, member: _Member, node: int, asked: ShareRequest, connection: list[bool]) -> ShareAnswer:
        sessions = self._sessions[node]
        if asked.epoch == FIRST_EPOCH:
            assert not asked.acks
            session = sessions.open("g", member.name, asked.added, lambda: connection[0])
        else:
            session = sessions.resume("g", member.name, asked.epoch, lambda: connection[0])
        if isinstance(session, ErrorCode):
            return ShareAnswer(error_code=int(session))
        sessions.add(session, asked.added)
        for place in asked.forgotten:
            session.places.pop(place, None)
        parts = {
            place: SharePart(acknowledge_error=int(self._acknowledge(member, place, asked))) for place in asked.acks
        }
        if asked.epoch == FINAL_EPOCH:
            sessions.close(session)
            for share in self._shares.values():
                share.persisted(share.release(member.name).token, is_written=True)
        elif asked.is_fetch:
            for place in session.turn():
                parts[place] = self._fetch(member, place, parts.get(place, SharePart()))
        return ShareAnswer(lock_timeout_ms=LOCK_MS, parts=parts)

    def _acknowledge(self, member: _Member, place: Place, asked: ShareRequest) -> ErrorCode:
        acks = [
            Acknowledgement(first_offset=first, last_offset=last, types=types)
            for first, last, types in ranges_of(asked.acks[place])
        ]
        change = self._shares[place].acknowledge(member.name, acks, self._now_ms)
        if isinstance(change, Refusal):
            return change.error_code
        is_written = self._rng.random() > 0.1
        self._shares[place].persisted(change.token, is_written=is_written or not change.batches)
        return ErrorCode.none if is_written or not change.batches else ErrorCode.coordinator_not_available

    def _fetch(self, member: _Member, place: Place, part: SharePart) -> SharePart:
        share = self._shares[place]
        offset = share.next_fetch_offset()
        if offset >= self._count:
            return part
        first = offset // BATCH * BATCH
        spans = [range(base, base + BATCH) for base in range(first, min(first + 3 * BATCH, self._count), BATCH)]
        fetched = Fetched(fetch_offset=offset, batches=[(max(each.start, offset), each.stop - 1) for each in spans])
        acquired = share.acquire(
            member.name, fetched, records_max=7, batch_size=7, is_strict=False, now_ms=self._now_ms
        )
        return SharePart(
            acknowledge_error=part.acknowledge_error,
            records=b"".join(log_of(each) for each in spans),
            acquired=tuple((each.first_offset, each.last_offset, each.delivery_count) for each in acquired),
        )
