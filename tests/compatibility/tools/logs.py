"""kafka-dump-log on the files that a reference broker wrote: data, indexes, and the records of its own topics."""

from __future__ import annotations

import re
import time
from pathlib import Path

from broker.door.clients import Producer
from tests.compatibility.tools.toolbox import Tool, Toolbox
from tests.patience import wait_until

DUMP = "DumpLogSegments"


def _files(box: Toolbox, topic: str, suffix: str) -> list[Path]:
    """Those of one broker."""
    return sorted(path for path in box.world.cluster.log_dir(1).glob(f"{topic}/*{suffix}") if path.stat().st_size)


def _data(box: Toolbox) -> None:
    topic = box.world.topic(index_interval_bytes=200, segment_bytes=16_000)  # indexes are written when a segment ends
    # Only a later time is an entry of the time index. A busy host sends a whole segment within a millisecond.
    first_ms = int(time.time() * 1000) - 300
    with Producer({"bootstrap.servers": box.world.bootstrap, "batch.size": 1_000}) as producer:
        for number in range(300):
            producer.send(topic, b"x" * 100, partition=0, timestamp_ms=first_ms + number)
        assert producer.flush(120) == 0
    logs = ",".join(map(str, _files(box, f"{topic}-0", ".log")))
    found = box.run(DUMP, "--files", logs, "--print-data-log", server="")
    assert len(re.findall(r"^\| offset: \d+", found, re.MULTILINE)) == 300, found[-1_000:]
    assert "isvalid: false" not in found, found
    by_offset, by_time = (_files(box, f"{topic}-0", suffix) for suffix in (".index", ".timeindex"))
    checked = box.run(DUMP, "--files", ",".join(map(str, by_offset + by_time)), "--verify-index-only", server="")
    assert not re.search("mismatch|error|exception", checked, re.IGNORECASE), checked
    for index, entry in ((by_offset[0], r"offset: \d+ position: \d+"), (by_time[0], r"timestamp: \d+ offset: \d+")):
        found = box.run(DUMP, "--files", index, server="")
        assert len(re.findall(entry, found)) > 1, found


def _aborted(box: Toolbox) -> None:
    topic = box.world.topic()
    with Producer({"bootstrap.servers": box.world.bootstrap, "transactional.id": box.world.name("tx")}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"gone", partition=0)
        producer.flush()
        producer.abort_transaction()
    # a follower has the marker by a later fetch than the one that tells the leader so
    (index,) = wait_until(lambda: _files(box, f"{topic}-0", ".txnindex"), "the marker on broker 1")
    found = box.run(DUMP, "--files", index, server="")
    assert re.search(r"version: 0 producerId: \d+ firstOffset: 0 lastOffset: 1 lastStableOffset: \d", found), found


def _offsets(box: Toolbox) -> None:
    """What the broker wrote to __consumer_offsets is read by Kafka's own decoder: groups of both protocols."""
    topic, dumped = box.topic_of(4), ""
    groups = {protocol: box.world.name("decoded") for protocol in ("classic", "consumer")}
    for protocol, group in groups.items():
        given = ("--group-id", group, "--max-messages", 4, "--group-protocol", protocol)
        box.run("VerifiableConsumer", "--topic", topic, *given)
    for log in _own_logs(box, "__consumer_offsets"):
        dumped += box.run(DUMP, "--files", log, "--offsets-decoder", server="")
    for group in groups.values():
        assert re.search(rf'"group":"{group}","topic":"{topic}","partition":0.*"offset":4', dumped), group
    assert re.search(rf'"type":"2","data":.*"group":"{groups["classic"]}"', dumped), "metadata of the classic group"
    assert re.search(rf'"type":"3","data":.*"groupId":"{groups["consumer"]}"', dumped), "metadata of the other"
    assert "Could not read" not in dumped


def _transaction_state(box: Toolbox) -> None:
    topic, name = box.world.topic(), box.world.name("decoded")
    box.run(
        "ProducerPerformance", "--topic", topic, "--num-records", 5, "--record-size", 10, "--throughput", -1,
        "--transactional-id", name, "--transaction-duration-ms", 10,
    )  # fmt: skip

    def states() -> set[str]:
        logs = _own_logs(box, "__transaction_state")
        dumped = "".join(box.run(DUMP, "--files", log, "--transaction-log-decoder", server="") for log in logs)
        return set(re.findall(rf'"transactionalId":"{name}".*"transactionStatus":(\d)', dumped))

    wait_until(lambda: {"1", "2", "4"} <= states(), "ongoing, prepare commit, complete commit on broker 1")


def _metadata(box: Toolbox) -> None:
    topic = box.world.topic()
    (log, *_) = _own_logs(box, "__cluster_metadata")
    dumped = box.run(DUMP, "--files", log, "--cluster-metadata-decoder", server="")
    assert "isvalid: false" not in dumped
    assert "LeaderChange" in dumped, "the quorum's own records are Kafka's"
    assert re.search(rf'payload: \{{"type":"TOPIC_RECORD",.*"name":"{topic}"', dumped), "the topic's record"


def _own_logs(box: Toolbox, topic: str) -> list[Path]:
    return _files(box, f"{topic}-*", ".log")


TOOLS = (
    Tool(name="kafka-dump-log", asked="300 records in segments, and both their indexes", attempt=_data),
    Tool(name="kafka-dump-log (.txnindex)", asked="an aborted transaction", attempt=_aborted),
    Tool(name="kafka-dump-log (__consumer_offsets)", asked="offsets and groups, decoded", attempt=_offsets),
    Tool(name="kafka-dump-log (__transaction_state)", asked="the states of a transaction, decoded",
         attempt=_transaction_state),
    Tool(name="kafka-dump-log (__cluster_metadata)", asked="a topic's record, decoded",
         attempt=_metadata),
)  # fmt: skip
