"""A client of the harness over kafka-python. It speaks docs/reference/client-protocol.md.

It takes the properties for which its version of the library has an argument, and declares what that version can do.
"""

import contextlib
import inspect
import logging
import threading
import time

import kafka
import kafka.errors
import lines
from kafka.structs import OffsetAndMetadata
from lines import Outcomes, Refused, of_sides, position, say

RETRY_S = 0.05
PRODUCER = {
    **lines.PRODUCER, "delivery.timeout.ms": int, "buffer.memory": int, "max.block.ms": int, "retries": int,
    "max.in.flight.requests.per.connection": int, "reconnect.backoff.ms": int, "reconnect.backoff.max.ms": int,
}  # fmt: skip


class Client(kafka.ConsumerRebalanceListener):
    def __init__(self):
        self.properties = {
            "producer": lines.known(PRODUCER, kafka.KafkaProducer.DEFAULT_CONFIG),
            "consumer": lines.known(lines.CONSUMER, kafka.KafkaConsumer.DEFAULT_CONFIG),
        }
        self.producer = self.consumer = None

    def can(self):
        words = "produce partition headers callers assign subscribe seek pause commit one-by-one".split()  # noqa: SIM905
        words += ["transactions"] * hasattr(kafka.KafkaProducer, "init_transactions")
        return words + ["send-offsets"] * hasattr(kafka.KafkaProducer, "send_offsets_to_transaction")

    def connect(self, id, role, properties, timeout_ms, failed_codes=(), one_by_one=False):
        sides = {"producer": ["producer"], "consumer": ["consumer"], "copier": ["consumer", "producer"]}[role]
        made = dict(zip(sides, of_sides(properties, [self.properties[side] for side in sides]), strict=True))
        self.outcomes, self.is_one_by_one = Outcomes(failed_codes, properties.get("acks") != "0"), one_by_one
        effective = {}
        if "consumer" in made:
            effective = patient(made["consumer"])
            self.consumer = self.connected(lambda: kafka.KafkaConsumer(**made["consumer"]), timeout_ms)
        if "producer" in made:
            effective |= persistent(made["producer"])
            self.producer = self.connected(lambda: kafka.KafkaProducer(**made["producer"]), timeout_ms)
            if "transactional.id" in properties:
                self.bounded(timeout_ms, self.producer.init_transactions)
        say("done", id=id, effective=effective)
        return lines.ANSWERED

    def connected(self, make, timeout_ms):
        """The library gives up when the brokers do not answer within two seconds; here it has the whole time."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        while True:
            try:
                return make()
            except kafka.errors.NoBrokersAvailable:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(RETRY_S)
            except (AssertionError, ValueError, kafka.errors.KafkaConfigurationError) as error:
                raise Refused(f"kafka-python refuses the settings: {error}") from error

    def bounded(self, timeout_ms, work, *arguments):
        """Calls about transactions take no time limit, and some have none. One that is late goes on by itself."""
        raised = []

        def call():
            try:
                work(*arguments)
            except Exception as error:
                raised.append(error)

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(timeout_ms / 1000)
        if thread.is_alive():
            raise Refused("not done in the time of the command", next="retry")
        if raised:
            raise Refused(repr(raised[0]), code=lines.code_of(raised[0]), next=wish(raised[0])) from raised[0]

    def give(self, topic, records):
        for record in records:
            seq = record["seq"]
            headers = [(each["key"], lines.decoded(each["value"])) for each in record.get("headers", [])]
            self.outcomes.begin(seq)
            try:
                future = self.producer.send(
                    topic, lines.decoded(record["value"]), lines.decoded(record["key"]), headers=headers,
                    partition=record.get("partition"),
                )  # fmt: skip
            except (kafka.errors.KafkaError, AssertionError, ValueError) as error:
                self.outcomes.not_taken(seq, error)
                continue
            future.add_callback(self.acknowledged, seq)
            future.add_errback(self.lost, seq)

    def acknowledged(self, seq, metadata):
        self.outcomes.acknowledged(seq, metadata.partition, metadata.offset, metadata.timestamp)

    def lost(self, seq, error):
        self.outcomes.lost(seq, error)

    def flush(self, timeout_ms, **_):
        try:
            self.producer.flush(timeout_ms / 1000)
        except kafka.errors.KafkaTimeoutError as error:
            raise Refused(f"records without an outcome: {error}") from error
        if not self.outcomes.wait(1):
            raise Refused(f"{len(self.outcomes.open)} records have no outcome yet")

    def begin(self, **_):
        self.producer.begin_transaction()

    def send_offsets(self, partitions, timeout_ms, **_):
        # Version 3 takes the member's generation and instance too, and older ones only the group's name.
        of_group = getattr(self.consumer, "group_metadata", None)
        group = of_group() if of_group is not None else self.consumer.config["group_id"]
        self.bounded(timeout_ms, self.producer.send_offsets_to_transaction, offsets(partitions), group)

    def commit_transaction(self, timeout_ms, **_):
        self.bounded(timeout_ms, self.producer.commit_transaction)

    def abort_transaction(self, timeout_ms, **_):
        self.bounded(timeout_ms, self.producer.abort_transaction)

    def subscribe(self, topics, **_):
        self.consumer.subscribe(topics, listener=self)

    def on_partitions_assigned(self, assigned):
        self.told("assigned", assigned)

    def on_partitions_revoked(self, revoked):
        self.told("revoked", revoked)

    def on_partitions_lost(self, lost):
        self.told("lost", lost)

    def told(self, event, partitions):
        if partitions:
            say(event, partitions=[position(each.topic, each.partition) for each in sorted(partitions)])

    def assign(self, partitions, **_):
        self.consumer.assign(places(partitions))
        for each, place in zip(partitions, places(partitions), strict=True):
            if each["offset"] == -2:
                self.consumer.seek_to_beginning(place)
            elif each["offset"] == -1:
                self.consumer.seek_to_end(place)
            else:
                self.consumer.seek(place, each["offset"])

    def poll(self, id, timeout_ms, max_records):
        if self.is_one_by_one:
            records = self.iterated(timeout_ms)
        else:
            found = self.consumer.poll(timeout_ms=timeout_ms, max_records=max_records)
            records = [each for some in found.values() for each in some]
        say("polled", id=id, records=lines.polled(records))
        return lines.ANSWERED

    def iterated(self, timeout_ms):
        """The next record of the consumer as an iterator. Without any time it would not even look."""
        self.consumer.config["consumer_timeout_ms"] = max(timeout_ms, 1)
        try:
            return [next(self.consumer)]
        except StopIteration:
            return []

    def pause(self, partitions, **_):
        self.consumer.pause(*places(partitions))

    def resume(self, partitions, **_):
        self.consumer.resume(*places(partitions))

    def seek(self, partitions, **_):
        for each, place in zip(partitions, places(partitions), strict=True):
            self.consumer.seek(place, each["offset"])

    def commit(self, id, partitions, timeout_ms):
        self.consumer.commit(offsets(partitions), **bound(self.consumer.commit, timeout_ms))
        say("committed", id=id, partitions=partitions)
        return lines.ANSWERED

    def close(self, timeout_ms, **_):
        """What the library does not do in time it is told to give up. Both sides have it together."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        with contextlib.suppress(kafka.errors.KafkaError):
            if self.consumer is not None:
                self.consumer.close(**bound(self.consumer.close, timeout_ms))
        if self.producer is not None:
            with contextlib.suppress(kafka.errors.KafkaError):
                self.producer.close(timeout=max(deadline_s - time.monotonic(), 0.1))
            self.outcomes.wait(1)
            self.outcomes.give_up("the producer is closed")
        self.producer = self.consumer = None


def patient(settings):
    """kafka-python before 3 takes no request.timeout.ms up to the session's, as a JoinGroup may wait that long. Returns
    the setting in force, if it is not the one that was asked for."""
    asked, session_ms = settings.get("request_timeout_ms"), settings.get("session_timeout_ms", 10_000)
    if (
        asked is None
        or "group_id" not in settings
        or asked > session_ms
        or not kafka.__version__.startswith(("1", "2"))
    ):
        return {}
    settings["request_timeout_ms"] = session_ms + 1
    return {"request.timeout.ms": str(session_ms + 1)}


def persistent(settings):
    """kafka-python before 2.1 has no delivery.timeout.ms: a batch is given up after the time of a request, and at its
    first error unless it is told otherwise. Kafka's clients go on. Returns the settings in force that nobody asked
    for."""
    defaults = kafka.KafkaProducer.DEFAULT_CONFIG
    if "delivery_timeout_ms" in defaults:
        return {}
    effective = {"delivery.timeout.ms": str(settings.get("request_timeout_ms", defaults["request_timeout_ms"]))}
    if "retries" not in settings:
        settings["retries"] = 2**31 - 1
        effective["retries"] = str(settings["retries"])
    return effective


def bound(call, timeout_ms):
    """Old versions wait for ever, and newer ones for as long as they are told."""
    return {"timeout_ms": timeout_ms} if "timeout_ms" in inspect.signature(call).parameters else {}


def wish(error):
    if isinstance(error, kafka.errors.KafkaTimeoutError) or getattr(error, "retriable", False):
        return "retry"
    return "close" if type(error).__name__ in ("ProducerFencedError", "IllegalStateError") else "abort"


def places(partitions):
    return [kafka.TopicPartition(each["topic"], each["partition"]) for each in partitions]


def offsets(partitions):
    rest = [-1] * (len(OffsetAndMetadata._fields) - 2)  # the epoch of a leader, since 2.1
    return {
        place: OffsetAndMetadata(each["offset"], "", *rest)
        for each, place in zip(partitions, places(partitions), strict=True)
    }


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    client = Client()
    lacks = {"share": "kafka-python has no share groups", "overlap": "this program does one thing at a time"}
    lines.ready(client, client="kafka-python", version=kafka.__version__, can=client.can(), lacks=lacks)
    lines.run(client, (kafka.errors.KafkaError, AssertionError, ValueError))
