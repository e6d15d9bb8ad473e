"""kafka-python. Outcomes come record by record from the library's own thread.

It has no buffer.memory. The number of sends in flight that a producer may have limits what it takes. It retries inside
delivery.timeout.ms. So a refusal is certain only if every attempt would get the same one.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kafka
import kafka.codec
import kafka.errors
import kafka.net.sasl.oauth

from runlog.streams.schema import ABSENT, SendStatus
from workloads.clients.fates import code_of, status_of
from workloads.clients.keyword_library import CONSUMER, KeywordLibrary
from workloads.clients.keywords import Keyword, acks, boolean, compression, number, same, text
from workloads.clients.protocol import (
    ClientError,
    ClientSetup,
    OutcomeSink,
    Polled,
    TransactionAborted,
    TransactionUnknown,
    polled_of,
)

NAME = "kafka_python"
_RETRY_S = 0.05
_ABANDON_S = 2.0  # until the library's thread has given up what it holds
_END_S_MIN = 1.0  # for the end of a transaction whose records took all of its time
_REFUSED = (kafka.errors.KafkaError, RuntimeError)  # a step of a transaction may fail by the latter too
_COMMON_NUMBERS = """connections.max.idle.ms metadata.max.age.ms receive.buffer.bytes reconnect.backoff.max.ms
    reconnect.backoff.ms request.timeout.ms retry.backoff.ms send.buffer.bytes"""
_PRODUCER: dict[str, Keyword] = {
    **same("client.id security.protocol", text),
    **same(_COMMON_NUMBERS, number),
    **same(
        "batch.size delivery.timeout.ms linger.ms max.in.flight.requests.per.connection max.request.size retries "
        "transaction.timeout.ms",
        number,
    ),
    **same("enable.idempotence", boolean),
    **same("acks", acks),
    **same("compression.type", compression),
}
_PRODUCER_REFUSED = {
    "buffer.memory": "kafka-python has no limit of its memory; leave it out",
    "max.block.ms": "the load generator itself waits for space in the buffer",
}
_CODEC_PACKAGES = {"snappy": "python-snappy", "lz4": "lz4", "zstd": "zstandard"}
_METRICS = (
    "batch-size-avg", "compression-rate-avg", "record-queue-time-avg", "record-retry-rate", "record-error-rate",
    "records-per-request-avg", "request-latency-avg", "request-latency-max", "request-rate", "requests-in-flight",
)  # fmt: skip


def _package_for_codec(codec: str) -> str | None:
    return None if getattr(kafka.codec, f"has_{codec}")() else _CODEC_PACKAGES[codec]


class _Tokens(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    """kafka-python asks at each login, and again before its session ends (KIP-368)."""

    def __init__(self, fetch: Callable[[], str]) -> None:
        super().__init__()
        self._fetch = fetch

    def token(self) -> str:
        return self._fetch()


LIBRARY = KeywordLibrary(
    name=NAME,
    producer=_PRODUCER,
    refused=_PRODUCER_REFUSED,
    consumer={**CONSUMER, **same(_COMMON_NUMBERS, number)},
    package_for_codec=_package_for_codec,
    token_provider=_Tokens,
)
check_properties = LIBRARY.check_properties
check_consumer_properties = LIBRARY.check_consumer_properties

logging.getLogger("kafka").setLevel(logging.CRITICAL)  # it reports each lost connection


class KafkaPythonProducer:
    def __init__(self, setup: ClientSetup, sink: OutcomeSink) -> None:
        self._topics = setup.topics
        self._sink = sink.one
        self._arguments = LIBRARY.producer_arguments(setup.properties)
        self._arguments["bootstrap_servers"] = setup.bootstrap_servers.split(",")
        if setup.transactional_id is not None:
            self._arguments["transactional_id"] = setup.transactional_id
        self._acks_zero = self._arguments.get("acks") == 0
        self._retries_possible = self._arguments.get("retries") != 0
        self._producer: Any = None  # made in connect(), as it connects when it is made; the library has no types

    def connect(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        timeout_ms = int(timeout_s * 1_000)
        try:
            self._producer = kafka.KafkaProducer(
                **self._arguments, bootstrap_timeout_ms=timeout_ms, max_block_ms=timeout_ms
            )
            for topic in self._topics:
                while not self._producer.partitions_for(topic):
                    if time.monotonic() > deadline_s:
                        raise ClientError(f"client {NAME}: topic {topic} has no partitions after {timeout_s:g} s")
                    time.sleep(_RETRY_S)
        except (kafka.errors.KafkaError, ValueError, RuntimeError) as error:
            if isinstance(error, ClientError):
                raise
            raise ClientError(f"client {NAME}: not connected within {timeout_s:g} s: {error!r}") from error

    def send(self, topic: str, value: bytes, key: bytes | None, seq: int) -> bool:
        try:
            future = self._producer.send(topic, value, key)
        except kafka.errors.KafkaTimeoutError:
            return False  # raised before the record was taken
        except kafka.errors.KafkaError as error:
            self._sink(seq, SendStatus.FAILED, code_of(error), ABSENT, ABSENT)
            return True
        future.add_callback(self._acked, seq)
        future.add_errback(self._failed, seq)
        return True

    def _acked(self, seq: int, metadata: Any) -> None:
        if self._acks_zero:
            self._sink(seq, SendStatus.UNKNOWN, 0, metadata.partition, ABSENT)
        else:
            self._sink(seq, SendStatus.ACKED, 0, metadata.partition, metadata.offset, metadata.timestamp)

    def _failed(self, seq: int, error: BaseException) -> None:
        code = code_of(error)
        self._sink(seq, status_of(code, retries_possible=self._retries_possible), code, ABSENT, ABSENT)

    def poll(self, timeout_s: float) -> None:
        """Outcomes come by themselves, so this only waits."""
        if timeout_s > 0:
            time.sleep(timeout_s)

    def close(self, timeout_s: float) -> None:
        if self._producer is None:
            return
        try:
            self._producer.close(timeout=timeout_s)
        except kafka.errors.KafkaTimeoutError:
            # It gives up while records are under way, and its thread would go on to send them.
            sender = self._producer._sender
            sender.force_close()
            sender.join(_ABANDON_S)
            with contextlib.suppress(kafka.errors.KafkaTimeoutError):
                self._producer.close(timeout=0)

    def metrics(self) -> dict[str, float]:
        if self._producer is None:
            return {}
        values = self._producer.metrics().get("producer-metrics", {})
        return {name: float(values[name]) for name in _METRICS if name in values}

    def effective(self) -> dict[str, str]:
        config = self._arguments if self._producer is None else self._producer.config
        return {**LIBRARY.shown(config), "client.library": f"kafka-python {kafka.__version__}"}


class KafkaPythonTransactionalProducer(KafkaPythonProducer):
    """The library's own calls to end a transaction may wait for ever. This does what they do, within a time."""

    def connect(self, timeout_s: float) -> None:
        super().connect(timeout_s)
        try:
            self._producer.init_transactions()  # it waits for max_block_ms, which connect() has set
        except _REFUSED as error:
            raise ClientError(f"client {NAME}: init_transactions: {error!r}") from error

    def begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except _REFUSED as error:
            raise TransactionUnknown(repr(error), code_of(error)) from error

    def commit(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        try:
            # While records are under way, their errors end a commit that was asked for, and nobody can tell such an end
            # from that of a commit which the coordinator has heard of.
            self._producer.flush(timeout_s)
            ending = self._producer._transaction_manager.begin_commit()
        except _REFUSED as error:
            self._abort(timeout_s)
            raise TransactionAborted(repr(error), code_of(error)) from error
        self._wait(ending, deadline_s - time.monotonic())

    def abort(self, timeout_s: float) -> None:
        with contextlib.suppress(*_REFUSED):  # what is wrong shows when it is aborted
            self._producer.flush(timeout_s)
        self._abort(timeout_s)

    def _abort(self, timeout_s: float) -> None:
        try:
            ending = self._producer._transaction_manager.begin_abort()
        except _REFUSED as error:
            raise TransactionUnknown(repr(error), code_of(error)) from error
        self._wait(ending, timeout_s)

    def _wait(self, ending: Any, timeout_s: float) -> None:
        """TransactionUnknown if the end is refused, or not told in time. The coordinator is asked for it only after all
        records have their outcome."""
        self._producer._sender.wakeup()
        try:
            is_told = ending.wait(timeout_ms=max(_END_S_MIN, timeout_s) * 1_000)
        except _REFUSED as error:
            raise TransactionUnknown(repr(error), code_of(error)) from error
        if not is_told:
            raise TransactionUnknown(f"no answer to the end of a transaction within {timeout_s:g} s")


class KafkaPythonConsumer:
    def __init__(self, setup: ClientSetup) -> None:
        self._topics = setup.topics
        self._is_member = setup.group_id is not None
        self._start = setup.start
        self._arguments = LIBRARY.reader_arguments(setup)
        self._consumer: Any = None

    def connect(self, partitions: Sequence[tuple[str, int]], timeout_s: float) -> None:
        self._consumer = open_consumer(self._arguments, timeout_s)
        if self._is_member:
            self._consumer.subscribe(list(self._topics))
            return
        self._consumer.assign([kafka.TopicPartition(topic, partition) for topic, partition in partitions])
        if self._start == "earliest":
            self._consumer.seek_to_beginning()
        else:
            self._consumer.seek_to_end()

    def poll(self, timeout_s: float) -> Polled:
        return polled_from(self._consumer, timeout_s)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close(autocommit=self._is_member)


def open_consumer(arguments: Mapping[str, object], timeout_s: float) -> Any:
    """The library's own consumer, connected. ClientError when nobody answers in time."""
    try:
        return kafka.KafkaConsumer(**arguments, bootstrap_timeout_ms=int(timeout_s * 1_000))
    except (kafka.errors.KafkaError, ValueError, RuntimeError) as error:
        raise ClientError(f"client {NAME}: not connected within {timeout_s:g} s: {error!r}") from error


def polled_from(consumer: Any, timeout_s: float) -> Polled:
    """One poll. During a fault it may fail. Then it returns nothing, and the next one tries again."""
    try:
        found = consumer.poll(timeout_ms=int(timeout_s * 1_000))
    except kafka.errors.KafkaError:
        time.sleep(_RETRY_S)
        found = {}
    return polled_of(found)
