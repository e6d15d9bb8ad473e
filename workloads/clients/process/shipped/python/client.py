"""A client of the harness over confluent-kafka (librdkafka). It speaks docs/reference/client-protocol.md.

One loop reads commands and carries them out. A second thread serves the producer, so that outcomes have their time.
"""

import base64
import functools
import json
import logging
import os
import sys
import threading
import time

import confluent_kafka as kafka

COMMON = """bootstrap.servers client.id connections.max.idle.ms metadata.max.age.ms reconnect.backoff.max.ms
    reconnect.backoff.ms retry.backoff.ms security.protocol """
PRODUCER = """acks batch.size compression.type delivery.timeout.ms enable.idempotence linger.ms
    max.in.flight.requests.per.connection queue.buffering.max.kbytes queue.buffering.max.messages request.timeout.ms
    retries sticky.partitioning.linger.ms transaction.timeout.ms transactional.id"""
CONSUMER = """auto.commit.interval.ms auto.offset.reset check.crcs enable.auto.commit enable.partition.eof
    fetch.max.bytes fetch.min.bytes fetch.wait.max.ms group.id group.instance.id group.protocol heartbeat.interval.ms
    isolation.level max.partition.fetch.bytes max.poll.interval.ms partition.assignment.strategy
    queued.max.messages.kbytes queued.min.messages session.timeout.ms"""
PROPERTIES = {"producer": (COMMON + PRODUCER).split(), "consumer": (COMMON + CONSUMER).split()}
CAN = "produce partition headers callers assign subscribe seek pause commit one-by-one".split()  # noqa: SIM905
CAN += ["transactions", "send-offsets"]
LACKS = {"share": "not in this program", "overlap": "it does one thing at a time"}
SILENT = {"log_level": 0, "logger": logging.getLogger("librdkafka")}
SIDES = {"producer": ["producer"], "consumer": ["consumer"], "copier": ["consumer", "producer"]}  # The key is the role.
out_lock = threading.Lock()


def now_us():
    return time.monotonic_ns() // 1000


def say(event, **fields):
    line = json.dumps({"event": event, "at_us": now_us(), **fields}, separators=(",", ":"))
    with out_lock:
        try:
            print(line, flush=True)
        except OSError:
            os._exit(1)  # nobody reads on: who started it is gone, and records that wait for room would never end


def encoded(content):
    return None if content is None else base64.b64encode(content).decode()


def decoded(text):
    return None if text is None else base64.b64decode(text)


def places(partitions):
    return [kafka.TopicPartition(each["topic"], each["partition"], each.get("offset", -1001)) for each in partitions]


class Refused(Exception):
    def __init__(self, reason, name=None):
        super().__init__(reason)
        self.property = name


class Client:
    def __init__(self):
        self.producer = self.consumer = None

    def connect(self, role, properties, timeout_ms, failed_codes=(), one_by_one=False, **_):
        sides, self.is_transactional = SIDES.get(role, []), "transactional.id" in properties
        for name in properties:
            if not any(name in PROPERTIES[side] for side in sides):
                raise Refused(f"this program does not set it for a {role}", name)
        self.failed_codes, self.is_acked, self.is_one = set(failed_codes), properties.get("acks") != "0", one_by_one
        self.taken, self.is_auto_commit = set(), properties.get("enable.auto.commit") != "false"
        # To librdkafka metadata.max.age.ms is how long a topic stays in its cache. What users of Kafka mean by it, how
        # soon a change is seen, has another name there.
        age = properties.get("metadata.max.age.ms")
        own = SILENT if age is None else {**SILENT, "topic.metadata.refresh.interval.ms": age}
        of = {side: {**{k: v for k, v in properties.items() if k in PROPERTIES[side]}, **own} for side in sides}
        if "consumer" in of:
            self.consumer = kafka.Consumer({"group.id": "none", **of["consumer"]})
        if "producer" in of:
            self.producer = kafka.Producer({**of["producer"], "error_cb": self.tell_fatal})
            threading.Thread(target=self.serve, args=[self.producer], daemon=True).start()
            if self.is_transactional:
                self.producer.init_transactions(timeout_ms / 1000)

    def serve(self, producer):
        while self.producer is producer:
            try:
                producer.poll(0.05)
            except kafka.KafkaException as error:
                self.tell_fatal(error.args[0])

    def tell_fatal(self, error):
        """After a fatal error, which the library's binding may raise in any call, nothing is sent any more. In
        transactions the call's own answer tells it: who was fenced goes on with another producer."""
        if error.fatal() and not self.is_transactional:
            say("fatal", code=max(-1, error.code()), reason=error.str())
            os._exit(1)

    def produce(self, topic, records, callers=1, **_):
        """Each caller is a thread that gives its share in order."""
        shares = [records[one::callers] for one in range(callers)]
        threads = [threading.Thread(target=self.give, args=[topic, share]) for share in shares[1:]]
        for thread in threads:
            thread.start()
        self.give(topic, shares[0])
        for thread in threads:
            thread.join()

    def give(self, topic, records):
        for record in records:
            headers = [(each["key"], decoded(each["value"])) for each in record.get("headers", [])]
            sent_us = now_us()
            while True:
                try:
                    self.producer.produce(
                        topic, decoded(record["value"]), decoded(record["key"]), record.get("partition", -1),
                        on_delivery=functools.partial(self.outcome, record["seq"], sent_us), headers=headers,
                    )  # fmt: skip
                    break
                except BufferError:
                    time.sleep(0.005)  # back-pressure: nothing is read meanwhile
                except kafka.KafkaException as error:
                    self.tell_fatal(error.args[0])
                    say("failed", records=[{"seq": record["seq"], "sent_us": sent_us}], code=-1, reason=str(error))
                    break

    def outcome(self, seq, sent_us, error, message):
        record = {"seq": seq, "sent_us": sent_us}
        if error is None and self.is_acked:
            offset = -1 if message.offset() is None else message.offset()  # unknown of a batch that was there already
            record |= {"partition": message.partition(), "offset": offset}
            say("acknowledged", records=[{**record, "timestamp_ms": message.timestamp()[1]}])
        elif error is None:
            say("unknown", records=[record], code=0)
        else:
            kind = "failed" if error.code() in self.failed_codes else "unknown"
            say(kind, records=[record], code=max(-1, error.code()), reason=error.str())

    def flush(self, timeout_ms, **_):
        if left := self.producer.flush(timeout_ms / 1000):
            raise Refused(f"{left} records have no outcome yet")

    def send_offsets(self, partitions, timeout_ms, **_):
        group = self.consumer.consumer_group_metadata()
        self.producer.send_offsets_to_transaction(places(partitions), group, timeout_ms / 1000)

    def subscribe(self, topics, **_):
        def teller(event, _consumer, partitions):
            say(event, partitions=[{"topic": each.topic, "partition": each.partition} for each in partitions])
            if event != "assigned":
                self.taken.update((each.topic, each.partition) for each in partitions)

        self.consumer.subscribe(topics, *(functools.partial(teller, each) for each in ("assigned", "revoked", "lost")))

    def poll(self, id, timeout_ms, max_records):
        found = [self.consumer.poll(timeout_ms / 1000)] if self.is_one else self.consumer.consume(1, timeout_ms / 1000)
        messages = [each for each in found if each is not None]
        self.taken.clear()
        if messages and max_records > 1 and not self.is_one:
            more = self.consumer.consume(max_records - 1, 0.005)  # what is there already
            # A rebalance in that call may have taken the first one's partition. Its next owner is given that record
            # too, unless the library has committed it by itself meanwhile.
            is_ours = self.is_auto_commit or (messages[0].topic(), messages[0].partition()) not in self.taken
            messages = [*(messages if is_ours else []), *more]
        at_us = now_us()
        for each in messages:
            if each.error() is not None and each.error().code() != kafka.KafkaError._PARTITION_EOF:
                say("error", code=max(-1, each.error().code()), reason=each.error().str())
        records = [
            {
                "topic": each.topic(), "partition": each.partition(), "offset": each.offset(),
                "key": encoded(each.key()), "value": encoded(each.value()), "timestamp_ms": each.timestamp()[1],
                "headers": [{"key": name, "value": encoded(value)} for name, value in each.headers() or []],
            }
            for each in messages
            if each.error() is None
        ]  # fmt: skip
        say("polled", id=id, at_us=at_us, records=records)

    def seek(self, partitions, **_):
        for place in places(partitions):
            self.consumer.seek(place)

    def commit(self, id, partitions, **_):
        self.consumer.commit(offsets=places(partitions), asynchronous=False)
        say("committed", id=id, partitions=partitions)

    def close(self, timeout_ms, **_):
        if self.consumer is not None:
            self.consumer.close()
        if self.producer is not None and self.producer.flush(timeout_ms / 1000):
            self.producer.purge()  # their outcomes come now: unknown
            self.producer.flush(5)
        self.producer = self.consumer = None


def carry_out(client, command):
    do = command.pop("do")
    if do == "produce":
        client.produce(**command)
        return
    try:
        if do in ("assign", "pause", "resume"):
            getattr(client.consumer, do)(places(command["partitions"]))
        elif do == "begin":
            client.producer.begin_transaction()
        elif do in ("commit-transaction", "abort-transaction"):
            getattr(client.producer, do.replace("-", "_"))(command["timeout_ms"] / 1000)
        elif do in ("connect", "flush", "send-offsets", "subscribe", "poll", "seek", "commit", "close"):
            getattr(client, do.replace("-", "_"))(**command)
        else:
            raise Refused(f"no such command: {do}")
        if do not in ("poll", "commit"):
            say("done", id=command["id"])
    except Refused as error:
        say("error", id=command["id"], reason=str(error), property=error.property)
    except kafka.KafkaException as error:
        problem = error.args[0]
        client.tell_fatal(problem)
        wish = "retry" if problem.retriable() else "abort" if problem.txn_requires_abort() else None
        say("error", id=command["id"], code=max(-1, problem.code()), reason=problem.str(), next=wish)


if __name__ == "__main__":
    version = kafka.version() if isinstance(kafka.version(), str) else kafka.version()[0]  # before 2.7 a pair
    ready = {"protocol": 1, "client": "confluent-kafka", "version": version, "can": CAN, "lacks": LACKS}
    say("ready", properties=PROPERTIES, **ready)
    client = Client()
    for line in sys.stdin:
        carry_out(client, json.loads(line))
