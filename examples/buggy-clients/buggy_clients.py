"""Clients with one planted bug each, as they happen in real ones: each must fail a scenario that a sound client passes.

Found by entry points (pyproject.toml); `python -m harness.mutation clients` runs each under the scenario that shows it.
The first paragraph of a class says what is wrong.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import confluent_kafka

from broker.client.core.batch import Batch
from broker.client.core.sequences import Sequences
from runlog.streams.schema import ABSENT, SendStatus
from workloads.clients import reference
from workloads.clients.confluent import load as confluent
from workloads.clients.confluent import member as members
from workloads.clients.member_protocol import CopierSetup, MemberListener, MemberSetup, Positions
from workloads.clients.protocol import ClientSetup, ConsumerClient, OutcomeSink, ProducerClient

_FEW_RETRIES = {"enable.idempotence": "false", "retries": "0"}


class _Client:
    """Sound in all that a bug does not replace."""

    def make_producer(self, setup: ClientSetup, sink: OutcomeSink) -> ProducerClient:
        return confluent.make_producer(setup, sink)

    def make_consumer(self, setup: ClientSetup) -> ConsumerClient:
        return confluent.make_consumer(setup)

    def make_member(self, setup: MemberSetup, listener: MemberListener) -> Any:
        return members.make_member(setup, listener)

    def make_copier(self, setup: CopierSetup, listener: MemberListener) -> Any:
        return members.make_copier(setup, listener)


# --- producers --------------------------------------------------------------------------------------------------------


class _Pretends(confluent.ConfluentProducer):
    """Sends without retries and idempotence, and says that it has what it was asked for."""

    def __init__(self, setup: ClientSetup, sink: OutcomeSink) -> None:
        self._asked: Mapping[str, str] = setup.properties
        super().__init__(replace(setup, properties={**setup.properties, **_FEW_RETRIES}), sink)

    def effective(self) -> dict[str, str]:
        return {**super().effective(), **self._asked}


class _Ignored:
    """An outcome that was told already is not told again."""

    def one(self, *_outcome: object) -> None:
        return None

    many = timed = one


class EarlyCallback(_Client):
    """The callback comes when the record is handed over, before any response."""

    class Producer(_Pretends):
        def __init__(self, setup: ClientSetup, sink: OutcomeSink) -> None:
            self._told = sink
            super().__init__(setup, _Ignored())

        def send(self, topic: str, value: bytes, key: bytes | None, seq: int) -> bool:
            if not super().send(topic, value, key, seq):
                return False
            self._told.one(seq, SendStatus.ACKED, 0, ABSENT, ABSENT)
            return True

    def make_producer(self, setup: ClientSetup, sink: OutcomeSink) -> ProducerClient:
        return self.Producer(setup, sink)


class CertainFailure(_Client):
    """A request without an answer is reported as certainly not carried out."""

    class Sink:
        def __init__(self, sink: OutcomeSink) -> None:
            self._sink = sink
            self.many, self.timed = sink.many, sink.timed

        def one(self, seq: int, status: SendStatus, *rest: Any) -> None:
            self._sink.one(seq, SendStatus.FAILED if status is SendStatus.UNKNOWN else status, *rest)

    def make_producer(self, setup: ClientSetup, sink: OutcomeSink) -> ProducerClient:
        return _Pretends(setup, self.Sink(sink))


class RetryAtTheEnd(_Client):
    """What failed is sent again behind whatever was sent meanwhile, and without idempotence."""

    class Producer(_Pretends):
        def __init__(self, setup: ClientSetup, sink: OutcomeSink) -> None:
            self._records: dict[int, tuple[str, bytes, bytes | None]] = {}
            self._again: deque[int] = deque()
            super().__init__(setup, sink)

        def send(self, topic: str, value: bytes, key: bytes | None, seq: int) -> bool:
            if not super().send(topic, value, key, seq):
                return False
            self._records[seq] = (topic, value, key)
            return True

        def _delivered(self, seq: int, error: Any, message: Any) -> None:
            if error is not None:
                self._again.append(seq)
                return
            self._records.pop(seq, None)
            super()._delivered(seq, error, message)

        def poll(self, timeout_s: float) -> None:
            super().poll(timeout_s)
            for _ in range(len(self._again)):
                seq = self._again.popleft()
                super().send(*self._records[seq], seq)

    def make_producer(self, setup: ClientSetup, sink: OutcomeSink) -> ProducerClient:
        return self.Producer(setup, sink)


class SequenceReused(_Client):
    """The first batch after one that was sent twice gets that one's sequence, and the next batch its own."""

    def make_producer(self, setup: ClientSetup, sink: OutcomeSink) -> ProducerClient:
        sound = Sequences._assign
        last: dict[int, Batch] = {}

        def assign(self: Sequences, sequences: Any, batch: Batch) -> None:
            before = last.get(id(sequences))
            last[id(sequences)] = batch
            expected = sequences.next_sequence
            sound(self, sequences, batch)
            if before is not None and before.attempts:  # counts failures
                batch.base_sequence = before.base_sequence
                sequences.next_sequence = expected

        Sequences._assign = assign  # type: ignore[method-assign]  # this process runs nothing else
        return reference.make_producer(setup, sink)


# --- group members ----------------------------------------------------------------------------------------------------


class SkipsOnRebalance(_Client):
    """After a rebalance it begins at the end of a partition instead of the group's offset."""

    class Member(members.ConfluentMember):
        def _on_assign(self, consumer: Any, partitions: Any) -> None:
            super()._on_assign(consumer, partitions)
            for item in partitions:
                item.offset = confluent_kafka.OFFSET_END
            consumer.assign(partitions)

    def make_member(self, setup: MemberSetup, listener: MemberListener) -> Any:
        return self.Member(setup, listener)


class CommitsWhatItPolled(_Client):
    """Auto-commit commits what was handed to the application, processed or not (librdkafka's default)."""

    class Member(members.ConfluentMember):
        def poll(self, timeout_s: float) -> Any:
            polled = super().poll(timeout_s)
            super().processed({(topic, p): offset + 1 for topic, p, offset, _, _ in polled.records})
            return polled

        def processed(self, positions: Positions) -> None:
            return None

    def make_member(self, setup: MemberSetup, listener: MemberListener) -> Any:
        return self.Member(setup, listener)


class ForgetsToCommit(_Client):
    """It never commits while it runs."""

    class Member(members.ConfluentMember):
        def processed(self, positions: Positions) -> None:
            return None

    def make_member(self, setup: MemberSetup, listener: MemberListener) -> Any:
        return self.Member(setup, listener)


# --- copiers ----------------------------------------------------------------------------------------------------------


class OffsetsFirst(_Client):
    """The group's offsets are committed by the consumer, ahead of the transaction that holds the copies."""

    class Copier(members.ConfluentCopier):
        def begin(self) -> None:
            self._reader.consumer.commit(offsets=self._after, asynchronous=False)
            super().begin()

        def poll(self, timeout_s: float) -> Any:
            polled = super().poll(timeout_s)
            after = {(topic, p): offset + 1 for topic, p, offset, _, _ in polled.records}
            self._after = [confluent_kafka.TopicPartition(*partition, offset) for partition, offset in after.items()]
            return polled

        def commit(self, positions: Positions) -> None:
            self._carry_out(lambda: self._producer.commit_transaction(members.TRANSACTION_TIMEOUT_S))

    def make_copier(self, setup: CopierSetup, listener: MemberListener) -> Any:
        return self.Copier(setup, listener)


class OffsetsApart(_Client):
    """The group's offsets are committed by the consumer some time after the transaction."""

    class Copier(members.ConfluentCopier):
        def commit(self, positions: Positions) -> None:
            self._carry_out(lambda: self._producer.commit_transaction(members.TRANSACTION_TIMEOUT_S))
            time.sleep(0.5)
            offsets = [confluent_kafka.TopicPartition(*partition, offset) for partition, offset in positions.items()]
            try:
                self._reader.consumer.commit(offsets=offsets, asynchronous=False)
            except confluent_kafka.KafkaException:
                return  # a rebalance came first: the next owner copies again

    def make_copier(self, setup: CopierSetup, listener: MemberListener) -> Any:
        return self.Copier(setup, listener)


early_callback = EarlyCallback()
certain_failure = CertainFailure()
retry_at_the_end = RetryAtTheEnd()
sequence_reused = SequenceReused()
skips_on_rebalance = SkipsOnRebalance()
commits_what_it_polled = CommitsWhatItPolled()
forgets_to_commit = ForgetsToCommit()
offsets_first = OffsetsFirst()
offsets_apart = OffsetsApart()
