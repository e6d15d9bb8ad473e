"""What in a healthy answer depends on the request.

Which partitions are asked for and from which offset, the member's id and assignment, the offsets that it committed, the
state of its transaction, and the addresses of the peer. `RULES` has one function for each API for which
that is so. Shown by tests/harness/test_harness_tape_script.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final  # a request is kio's, of a type that is chosen at run time

from broker.door.batches import iter_batches
from broker.door.protocol import ErrorCode
from chaos.toxiproxy.kafka.apis import API_KEYS
from harness.tape.fields import Plain
from harness.tape.group import Joined, Wish
from harness.tape.state import Address, Later, State

_LATEST: Final = -1
_READ_COMMITTED: Final = 1
_OFFSET_OUT_OF_RANGE: Final = int(ErrorCode.offset_out_of_range)
_UNKNOWN_TOPIC_OR_PARTITION: Final = int(ErrorCode.unknown_topic_or_partition)
_API_VERSIONS: Final = "ApiVersions"
# A peer that does not offer these is not asked for them. Without Produce a client would take it for an old broker.
_OPTIONAL: Final = frozenset({"GetTelemetrySubscriptions", "PushTelemetry"})
# From these versions on a client leaves it to the brokers which partitions are in its transaction (KIP-890).
_PRODUCE_ADDS: Final = 12
_END_RAISES: Final = 5

Rule = Callable[[State, Any, Mapping[str, Any]], Plain | Later]


def with_address(message: Plain, addresses: Mapping[int, Address]) -> Plain:
    """Brokers are named in the answers of Metadata and FindCoordinator, and each broker is this peer. An error of
    FindCoordinator names none."""
    first = next(iter(addresses.values()))

    def here(entry: Mapping[str, Any]) -> Plain:
        at = addresses.get(entry.get("node_id", 0), first)
        return {"host": at.host, "port": at.port}

    if message.get("host"):
        message |= here(message)
    for name in ("brokers", "coordinators", "node_endpoints"):
        if message.get(name):
            message[name] = [{**each, **here(each)} if each.get("host") else each for each in message[name]]
    return message


def _api_versions(state: State, request: Any, answer: Mapping[str, Any]) -> Plain:
    """What the real broker told, up to the version that was recorded of each API."""
    keys: list[Plain] = []
    names = {key: name for name, key in API_KEYS.items()}
    for each in answer.get("api_keys", []):
        name = names.get(each.get("api_key", 0), "")
        newest = state.newest.get(name)
        if newest is None and name in _OPTIONAL:
            continue
        most = each.get("max_version", 0)
        keys.append({**each, "max_version": most if newest is None else min(newest, most)})
    return {**answer, "api_keys": keys}


def _metadata(state: State, request: Any, answer: Mapping[str, Any]) -> Plain:
    """All topics, if the client asks for all, and else those that it names."""
    message = with_address(dict(answer), state.addresses)
    if request.topics is None or (not request.topics and not hasattr(request, "allow_auto_topic_creation")):
        return message
    known = {each.get("name"): each for each in answer.get("topics", [])}
    by_id = {each.get("topic_id"): each for each in answer.get("topics", []) if each.get("topic_id")}
    topics: list[Plain] = []
    for asked in request.topics:
        found = known.get(asked.name) if asked.name is not None else by_id.get(str(asked.topic_id))
        topics.append(dict(found) if found else {"name": asked.name, "error_code": _UNKNOWN_TOPIC_OR_PARTITION})
    return {**message, "topics": topics}


def _find_coordinator(state: State, request: Any, answer: Mapping[str, Any]) -> Plain:
    message = with_address(dict(answer), state.addresses)
    keys = getattr(request, "coordinator_keys", None)
    if keys is not None and message.get("coordinators"):
        message["coordinators"] = [{**message["coordinators"][0], "key": key} for key in keys]
    return message


# --- the group --------------------------------------------------------------------------------------------------------


def _join_group(state: State, request: Any, answer: Mapping[str, Any]) -> Later:
    session_ms = _ms(request.session_timeout)
    wish = Wish(
        protocol_type=request.protocol_type,
        protocols=[(each.name, bytes(each.metadata)) for each in request.protocols],
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=_ms(getattr(request, "rebalance_timeout", None)) or session_ms,
        instance=getattr(request, "group_instance_id", None),
    )
    member = state.group.join(request.member_id, wish, state.now_ms)

    def ask(now_ms: int) -> Plain | None:
        found = state.group.joined(member, now_ms)
        return None if found is None else {**answer, **_joined(found)}

    return Later(ask=ask)


def _joined(found: Joined) -> Plain:
    members = [
        {"member_id": name, "group_instance_id": instance, "metadata": metadata}
        for name, instance, metadata in found.others
    ]
    return {
        "error_code": found.code,
        "generation_id": found.generation,
        "protocol_type": found.protocol_type,
        "protocol_name": found.protocol,
        "leader": found.leader,
        "member_id": found.member,
        "members": members,
    }


def _sync_group(state: State, request: Any, answer: Mapping[str, Any]) -> Later:
    names = {name: getattr(request, name) for name in ("protocol_type", "protocol_name") if hasattr(request, name)}
    assignments = {each.member_id: bytes(each.assignment) for each in request.assignments}
    state.group.sync(request.member_id, request.generation_id, assignments, state.now_ms)

    def ask(now_ms: int) -> Plain | None:
        found = state.group.synced(request.member_id, request.generation_id, now_ms)
        return None if found is None else {**answer, **names, "error_code": found[0], "assignment": found[1]}

    return Later(ask=ask)


def _heartbeat(state: State, request: Any, answer: Mapping[str, Any]) -> Plain:
    return {**answer, "error_code": state.group.code_of(request.member_id, request.generation_id, state.now_ms)}


def _leave_group(state: State, request: Any, answer: Mapping[str, Any]) -> Plain:
    if not hasattr(request, "members"):
        return {**answer, "error_code": state.group.leave(request.member_id, None, state.now_ms)}
    members = [
        {
            "member_id": each.member_id,
            "group_instance_id": each.group_instance_id,
            "error_code": state.group.leave(each.member_id, each.group_instance_id, state.now_ms),
        }
        for each in request.members
    ]
    return {**answer, "members": members}


def _offset_commit(state: State, request: Any, answer: Mapping[str, Any]) -> Plain:
    generation = getattr(request, "generation_id_or_member_epoch", -1)
    code = state.group.code_of_commit(getattr(request, "member_id", ""), generation, state.now_ms)
    topics: list[Plain] = []
    for topic in request.topics:
        for part in topic.partitions:
            if not code:
                state.committed[topic.name, part.partition_index] = part.committed_offset
        parts = [{"partition_index": part.partition_index, "error_code": code} for part in topic.partitions]
        topics.append({"name": topic.name, "partitions": parts})
    return {**answer, "topics": topics}


def _offset_fetch(state: State, request: Any, answer: Mapping[str, Any]) -> Plain:
    groups = getattr(request, "groups", None)
    if groups is None:
        return {**answer, "topics": _committed(state, request.topics)}
    return {
        **answer,
        "groups": [{"group_id": group.group_id, "topics": _committed(state, group.topics)} for group in groups],
    }


def _committed(state: State, topics: Sequence[Any] | None) -> list[Plain]:
    if topics is None:
        names = sorted({name for name, _ in state.committed})
        asked = [(name, [part for each, part in state.committed if each == name]) for name in names]
    else:
        asked = [(topic.name, list(topic.partition_indexes)) for topic in topics]
    return [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": part,
                    "committed_offset": state.committed.get((name, part), -1),
                    "committed_leader_epoch": -1,
                    "metadata": "",
                }
                for part in parts
            ],
        }
        for name, parts in asked
    ]


# --- the log ----------------------------------------------------------------------------------------------------------


def _is_committed_only(request: Any) -> bool:
    return bool(getattr(request, "isolation_level", 0) == _READ_COMMITTED)


def _list_offsets(state: State, request: Any, answer: Mapping[str, Any]) -> Plain:
    ends = state.partitions.stable_ends if _is_committed_only(request) else state.partitions.ends

    def one(part: Any) -> Plain:
        number = part.partition_index
        if number not in ends:
            return {"partition_index": number, "error_code": _UNKNOWN_TOPIC_OR_PARTITION}
        offset = ends[number] if part.timestamp == _LATEST else 0
        return {
            "partition_index": number,
            "offset": offset,
            "timestamp": -1,
            "leader_epoch": 0,
        }

    topics = [{"name": topic.name, "partitions": [one(part) for part in topic.partitions]} for topic in request.topics]
    return {**answer, "topics": topics}


def _fetch(state: State, request: Any, answer: Mapping[str, Any]) -> Plain:
    """Without a session, so the next request names all its partitions again."""
    ends, stable_ends = state.partitions.ends, state.partitions.stable_ends
    is_committed = _is_committed_only(request)

    def one(part: Any) -> Plain:
        number, offset = part.partition, part.fetch_offset
        found: Plain = {"partition_index": number, "preferred_read_replica": -1}
        if number not in ends:
            return {**found, "error_code": _UNKNOWN_TOPIC_OR_PARTITION, "high_watermark": -1}
        end = ends[number]
        found |= {"high_watermark": end, "last_stable_offset": stable_ends[number], "log_start_offset": 0}
        if not 0 <= offset <= end:
            return {**found, "error_code": _OFFSET_OUT_OF_RANGE}
        records = state.partitions.fetch(number, offset, part.partition_max_bytes, is_committed=is_committed)
        if is_committed and records:
            aborted = state.partitions.aborted(number, offset)
            found["aborted_transactions"] = [{"producer_id": who, "first_offset": first} for who, first in aborted]
        return {**found, "records": records}

    responses = [
        {
            "topic": getattr(topic, "topic", None),
            "topic_id": getattr(topic, "topic_id", None),
            "partitions": [one(part) for part in topic.partitions],
        }
        for topic in request.topics
    ]
    return {**answer, "error_code": 0, "session_id": 0, "responses": responses}


def _end_of_epoch(state: State, request: Any, answer: Mapping[str, Any]) -> Plain:
    ends = state.partitions.ends
    topics = [
        {
            "topic": topic.topic,
            "partitions": [
                {"partition": part.partition, "leader_epoch": 0, "end_offset": ends.get(part.partition, -1)}
                for part in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    return {**answer, "topics": topics}


def _produce(state: State, request: Any, answer: Mapping[str, Any]) -> Plain:
    is_adding = int(request.__version__) >= _PRODUCE_ADDS

    def one(part: Any) -> Plain:
        code, base = _appended(state, part.index, part.records or b"", is_adding=is_adding)
        return {
            "index": part.index,
            "error_code": code,
            "base_offset": base,
            "log_append_time": None,
            "log_start_offset": 0,
        }

    responses = [
        {
            "name": getattr(topic, "name", None),
            "topic_id": getattr(topic, "topic_id", None),
            "partition_responses": [one(part) for part in topic.partition_data],
        }
        for topic in request.topic_data
    ]
    return {**answer, "responses": responses}


def _appended(state: State, partition: int, records: bytes, *, is_adding: bool) -> tuple[int, int]:
    """(error code, base offset). Records of a transaction are taken only from the producer that it belongs to."""
    if not state.partitions.has(partition):
        return _UNKNOWN_TOPIC_OR_PARTITION, -1
    for batch in iter_batches(records):
        header = batch.header
        if header.is_transactional and (
            code := state.transactions.may_append(
                header.producer_id, header.producer_epoch, partition, is_adding=is_adding
            )
        ):
            return code, -1
    return state.partitions.append(partition, records)


# --- producers and transactions ---------------------------------------------------------------------------------------


def _init_producer_id(state: State, request: Any, answer: Mapping[str, Any]) -> Plain:
    code, producer_id, epoch = state.transactions.begin_producer(
        request.transactional_id or None, getattr(request, "producer_id", -1), getattr(request, "producer_epoch", -1)
    )
    return {**answer, "error_code": code, "producer_id": producer_id, "producer_epoch": epoch}


def _add_partitions(state: State, request: Any, answer: Mapping[str, Any]) -> Plain:
    """All or none of them, as in Kafka. Newer versions are for brokers."""
    asked = [(topic.name, list(topic.partitions)) for topic in request.v3_and_below_topics]
    known = all(state.partitions.has(part) for _, parts in asked for part in parts)
    code = int(ErrorCode.operation_not_attempted)
    if known:
        code = state.transactions.add(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            [part for _, parts in asked for part in parts],
        )
    results = [
        {
            "name": name,
            "results_by_partition": [
                {
                    "partition_index": part,
                    "partition_error_code": code if state.partitions.has(part) else _UNKNOWN_TOPIC_OR_PARTITION,
                }
                for part in parts
            ],
        }
        for name, parts in asked
    ]
    return {**answer, "results_by_topic_v3_and_below": results}


def _end_txn(state: State, request: Any, answer: Mapping[str, Any]) -> Plain:
    code, producer_id, epoch = state.transactions.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        is_commit=request.committed,
        is_raising=int(request.__version__) >= _END_RAISES,
    )
    return {**answer, "error_code": code, "producer_id": producer_id, "producer_epoch": epoch}


def _ms(duration: Any) -> int:
    """Of kio's timedelta. 0 if there is none."""
    return 0 if duration is None else round(duration.total_seconds() * 1_000)


RULES: Final[Mapping[str, Rule]] = {
    _API_VERSIONS: _api_versions,
    "Metadata": _metadata,
    "FindCoordinator": _find_coordinator,
    "JoinGroup": _join_group,
    "SyncGroup": _sync_group,
    "Heartbeat": _heartbeat,
    "LeaveGroup": _leave_group,
    "OffsetCommit": _offset_commit,
    "OffsetFetch": _offset_fetch,
    "ListOffsets": _list_offsets,
    "Fetch": _fetch,
    "OffsetForLeaderEpoch": _end_of_epoch,
    "Produce": _produce,
    "InitProducerId": _init_producer_id,
    "AddPartitionsToTxn": _add_partitions,
    "EndTxn": _end_txn,
}
# Their answers follow from the request and from what the peer holds. So a client may ask for them also where the one
# that was recorded never came so far.
NEED_NO_FRAME: Final = frozenset(
    {"Fetch", "Heartbeat", "LeaveGroup", "ListOffsets", "OffsetCommit", "OffsetFetch", "OffsetForLeaderEpoch",
     "AddPartitionsToTxn", "EndTxn"}
)  # fmt: skip
# What the rules write anew, so a tape need not hold it.
REWRITTEN: Final[Mapping[str, frozenset[str]]] = {
    "JoinGroup": frozenset({"generation_id", "protocol_type", "protocol_name", "leader", "member_id", "members"}),
    "SyncGroup": frozenset({"protocol_type", "protocol_name", "assignment"}),
    "LeaveGroup": frozenset({"members"}),
    "OffsetCommit": frozenset({"topics"}),
    "OffsetFetch": frozenset({"topics", "groups"}),
    "ListOffsets": frozenset({"topics"}),
    "Fetch": frozenset({"responses", "session_id", "error_code"}),
    "OffsetForLeaderEpoch": frozenset({"topics"}),
    "Produce": frozenset({"responses"}),
    "InitProducerId": frozenset({"producer_id", "producer_epoch"}),
    "AddPartitionsToTxn": frozenset({"results_by_topic_v3_and_below"}),
    "EndTxn": frozenset({"producer_id", "producer_epoch"}),
}
