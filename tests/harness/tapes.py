"""A tape by hand, for tests: a group that reads ten records, and the first request for its committed offsets."""

from __future__ import annotations

from dataclasses import replace

from harness.explore.oracles.oracles import Kind
from harness.explore.trial.model import Disturbance, How, Move, Program, Role, Trial
from harness.explore.trial.model import Do as MoveDo
from harness.tape.model import Do, Frame, Tape

NOT_COORDINATOR = 16
TOPIC_ID = "020fbd04-5233-4f15-841d-45d7cd491b20"
_BROKER = {"node_id": 1, "host": "broker.example", "port": 9092}
_PARTITIONS = [
    {"partition_index": number, "leader_id": 1, "leader_epoch": 0, "replica_nodes": [1], "isr_nodes": [1]}
    for number in range(2)
]
# Key, oldest and newest version of what a consumer in a group uses; Produce, so that it is not taken for an old broker.
_VERSIONS = (
    (0, 0, 11), (1, 4, 16), (2, 1, 7), (3, 0, 12), (8, 2, 9), (9, 1, 9), (10, 0, 2), (11, 0, 5), (12, 0, 3), (13, 0, 1),
    (14, 0, 3), (18, 0, 3), (22, 0, 4), (23, 2, 4), (24, 0, 3), (26, 0, 3),
)  # fmt: skip
API_VERSIONS = {"api_keys": [{"api_key": key, "min_version": low, "max_version": high} for key, low, high in _VERSIONS]}
METADATA = {
    "brokers": [_BROKER],
    "controller_id": 1,
    "topics": [{"name": "tape", "topic_id": TOPIC_ID, "partitions": _PARTITIONS}],
}
HEALTHY = (
    Frame(api="ApiVersions", version=3, message=API_VERSIONS),
    Frame(api="Metadata", version=12, message=METADATA),
    Frame(api="FindCoordinator", version=2, message=_BROKER),
    Frame(api="JoinGroup", version=5),
    Frame(api="SyncGroup", version=3),
    Frame(api="OffsetFetch", version=9),
)
# What a producer needs beside them.
PRODUCING = (Frame(api="Produce", version=9), Frame(api="InitProducerId", version=4))
REFUSED = Frame(
    api="OffsetFetch",
    version=9,
    request=1,
    message={"groups": [{"group_id": "tape-group", "error_code": NOT_COORDINATOR}]},
)
CLOSED = replace(REFUSED, do=Do.CLOSE, message={})
PROPERTIES = {
    "auto.offset.reset": "earliest",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "fetch.max.wait.ms": "100",
    "enable.auto.commit": "false",
}
TRIAL = Trial(
    program=Program(
        name="group",
        role=Role.CONSUMER,
        moves=(Move(do=MoveDo.SUBSCRIBE),),
        properties=PROPERTIES,
        partitions=2,
        prefilled=10,
    ),
    disturbance=Disturbance(api="OffsetFetch", how=How.ERROR_BEFORE, code=NOT_COORDINATOR),
)


def tape(*scripted: Frame) -> Tape:
    return Tape(
        client="a client 1.0",
        kind=Kind.STUCK,
        what="10 of 10 records unread after 15054 ms",
        trial=TRIAL,
        frames=(*HEALTHY, *scripted),
    )
