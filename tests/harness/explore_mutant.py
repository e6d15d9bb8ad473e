"""The shipped client in Python with one bug: `python explore_mutant.py NAME`.

tests/harness/test_harness_explore_bench.py searches for it. Each bug is one that applications really have: it sends
again what is not answered in time, commits one record too far, commits offsets beside the transaction that has the
copies, or ends at once when a transaction is aborted.
"""

import os
import sys
import threading

from workloads.clients.process.shipped.python import client as right


class SendsAgain(right.Client):
    """What has no outcome after a second is sent again, although the library still does so itself. Not if so many wait
    that it is a queue, and not a late answer."""

    def connect(self, **fields):  # type: ignore[no-untyped-def]
        self.unanswered = {}
        super().connect(**fields)

    def produce(self, topic, records, **fields):  # type: ignore[no-untyped-def]
        for record in records:
            self.unanswered[record["seq"]] = record
            threading.Timer(1.0, self._again, [topic, record]).start()
        super().produce(topic, records, **fields)

    def _again(self, topic, record):  # type: ignore[no-untyped-def]
        is_late = self.unanswered.get(record["seq"]) is record and len(self.unanswered) < 500
        if is_late and self.producer is not None:
            self.producer.produce(topic, right.decoded(record["value"]), partition=record.get("partition", -1))

    def outcome(self, seq, sent_us, error, message):  # type: ignore[no-untyped-def]
        self.unanswered.pop(seq, None)
        super().outcome(seq, sent_us, error, message)


class CommitsTooFar(right.Client):
    def commit(self, id, partitions, **fields):  # type: ignore[no-untyped-def]
        super().commit(id, [{**each, "offset": each["offset"] + 1} for each in partitions], **fields)


class CommitsOutside(right.Client):
    """The consumer commits the group's offsets, beside the transaction that has the copies."""

    def send_offsets(self, partitions, **_):  # type: ignore[no-untyped-def]
        self.consumer.commit(offsets=right.places(partitions), asynchronous=False)


class DiesAborting(right.Client):
    """The process is gone when a transaction is aborted."""


MUTANTS = {
    "sends again": SendsAgain,
    "commits too far": CommitsTooFar,
    "commits outside": CommitsOutside,
    "dies aborting": DiesAborting,
}


def main() -> None:
    name = sys.argv[1]
    ready = {
        "protocol": 1,
        "client": f"confluent-kafka, {name}",
        "version": "0",
        "can": right.CAN,
        "lacks": right.LACKS,
    }
    right.say("ready", properties=right.PROPERTIES, **ready)
    made = MUTANTS[name]()
    for line in sys.stdin:
        command = right.json.loads(line)
        if name == "dies aborting" and command["do"] == "abort-transaction":
            os.abort()
        right.carry_out(made, command)


if __name__ == "__main__":
    main()
