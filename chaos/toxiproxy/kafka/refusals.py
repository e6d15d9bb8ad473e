"""The response with which a broker refuses a request: made from the request, by the rules of Apache Kafka.

Kafka's own rules are the methods `getErrorResponse` in org.apache.kafka.common.requests of kafka-clients. They repeat
each topic, partition, group or resource of the request with the error, and give -1 or nothing for what there is not.
tests/chaos/test_chaos_kafka_refusals.py compares every API and version with these methods. Three things differ on
purpose, because there a broker that works does not use that method, which is for failures that nobody foresaw:

- Fetch, ShareFetch, ShareAcknowledge, OffsetFetch, LeaveGroup, Metadata: the error is at the level where a broker would
  put this code (error_levels.py).
- JoinGroup has the member's id, and a new one with MEMBER_ID_REQUIRED, because this code is about the id (KIP-394).
- Explanations in words (error_message) are left out.

Some requests have no place for an error in their response: see `refused`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from chaos.toxiproxy.kafka.apis import API_KEYS, API_NAMES
from chaos.toxiproxy.kafka.entries import error_field
from chaos.toxiproxy.kafka.error_levels import Level, level_of
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.messages import decode_request, encode_response, wire
from chaos.toxiproxy.kafka.produce import read_header

UNSUPPORTED_VERSION: Final = 35
MEMBER_ID_REQUIRED: Final = 79
API_VERSIONS: Final = API_KEYS["ApiVersions"]
_NO_OPERATIONS: Final = -(2**31)  # org.apache.kafka.common.requests.MetadataResponse.AUTHORIZED_OPERATIONS_OMITTED
_ITEM: Final = ""  # the request lists plain texts or numbers, and this is one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """An array of the response that repeats one of the request. Fields that a version lacks are left out."""

    into: str  # the array in the response; two may fill one
    of: str  # the array in the request, or a path of arrays
    same: tuple[str, ...] = ()  # copied from the request's entry
    other: Mapping[str, str] | None = None  # the same under another name: response -> request
    # It stands in for what there is not. What is not named has the protocol's default.
    rest: Mapping[str, object] | None = None
    inner: tuple[Entries, ...] = ()


def _topics(into: str, of: str, inner: Entries, *same: str) -> Entries:
    return Entries(into=into, of=of, same=same or ("name", "topic_id"), inner=(inner,))


def _partitions(**rest: object) -> Entries:
    return Entries(into="partitions", of="partitions", same=("partition_index",), rest=rest)


def _numbers(into: str, of: str, name: str = "partition_index", **rest: object) -> Entries:
    return Entries(into=into, of=of, other={name: _ITEM}, rest=rest)


def _groups(of: str) -> Entries:
    return Entries(into="groups", of=of, other={"group_id": _ITEM}, rest={"authorized_operations": _NO_OPERATIONS})


_RESOURCES: Final = ("resource_type", "resource_name")
_FETCHED: Final = Entries(
    into="partitions",
    of="partitions",
    other={"partition_index": "partition"},
    rest={"high_watermark": -1, "last_stable_offset": -1, "log_start_offset": -1, "aborted_transactions": (),
          "records": b""},
)  # fmt: skip
_PRODUCED: Final = Entries(
    into="partition_responses", of="partition_data", same=("index",), rest={"base_offset": -1, "log_start_offset": -1}
)
_OFFSETS_OF_TOPIC: Final = _topics(
    "topics", "topics", _numbers("partitions", "partition_indexes", committed_offset=-1, metadata="")
)
# What a refusal repeats of its request. An API that is not here has its error at the top only.
_ENTRIES: Final[Mapping[str, tuple[Entries, ...]]] = {
    "Produce": (_topics("responses", "topic_data", _PRODUCED),),
    "Fetch": (_topics("responses", "topics", _FETCHED, "topic", "topic_id"),),
    "ListOffsets": (_topics("topics", "topics", _partitions(timestamp=-1, offset=-1)),),
    "Metadata": (
        Entries(into="topics", of="topics", same=("name", "topic_id"), rest={
            "partitions": (), "topic_authorized_operations": _NO_OPERATIONS}),
    ),
    "OffsetCommit": (_topics("topics", "topics", _partitions()),),
    "OffsetFetch": (
        _OFFSETS_OF_TOPIC,
        Entries(into="groups", of="groups", same=("group_id",), inner=(_OFFSETS_OF_TOPIC,)),
    ),
    "FindCoordinator": (
        Entries(into="coordinators", of="coordinator_keys", other={"key": _ITEM}, rest={
            "node_id": -1, "host": "", "port": -1}),
    ),
    "LeaveGroup": (Entries(into="members", of="members", same=("member_id", "group_instance_id")),),
    "DescribeGroups": (_groups("groups"),),
    "CreateTopics": (
        Entries(into="topics", of="topics", same=("name",), rest={"num_partitions": -1, "replication_factor": -1,
            "configs": ()}),
    ),
    "DeleteTopics": (
        Entries(into="responses", of="topic_names", other={"name": _ITEM}),
        Entries(into="responses", of="topics", same=("name", "topic_id")),
    ),
    "DeleteRecords": (_topics("topics", "topics", _partitions(low_watermark=-1)),),
    "OffsetForLeaderEpoch": (
        _topics("topics", "topics", Entries(into="partitions", of="partitions", same=("partition",), rest={
            "leader_epoch": -1, "end_offset": -1}), "topic"),
    ),
    "AddPartitionsToTxn": (
        _topics("results_by_topic_v3_and_below", "v3_and_below_topics", _numbers("results_by_partition", "partitions")),
    ),
    "TxnOffsetCommit": (_topics("topics", "topics", _partitions()),),
    "CreateAcls": (Entries(into="results", of="creations"),),
    "DeleteAcls": (Entries(into="filter_results", of="filters"),),
    "DescribeConfigs": (Entries(into="results", of="resources", same=_RESOURCES),),
    "AlterConfigs": (Entries(into="responses", of="resources", same=_RESOURCES),),
    "IncrementalAlterConfigs": (Entries(into="responses", of="resources", same=_RESOURCES),),
    "AlterReplicaLogDirs": (
        Entries(into="results", of="dirs.topics", other={"topic_name": "name"}, inner=(
            _numbers("partitions", "partitions"),)),
    ),
    "CreatePartitions": (Entries(into="results", of="topics", same=("name",)),),
    "DeleteGroups": (Entries(into="results", of="groups_names", other={"group_id": _ITEM}),),
    "ElectLeaders": (
        _topics("replica_election_results", "topic_partitions",
                _numbers("partition_result", "partitions", "partition_id"), "topic"),
    ),
    "AlterPartitionReassignments": (_topics("responses", "topics", _partitions()),),
    "ListPartitionReassignments": (_topics("topics", "topics", _numbers("partitions", "partition_indexes")),),
    "AlterClientQuotas": (
        Entries(into="entries", of="entries", inner=(
            Entries(into="entity", of="entity", same=("entity_type", "entity_name")),)),
    ),
    "DescribeUserScramCredentials": (Entries(into="results", of="users"),),
    "AlterUserScramCredentials": (
        Entries(into="results", of="deletions", other={"user": "name"}),
        Entries(into="results", of="upsertions", other={"user": "name"}),
    ),
    "DescribeProducers": (_topics("topics", "topics", _numbers("partitions", "partition_indexes")),),
    "DescribeTransactions": (
        Entries(into="transaction_states", of="transactional_ids", other={"transactional_id": _ITEM}, rest={
            "transaction_start_time": 0}),
    ),
    "ConsumerGroupDescribe": (_groups("group_ids"),),
    "DescribeTopicPartitions": (
        Entries(into="topics", of="topics", same=("name",), rest={"topic_authorized_operations": _NO_OPERATIONS}),
    ),
    "ShareGroupDescribe": (_groups("group_ids"),),
    "ShareFetch": (_topics("responses", "topics", _partitions(records=b"")),),
    "ShareAcknowledge": (_topics("responses", "topics", _partitions()),),
    "StreamsGroupDescribe": (_groups("group_ids"),),
    "DescribeShareGroupOffsets": (Entries(into="groups", of="groups", same=("group_id",)),),
}  # fmt: skip
# What the top of a refusal says instead of the protocol's defaults.
_TOP: Final[Mapping[str, Mapping[str, object]]] = {
    "Metadata": {"controller_id": -1, "cluster_id": None, "cluster_authorized_operations": _NO_OPERATIONS},
    "FindCoordinator": {"node_id": -1, "host": "", "port": -1},
    "JoinGroup": {"generation_id": -1},
    "InitProducerId": {"producer_id": -1, "producer_epoch": -1},
    "EndTxn": {"producer_id": -1, "producer_epoch": -1},
    "DescribeCluster": {"controller_id": -1, "cluster_authorized_operations": _NO_OPERATIONS},
    "DescribeClientQuotas": {"entries": None},
    "StreamsGroupHeartbeat": dict.fromkeys(
        ("active_tasks", "standby_tasks", "warmup_tasks", "partitions_by_user_endpoint")),
    "RenewDelegationToken": {"expiry_timestamp": 0},
    "ExpireDelegationToken": {"expiry_timestamp": 0},
    "CreateDelegationToken": {
        "principal_type": "User", "principal_name": "ANONYMOUS", "token_requester_principal_type": "User",
        "token_requester_principal_name": "ANONYMOUS",
    },
}  # fmt: skip


def refusal_frame(frame: bytes, error_code: int, client_id: str, *, request: Any = None) -> bytes | None:
    """The response frame that refuses a request frame (both with their lengths). None: the response has no place for an
    error. `request` is its decoded message, if the caller has it. Raises MalformedFrame if the request cannot be
    read."""
    header = read_header(frame)
    api_key, version = header.api_key, header.api_version
    request = decode_request(frame) if request is None else request
    if api_key == API_VERSIONS and error_code == UNSUPPORTED_VERSION:
        version = 0  # a broker that does not know the version of the request cannot answer in it (KIP-511)
    try:
        response = refused(api_key, version, request, error_code, client_id=client_id)
    except Exception as error:  # whatever it is: the request passes
        raise MalformedFrame(f"no refusal for api key {api_key} version {version}: {error}") from error
    return None if response is None else encode_response(api_key, version, header.correlation_id, response)


def refused(api_key: int, version: int, request: Any, error_code: int, *, client_id: str = "") -> Any:  # kio's types
    """The response to `request` that says `error_code`. None: it has no place for an error.

    There is none in the response to a Metadata request for all topics (before version 13), to DescribeLogDirs before
    version 3, and to any request that names nothing if the error belongs to what it names: also to a Fetch request.
    """
    messages = wire()
    api = API_NAMES[api_key]
    kind = messages.response_type(api_key, version)
    level = level_of(api_key, error_code)
    has_top, is_twice = has_field(kind, "error_code"), api in _WITH_BOTH
    values: dict[str, tuple[Any, ...]] = {}
    errors = 0
    # The one group of these versions of OffsetFetch has no entry. Its error is at the top.
    is_only_top = has_top and (level is Level.TOP or (api == "OffsetFetch" and level is Level.OUTER))
    for entries in () if is_only_top else _ENTRIES.get(api, ()):
        if has_field(kind, entries.into) and _items(request, entries.of):
            made, count = _entries(kind, entries, request, error_code, level)
            before = values.get(entries.into, ())
            values[entries.into] = (*before, *(each for each in made if each not in before))
            errors += count
    response = messages.build(
        kind,
        _known(kind, {**_TOP.get(api, {}), **values, **_special(api, kind, request, error_code, client_id)}),
    )
    if api in _WITH_SESSION and level is Level.INNER and not errors:
        return None  # at the top it would be about the session
    if has_top and (not errors or is_twice):
        return replace(response, error_code=code_of(error_code))
    return response if errors else None


_WITH_SESSION: Final = frozenset(("Fetch", "ShareFetch", "ShareAcknowledge"))
# Their error is at the top and with each entry.
_WITH_BOTH: Final = frozenset(("ElectLeaders", "AlterPartitionReassignments", "DescribeUserScramCredentials"))


def code_of(error_code: int) -> Any:
    """The code as kio's value. A code that kio does not know stays a number, which is written as well."""
    from broker.door.protocol import ErrorCode

    try:
        return ErrorCode(error_code)
    except ValueError:
        return error_code


def has_field(kind: Any, field: str) -> bool:
    """Whether the message type has this field in its version."""
    return field in kind.__dataclass_fields__


def _items(message: Any, path: str) -> tuple[Any, ...]:
    """The array at the path, for example `dirs.topics`: the arrays `topics` of all `dirs`, one after the other."""
    field, _, rest = path.partition(".")
    items: tuple[Any, ...] = getattr(message, field, None) or ()
    return tuple(each for item in items for each in _items(item, rest)) if rest else items


def _known(kind: Any, values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if has_field(kind, name)}


def _entries(kind: Any, entries: Entries, request: Any, error_code: int, level: Level) -> tuple[tuple[Any, ...], int]:
    """The array `entries.into` of a response of type `kind`, and how many of its entries, at any depth, have the
    error."""
    messages = wire()
    [nested] = [shape.nested for shape in messages.field_shapes(kind) if shape.name == entries.into]
    made: list[Any] = []
    total = 0
    for item in _items(request, entries.of):
        values: dict[str, object] = dict(entries.rest or {})
        values |= {name: getattr(item, name) for name in entries.same if hasattr(item, name)}
        for name, source in (entries.other or {}).items():
            values[name] = item if source == _ITEM else getattr(item, source)
        is_leaf, count = level is Level.OUTER and has_field(nested, "error_code"), 0
        for inner in () if is_leaf else entries.inner:
            if _items(item, inner.of):
                values[inner.into], below = _entries(nested, inner, item, error_code, level)
                count += below
        entry = messages.build(nested, _known(nested, values))
        field = error_field(entry)
        if field and not count:
            entry, count = replace(entry, **{field: code_of(error_code)}), 1
        made.append(entry)
        total += count
    return tuple(made), total


def _special(api: str, kind: Any, request: Any, error_code: int, client_id: str) -> dict[str, object]:
    if api == "JoinGroup":
        member_id = request.member_id
        if error_code == MEMBER_ID_REQUIRED and not member_id:
            member_id = f"{client_id}-{uuid5(NAMESPACE_OID, f'{client_id} {request.group_id}')}"
        is_nullable = has_field(kind, "protocol_type")
        return {"member_id": member_id, "protocol_name": None if is_nullable else ""}
    if api == "Fetch":
        return {"session_id": getattr(request, "session_id", 0)}
    if api == "ApiVersions" and error_code == UNSUPPORTED_VERSION:
        return {
            "api_keys": (
                {"api_key": API_VERSIONS, "min_version": 0, "max_version": max(0, int(type(request).__version__) - 1)},
            )
        }
    return {}
