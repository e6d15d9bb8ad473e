"""The records of streams groups: they come back as they were written, and Kafka's own decoder reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker.coordinator.groups.streams.reconcile import Current, MemberState
from broker.coordinator.groups.streams.record_codec import decode, encode
from broker.coordinator.groups.streams.records import (
    GroupValue,
    Kind,
    MemberValue,
    StreamsKey,
    StreamsRecord,
    TargetEpoch,
    Value,
)
from broker.coordinator.groups.streams.tasks import HeldTasks, Tasks
from broker.coordinator.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from broker.coordinator.schema import SchemaError
from broker.wire.records import encode_batch
from harness.clusters.kafka.jars import ensure_jars, has_jars, jar_directory, java_command
from tests.patience import run_command

MEMBER = MemberValue(
    rack_id="r",
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=60_000,
    topology_epoch=2,
    process_id="p",
    user_endpoint=("host", 65_000),
    client_tags={"zone": "a"},
)
CURRENT = Current(
    member_epoch=4,
    previous_member_epoch=3,
    state=MemberState.UNREVOKED_TASKS,
    assigned=HeldTasks(active={"0": {0: 4, 1: 2}}, standby={"1": frozenset({2})}),
    pending_revocation=HeldTasks(active={"1": {0: 3}}, warmup={"0": frozenset({3})}),
)
TOPOLOGY = Topology(
    epoch=2,
    subtopologies=(
        Subtopology(
            subtopology_id="0",
            source_topics=("in",),
            source_topic_regex=("a.*",),
            state_changelog_topics=(TopicInfo(name="log", configs=(("cleanup.policy", "compact"),)),),
            repartition_sink_topics=("sink",),
            repartition_source_topics=(TopicInfo(name="source", partitions=3, replication_factor=2),),
            copartition_groups=(CopartitionGroup(source_topics=(0,), repartition_source_topics=(0,)),),
        ),
        Subtopology(subtopology_id="1", source_topics=("sink",)),
    ),
)


def _records() -> list[StreamsRecord]:
    values: list[tuple[Kind, Value | None]] = [
        (
            Kind.GROUP,
            GroupValue(
                epoch=5,
                metadata_hash=-7,
                validated_topology_epoch=2,
                assignment_configs={"num.standby.replicas": "1"},
            ),
        ),
        (Kind.GROUP, GroupValue(epoch=1, metadata_hash=0)),
        (Kind.MEMBER, MEMBER),
        (Kind.MEMBER, MemberValue(client_id="c", client_host="/h")),
        (Kind.TARGET_EPOCH, TargetEpoch(epoch=5, timestamp_ms=1_234)),
        (Kind.TARGET_EPOCH, TargetEpoch(epoch=5)),
        (Kind.TARGET_MEMBER, Tasks(active={"0": frozenset({0, 1})}, standby={"1": frozenset({1})})),
        (Kind.CURRENT_MEMBER, CURRENT),
        (Kind.TOPOLOGY, TOPOLOGY),
        *((kind, None) for kind in Kind),
    ]
    return [
        (StreamsKey(kind=kind, group_id="g", member_id="m" if kind.has_member else ""), value) for kind, value in values
    ]


def test_records_come_back_as_they_were_written() -> None:
    for record in _records():
        encoded = encode(record)
        assert decode(encoded.key, encoded.value) == record


def test_records_of_other_groups_are_left_to_others() -> None:
    assert decode(b"\0\x03\0\x01g", None) is None
    assert decode(b"\0\x12\0\x01g", None) is None, "the type of an early version of Kafka, without a use"


@pytest.mark.parametrize("record", [each for each in _records() if each[1] is not None], ids=lambda each: each[0].kind)
def test_a_truncated_value_is_an_error(record: StreamsRecord) -> None:
    encoded = encode(record)
    assert encoded.value is not None
    for size in range(2, len(encoded.value)):
        with pytest.raises(SchemaError):
            decode(encoded.key, encoded.value[:size])


def test_a_value_of_an_unknown_version_is_an_error() -> None:
    encoded = encode(_records()[0])
    assert encoded.value is not None
    with pytest.raises(SchemaError, match="version 1"):
        decode(encoded.key, b"\0\x01" + encoded.value[2:])


def test_a_state_of_a_newer_version_is_unknown_and_old_tasks_have_no_epochs() -> None:
    key = StreamsKey(kind=Kind.CURRENT_MEMBER, group_id="g", member_id="m")
    encoded = encode((key, Current(member_epoch=3, previous_member_epoch=2)))
    assert encoded.value is not None
    newer = encoded.value[:10] + b"\x09" + encoded.value[11:]
    found = decode(encoded.key, newer)
    assert found is not None
    assert isinstance(found[1], Current)
    assert found[1].state is MemberState.UNKNOWN
    without_epochs = encoded.value[:11] + b"\x02\x020\x02\0\0\0\x07\0" + encoded.value[12:]
    found = decode(encoded.key, without_epochs)
    assert found is not None
    assert isinstance(found[1], Current)
    assert found[1].assigned == HeldTasks(active={"0": {7: 0}})


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.skipif(not has_jars(jar_directory()), reason="no Kafka jars: make setup-dev")
def test_kafka_decodes_our_records(tmp_path: Path) -> None:
    records = _records()
    found = _dump(tmp_path, records)
    assert [key["type"] for key, _ in found] == [str(int(key.kind)) for key, _ in records]
    assert found[0][0]["data"] == {"groupId": "g"}
    assert found[2][0]["data"] == {"groupId": "g", "memberId": "m"}
    data = [None if value is None else value["data"] for _, value in found]
    configs = [{"key": "num.standby.replicas", "value": "1"}]
    assert data[0] == {
        "epoch": 5, "metadataHash": -7, "validatedTopologyEpoch": 2, "lastAssignmentConfigs": configs,
    }  # fmt: skip
    assert data[1] == {"epoch": 1, "metadataHash": 0}
    assert data[2]["userEndpoint"] == {"host": "host", "port": 65_000}
    assert data[2]["clientTags"] == [{"key": "zone", "value": "a"}]
    assert data[3]["userEndpoint"] is None
    assert data[4] == {"assignmentEpoch": 5, "assignmentTimestamp": 1_234}
    assert data[6]["activeTasks"] == [{"subtopologyId": "0", "partitions": [0, 1]}]
    assert data[7]["state"] == 2
    assert data[7]["activeTasks"] == [{"subtopologyId": "0", "partitions": [0, 1], "assignmentEpochs": [4, 2]}]
    assert data[7]["warmupTasksPendingRevocation"] == [{"subtopologyId": "0", "partitions": [3]}]
    assert data[8]["subtopologies"][0]["copartitionGroups"][0]["sourceTopics"] == [0]
    assert data[8]["subtopologies"][0]["repartitionSourceTopics"][0]["replicationFactor"] == 2
    assert data[9:] == [None] * len(Kind)


def _dump(directory: Path, records: list[StreamsRecord]) -> list[tuple[Any, Any]]:
    """(key, value) of each record as Kafka's decoder prints them; a tombstone is None."""
    encoded = [encode(record) for record in records]
    batch = encode_batch([each.value for each in encoded], keys=[each.key for each in encoded], timestamps_ms=1)
    segment = directory / "__consumer_offsets-0" / "00000000000000000000.log"
    segment.parent.mkdir()
    segment.write_bytes(batch)
    command = [java_command(), "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", f"{ensure_jars()}/*"]
    command += ["org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment)]
    done = run_command(command, cwd=directory)
    assert done.returncode == 0, done.stderr[-2000:]
    found = []
    for line in done.stdout.splitlines():
        if line.startswith("| offset:"):
            key, payload = line.split(" key: ", 1)[1].split(" payload: ", 1)
            found.append((json.loads(key), None if payload == "<DELETE>" else json.loads(payload)))
    assert len(found) == len(records), done.stdout[-2000:]
    return found
