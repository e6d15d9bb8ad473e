"""What the clients in this directory share: the lines of docs/reference/client-protocol.md, and the loop for them.

A client is an object with a method for each command. A method answers by what it returns (None: done), or raises.
"""

import base64
import json
import os
import sys
import threading
import time

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


def position(topic, partition, offset=None):
    return {"topic": topic, "partition": partition, **({} if offset is None else {"offset": offset})}


def polled(records):
    """Of objects that both libraries make alike."""
    return [
        {
            "topic": each.topic, "partition": each.partition, "offset": each.offset, "key": encoded(each.key),
            "value": encoded(each.value), "timestamp_ms": each.timestamp,
            "headers": [{"key": name, "value": encoded(value)} for name, value in each.headers or ()],
        }
        for each in records
    ]  # fmt: skip


class Refused(Exception):
    def __init__(self, reason, **fields):
        super().__init__(reason)
        self.fields = fields


class Outcomes:
    """The records that have no outcome yet. The first outcome of a record counts, whoever tells it."""

    def __init__(self, failed_codes, is_acked):
        self.failed_codes, self.is_acked = set(failed_codes), is_acked
        self.open, self.changed = {}, threading.Condition()

    def begin(self, seq):
        with self.changed:
            self.open[seq] = now_us()

    def acknowledged(self, seq, partition, offset, timestamp_ms):
        if not self.is_acked:
            self._tell("unknown", seq, {}, code=0)
            return
        known = {} if timestamp_ms is None else {"timestamp_ms": timestamp_ms}
        self._tell("acknowledged", seq, {"partition": partition, "offset": -1 if offset is None else offset, **known})

    def lost(self, seq, error):
        code = code_of(error)
        self._tell("failed" if code in self.failed_codes else "unknown", seq, {}, code=code, reason=repr(error))

    def not_taken(self, seq, error):
        """The library refused it before it queued it."""
        self._tell("failed", seq, {}, code=-1, reason=repr(error))

    def give_up(self, reason):
        for seq in list(self.open):
            self._tell("unknown", seq, {}, code=0, reason=reason)

    def wait(self, timeout_s):
        """Whether all have their outcome."""
        with self.changed:
            return self.changed.wait_for(lambda: not self.open, timeout_s)

    def _tell(self, event, seq, record, **fields):
        with self.changed:
            sent_us = self.open.get(seq)
            if sent_us is None:
                return
            say(event, records=[{"seq": seq, "sent_us": sent_us, **record}], **fields)
            del self.open[seq]
            self.changed.notify_all()


def code_of(error):
    """Kafka's, if a broker gave it. The libraries number errors of their own below zero."""
    code = getattr(error, "errno", None)
    return code if isinstance(code, int) and code > 0 else -1


def settings(properties, names, other=None):
    """Kafka's properties as keyword arguments of the library. `names`: those that it takes, each with the kind of its
    value (int, bool, str, or a function). `other`: arguments that are not the property's name with underscores."""
    made = {}
    for name, value in properties.items():
        if name not in names:
            raise Refused("the library has nothing for it, or this program does not set it", property=name)
        try:
            made[(other or {}).get(name, name.replace(".", "_"))] = names[name](value)
        except (ValueError, KeyError) as error:
            raise Refused(f"{value!r} is not one of its values", property=name) from error
    return made


def yes(value):
    return {"true": True, "false": False}[value.lower()]


def acks(value):
    return {"all": "all", "-1": "all", "0": 0, "1": 1}[value]


def codec(value):
    return {"none": None, "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}[value]


COMMON = {
    "bootstrap.servers": lambda value: value.split(","), "client.id": str, "connections.max.idle.ms": int,
    "metadata.max.age.ms": int, "request.timeout.ms": int, "retry.backoff.ms": int, "security.protocol": str,
}  # fmt: skip
PRODUCER = {
    **COMMON, "acks": acks, "batch.size": int, "compression.type": codec, "enable.idempotence": yes, "linger.ms": int,
    "max.request.size": int, "transaction.timeout.ms": int, "transactional.id": str,
}  # fmt: skip
CONSUMER = {
    **COMMON, "auto.commit.interval.ms": int, "auto.offset.reset": str, "check.crcs": yes, "client.rack": str,
    "enable.auto.commit": yes, "fetch.max.bytes": int, "fetch.max.wait.ms": int, "fetch.min.bytes": int,
    "group.id": str, "group.instance.id": str, "heartbeat.interval.ms": int, "isolation.level": str,
    "max.partition.fetch.bytes": int, "max.poll.interval.ms": int, "session.timeout.ms": int,
}  # fmt: skip


def known(names, arguments, other=None):
    """Those of `names` for which this version of the library has an argument."""
    return {name: kind for name, kind in names.items() if (other or {}).get(name, name.replace(".", "_")) in arguments}


def of_sides(properties, sides):
    """The properties of each side; a copier has both. Refused for one that belongs to none."""
    for name in properties:
        if not any(name in names for names in sides):
            raise Refused("the library has nothing for it, or this program does not set it here", property=name)
    return [settings({name: value for name, value in properties.items() if name in names}, names) for names in sides]


COMMANDS = (
    "connect", "flush", "subscribe", "assign", "poll", "pause", "resume", "seek", "commit", "begin", "send-offsets",
    "commit-transaction", "abort-transaction", "close",
)  # fmt: skip
ANSWERED = object()  # a method that has answered by itself


def ready(program, **fields):
    say("ready", protocol=1, properties={side: list(names) for side, names in program.properties.items()}, **fields)


def method_of(client, do):
    if do not in COMMANDS:
        raise Refused(f"no such command: {do}")
    return getattr(client, do.replace("-", "_"))


def refuse(number, error):
    fields = error.fields if isinstance(error, Refused) else {"code": code_of(error)}
    say("error", id=number, **{"reason": str(error) or repr(error), **fields})


def at_once(give, topic, records, callers=1, **_):
    """Each caller is a thread that gives its share in order. Returns when all are given."""
    threads = [threading.Thread(target=give, args=[topic, records[one::callers]]) for one in range(1, callers)]
    for thread in threads:
        thread.start()
    give(topic, records[::callers])
    for thread in threads:
        thread.join()


def run(client, errors):
    """Until the end of standard input. `errors`: what the library raises."""
    for line in sys.stdin:
        command = json.loads(line)
        do = command.pop("do")
        if do == "produce":
            at_once(client.give, **command)
            continue
        try:
            if method_of(client, do)(**command) is not ANSWERED:
                say("done", id=command["id"])
        except (Refused, *errors) as error:
            refuse(command["id"], error)
