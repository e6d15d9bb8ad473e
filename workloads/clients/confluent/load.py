"""confluent-kafka (librdkafka). Callbacks come from poll() in the producer's own thread.

librdkafka knows whether a message possibly reached the broker, but its Python binding does not say it. So an outcome is
FAILED only if produce() itself refuses, or if the answer means "never appended". All other errors are UNKNOWN.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import confluent_kafka

from runlog.streams.inflight import RING_SLOTS
from runlog.streams.schema import ABSENT, SendStatus
from workloads.clients.fates import status_of
from workloads.clients.protocol import (
    LOCAL_ERROR,
    RECORDS_PER_POLL_MAX,
    ClientError,
    ClientSetup,
    OutcomeSink,
    Polled,
    PropertyError,
    TransactionAborted,
    TransactionUnknown,
    no_such_property,
)
from workloads.clients.security import is_security, librdkafka_security
from workloads.clients.values import check_values

NAME = "confluent"
_STATISTICS_INTERVAL_MS = 1_000

_SAME_NAME = frozenset(
    {
        "acks", "batch.size", "client.id", "client.rack", "compression.type", "connections.max.idle.ms",
        "delivery.timeout.ms", "enable.idempotence", "linger.ms", "max.in.flight.requests.per.connection",
        "metadata.max.age.ms", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retries",
        "retry.backoff.max.ms", "retry.backoff.ms", "socket.connection.setup.timeout.ms", "transaction.timeout.ms",
    }
)  # fmt: skip
_RENAMED = {
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "compression.zstd.level": "compression.level",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
# librdkafka's messages use these names for some of the above.
_LIBRARY_ALIASES = {
    "compression.codec": "compression.type",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
}
_PARTITIONERS = {"murmur2": "murmur2_random", "random": "random"}
_CONSUMER_SAME_NAME = frozenset(
    {
        "check.crcs", "client.id", "client.rack", "connections.max.idle.ms", "fetch.max.bytes", "fetch.min.bytes",
        "isolation.level", "max.partition.fetch.bytes", "metadata.max.age.ms", "reconnect.backoff.max.ms",
        "reconnect.backoff.ms", "retry.backoff.ms", "socket.connection.setup.timeout.ms",
    }
)  # fmt: skip
_CONSUMER_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}

_OTHERS = frozenset({"buffer.memory", "partitioner.class"})


_LINGER = "linger.ms"  # only librdkafka accepts a fraction of a millisecond


def check_properties(properties: Mapping[str, str]) -> None:
    """Checks Kafka's own definitions first, because librdkafka reads 16KB as 16 and passes acks=2 on to the broker.
    Then librdkafka checks them, in a producer that is never connected."""
    check_values(NAME, "producer", {name: value for name, value in properties.items() if name != _LINGER})
    construct(confluent_kafka.Producer, {**producer_settings(properties), **SILENT})


def check_consumer_properties(properties: Mapping[str, str], *, is_member: bool) -> None:
    check_values(NAME, "consumer", properties)
    group = {} if is_member else {"enable.auto.commit": "false"}
    construct(
        confluent_kafka.Consumer, {**group, **consumer_settings(properties), "group.id": "none", **SILENT}
    ).close()


def producer_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Kafka's producer properties as librdkafka's. PropertyError names the first that has no equivalent."""
    settings = librdkafka_security(NAME, {name: value for name, value in properties.items() if is_security(name)})
    for name, value in properties.items():
        if is_security(name):
            continue
        if name in _SAME_NAME:
            settings[name] = value
        elif name in _RENAMED:
            settings[_RENAMED[name]] = value
        elif name == "buffer.memory":
            settings["queue.buffering.max.kbytes"] = str(max(1, math.ceil(int(value) / 1024)))
        elif name == "partitioner.class":
            if value not in _PARTITIONERS:
                raise PropertyError(NAME, name, f"{value!r} is none of {sorted(_PARTITIONERS)}")
            settings["partitioner"] = _PARTITIONERS[value]
        else:
            known = {*_SAME_NAME, *_RENAMED, *_OTHERS}
            raise no_such_property(NAME, name, known, "librdkafka has no equivalent")
    if "batch.size" in settings:
        settings["batch.num.messages"] = "1000000"  # so that batch.size alone decides, as in Kafka
    if "request.timeout.ms" in settings:
        # librdkafka's own request.timeout.ms only tells the broker how long to wait for replicas. Its socket.timeout.ms
        # decides when the client gives up on an answer. Kafka's one property means both.
        settings["socket.timeout.ms"] = settings["request.timeout.ms"]
    settings["queue.buffering.max.messages"] = str(RING_SLOTS)
    return settings


def consumer_settings(properties: Mapping[str, str]) -> dict[str, str]:
    settings = librdkafka_security(NAME, {name: value for name, value in properties.items() if is_security(name)})
    for name, value in properties.items():
        if is_security(name):
            continue
        if name in _CONSUMER_SAME_NAME:
            settings[name] = value
        elif name in _CONSUMER_RENAMED:
            settings[_CONSUMER_RENAMED[name]] = value
        elif name != "max.poll.records":
            known = {*_CONSUMER_SAME_NAME, *_CONSUMER_RENAMED, "max.poll.records"}
            raise no_such_property(NAME, name, known, "librdkafka has no equivalent")
    return settings


class ConfluentProducer:
    def __init__(self, setup: ClientSetup, sink: OutcomeSink) -> None:
        self._topics = setup.topics
        self._sink = sink.one
        self._settings = producer_settings(setup.properties)
        self._settings["bootstrap.servers"] = setup.bootstrap_servers
        if setup.transactional_id is not None:
            self._settings["transactional.id"] = setup.transactional_id
        self._acks_zero = self._settings.get("acks", "all") == "0"
        self._metrics: dict[str, float] = {}
        self._batches = 0
        self._batch_records = 0
        self._batch_bytes = 0
        self._queued_records = 0
        self._queued_us = 0
        configuration: dict[str, Any] = {
            **self._settings,
            "statistics.interval.ms": _STATISTICS_INTERVAL_MS,
            "stats_cb": self._take_statistics,
            **SILENT,
        }
        self._producer = construct(confluent_kafka.Producer, configuration)
        self._produce = self._producer.produce

    def connect(self, timeout_s: float) -> None:
        for topic in self._topics:
            _await_topic(self._producer, topic, timeout_s)

    def send(self, topic: str, value: bytes, key: bytes | None, seq: int) -> bool:
        try:
            self._produce(topic, value, key, on_delivery=partial(self._delivered, seq))
        except BufferError:
            return False
        except confluent_kafka.KafkaException as error:
            code = error.args[0].code()
            self._sink(seq, SendStatus.FAILED, code if code > 0 else LOCAL_ERROR, ABSENT, ABSENT)
        return True

    def _delivered(self, seq: int, error: Any, message: Any) -> None:  # types of an untyped library
        if error is None and not self._acks_zero:
            partition, offset = _number(message.partition()), _number(message.offset())
            self._sink(seq, SendStatus.ACKED, 0, partition, offset, message.timestamp()[1])
        elif error is None:
            self._sink(seq, SendStatus.UNKNOWN, 0, _number(message.partition()), ABSENT)
        else:
            code = error.code()
            # Even with retries=0 this need not be the only attempt: see HIDDEN_ATTEMPTS in fates.py.
            status = status_of(code, retries_possible=True)
            partition = _number(message.partition()) if message is not None else ABSENT
            self._sink(seq, status, code if code > 0 else LOCAL_ERROR, partition, ABSENT)

    def poll(self, timeout_s: float) -> None:
        if 0 < timeout_s < 0.001:  # librdkafka counts whole milliseconds; less would be 0, and a busy loop
            time.sleep(timeout_s)
            timeout_s = 0
        self._producer.poll(timeout_s)

    def close(self, timeout_s: float) -> None:
        self._producer.flush(timeout_s)
        # Records that librdkafka still has are dropped. Their outcome is a purge error, which is UNKNOWN.
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        self._producer.flush(0.5)

    def metrics(self) -> dict[str, float]:
        return dict(self._metrics)

    def effective(self) -> dict[str, str]:
        library = f"librdkafka {confluent_kafka.libversion()[0]}, confluent-kafka {confluent_kafka.__version__}"
        return {**self._settings, "client.library": library}

    def _take_statistics(self, text: str) -> None:
        statistics = json.loads(text)
        for topic in statistics.get("topics", {}).values():
            self._batches += topic["batchcnt"]["cnt"]
            self._batch_records += topic["batchcnt"]["sum"]
            self._batch_bytes += topic["batchsize"]["sum"]
        brokers = [broker for broker in statistics.get("brokers", {}).values() if broker.get("nodeid", -1) >= 0]
        for broker in brokers:  # over every record of a Produce request: from the hand-over to the writing of its batch
            self._queued_records += broker["int_latency"]["cnt"]
            self._queued_us += broker["int_latency"]["sum"]
        batches = max(1, self._batches)
        self._metrics = {
            "records_sent": float(statistics.get("txmsgs", 0)),
            "requests": float(sum(broker.get("req", {}).get("Produce", 0) for broker in brokers)),
            "retries": float(sum(broker.get("txretries", 0) for broker in brokers)),
            "request_timeouts": float(sum(broker.get("req_timeouts", 0) for broker in brokers)),
            "request_errors": float(sum(broker.get("txerrs", 0) for broker in brokers)),
            "bytes_sent": float(sum(broker.get("txbytes", 0) for broker in brokers)),
            "batches": float(self._batches),
            "records_per_batch": self._batch_records / batches,
            "batch_size_bytes_avg": self._batch_bytes / batches,
            "record-accumulate-total": float(self._queued_records),
            "record-accumulate-time-total": self._queued_us / 1000,
            "round_trip_us_max": float(max((broker.get("rtt", {}).get("max", 0) for broker in brokers), default=0)),
            "records_waiting": float(statistics.get("msg_cnt", 0)),
        }


class ConfluentTransactionalProducer(ConfluentProducer):
    def connect(self, timeout_s: float) -> None:
        super().connect(timeout_s)
        try:
            _repeat_while_safe(self._producer.init_transactions, timeout_s)
        except confluent_kafka.KafkaException as error:
            raise ClientError(f"client {NAME}: init_transactions: {error.args[0].str()}") from error

    def begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except confluent_kafka.KafkaException as error:
            raise TransactionUnknown(error.args[0].str(), _code(error)) from error

    def commit(self, timeout_s: float) -> None:
        try:
            self._producer.flush(timeout_s)  # it tells the outcomes, and what is left after it fails the commit
            _repeat_while_safe(self._producer.commit_transaction, timeout_s)
        except confluent_kafka.KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise TransactionUnknown(error.args[0].str(), _code(error)) from error
            self._abort(timeout_s)
            raise TransactionAborted(error.args[0].str(), _code(error)) from error

    def abort(self, timeout_s: float) -> None:
        with contextlib.suppress(confluent_kafka.KafkaException):  # what is wrong shows when it is aborted
            self._producer.flush(timeout_s)
        self._abort(timeout_s)

    def close(self, timeout_s: float) -> None:
        # Of a fenced producer, each of these raises what fenced it once more.
        with contextlib.suppress(confluent_kafka.KafkaException):
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
            self._producer.flush(timeout_s)

    def _abort(self, timeout_s: float) -> None:
        try:
            _repeat_while_safe(self._producer.abort_transaction, timeout_s)
            self._producer.poll(0)  # outcomes of what the abort has purged
        except confluent_kafka.KafkaException as error:
            raise TransactionUnknown(error.args[0].str(), _code(error)) from error


def _repeat_while_safe(call: Callable[[float], object], timeout_s: float) -> None:
    """A call of librdkafka's transactions, again as long as the library says that this is safe."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            call(max(1.0, deadline_s - time.monotonic()))
            return
        except confluent_kafka.KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline_s:
                raise


def _code(error: Any) -> int:
    code = error.args[0].code()
    return code if code > 0 else LOCAL_ERROR


class ConfluentConsumer:
    def __init__(self, setup: ClientSetup) -> None:
        self._topics = setup.topics
        self._is_member = setup.group_id is not None
        self._start = setup.start
        self._records_per_poll = int(setup.properties.get("max.poll.records", RECORDS_PER_POLL_MAX))
        configuration: dict[str, Any] = {
            # librdkafka needs a group id even without a group. Nothing is committed under it.
            **({} if self._is_member else {"enable.auto.commit": "false", "group.id": f"{setup.topics[0]}-assigned"}),
            **consumer_settings(setup.properties),
            **({"group.id": setup.group_id} if self._is_member else {}),
            "bootstrap.servers": setup.bootstrap_servers,
            "auto.offset.reset": setup.start,
            **SILENT,
        }
        self._consumer = construct(confluent_kafka.Consumer, configuration)

    def connect(self, partitions: Sequence[tuple[str, int]], timeout_s: float) -> None:
        for topic in self._topics:
            _await_topic(self._consumer, topic, timeout_s)
        if self._is_member:
            self._consumer.subscribe(list(self._topics))
            return
        start = confluent_kafka.OFFSET_BEGINNING if self._start == "earliest" else confluent_kafka.OFFSET_END
        self._consumer.assign(
            [confluent_kafka.TopicPartition(topic, partition, start) for topic, partition in partitions]
        )

    def poll(self, timeout_s: float) -> Polled:
        return polled_from(self._consumer, timeout_s, self._records_per_poll)

    def close(self) -> None:
        self._consumer.close()


def _number(given: int | None) -> int:
    """None: librdkafka does not know it, for example the offset of a batch that the broker had already. (A batch that
    is sent again after a lost answer succeeds without an offset.)"""
    return ABSENT if given is None else max(given, ABSENT)


class _SilentLogger:
    """librdkafka logs each lost connection; during a fault that is the expected case."""

    def log(self, _level: int, _message: str, *_arguments: object) -> None:
        return None


def _ignore(_error: object) -> None:
    return None


# librdkafka reports lost connections by both. What matters are the outcomes of records and the positions of readers.
SILENT: Final[Mapping[str, object]] = {"error_cb": _ignore, "logger": _SilentLogger()}


def polled_from(consumer: Any, timeout_s: float, records_max: int) -> Polled:
    """Waits at most `timeout_s` for a first record, and takes the records that follow it without waiting."""
    first = consumer.poll(timeout_s)
    if first is None:
        return Polled((), time.monotonic_ns())
    messages = [first, *consumer.consume(records_max - 1, timeout=0)]
    polled_ns = time.monotonic_ns()
    return Polled(
        [
            (message.topic(), message.partition(), message.offset(), message.value() or b"", message.timestamp()[1])
            for message in messages
            if message.error() is None
        ],
        polled_ns,
    )


def construct(make: Callable[[dict[str, Any]], Any], configuration: dict[str, Any]) -> Any:
    try:
        return make(configuration)
    except (confluent_kafka.KafkaException, ValueError) as error:  # the share consumer raises the second one
        text = str(error) if isinstance(error, ValueError) else error.args[0].str()
        for alias, kafka_name in _LIBRARY_ALIASES.items():
            text = text.replace(alias, kafka_name)
        name = next((name for name in configuration if name in text), "a property")
        raise PropertyError(NAME, name, text) from error


def _await_topic(client: Any, topic: str, timeout_s: float) -> None:
    """Metadata of the topic with a leader for each partition; asks again until the time is over."""
    deadline = time.monotonic() + timeout_s
    problem = "no answer"
    while (left := deadline - time.monotonic()) > 0:
        try:
            metadata = client.list_topics(topic, timeout=min(left, 2.0)).topics[topic]
        except confluent_kafka.KafkaException as error:
            problem = error.args[0].str()
            continue
        leaderless = [partition.id for partition in metadata.partitions.values() if partition.leader < 0]
        if metadata.error is None and metadata.partitions and not leaderless:
            return
        problem = f"topic error {metadata.error}, partitions without leader {leaderless}"
        time.sleep(0.05)
    raise ClientError(f"client {NAME}: no metadata of topic {topic} within {timeout_s:g} s: {problem}")
