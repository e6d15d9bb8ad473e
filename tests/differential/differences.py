"""The named differences between our broker and Apache Kafka 4.3.1: where each shows, and why it is accepted.

A difference is a place in an answer (API, path of fields) with both values. If no entry here names it, the run fails.
If a whole run never met an entry, that is reported, so that the table does not outlive its reasons.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from broker.node.protocol_page import kafka_apis
from broker.wire.apis import APIS, ApiKey
from tests.differential.generator import Asked
from tests.differential.values import NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One place where the answers differ. `path` as in `topics.partitions.error_code`."""

    asked: Asked
    path: str
    theirs: Any
    ours: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    name: str
    why: str
    applies: Callable[[Found], bool]


def at(apis: str, path: str = ".*", theirs: str = ".*", ours: str = ".*") -> Callable[[Found], bool]:
    """Regular expressions over the API's name, the path and both values."""

    def applies(found: Found) -> bool:
        return bool(
            re.fullmatch(apis, found.asked.key.name)
            and re.fullmatch(path, found.path)
            and re.fullmatch(theirs, str(found.theirs), re.DOTALL)
            and re.fullmatch(ours, str(found.ours), re.DOTALL)
        )

    return applies


def _offers(found: Found) -> bool:
    if found.asked.key is not ApiKey.API_VERSIONS or found.path != "api_keys":
        return False
    theirs = {each["api_key"]: (each["min_version"], each["max_version"]) for each in found.theirs}
    ours = {each["api_key"]: (each["min_version"], each["max_version"]) for each in found.ours}
    # What docs/reference/protocol.md compares us with.
    told = {key: (api.min_version, api.max_version) for key, api in kafka_apis().items()}
    lacking = theirs.keys() - ours.keys()
    wider = [key for key, versions in ours.items() if theirs.get(key) != versions]
    return not lacking & set(APIS) and all(theirs.get(key) == told[key] for key in wider)


def _holds(value: Any, wanted: Callable[[str, Any], bool]) -> bool:
    """Is there a field, anywhere in these values of a request, for which `wanted(name, value)`?"""
    if isinstance(value, Mapping):
        return any(wanted(name, each) or _holds(each, wanted) for name, each in value.items())
    return isinstance(value, list | tuple) and any(_holds(each, wanted) for each in value)


def asks(name: str, *values: Any) -> Callable[[Found], bool]:
    """The request has a field of that name with one of these values; without any, it has that field."""
    return lambda found: _holds(
        found.asked.values, lambda field, value: field == name and (not values or value in values)
    )


def both(*parts: Callable[[Found], bool]) -> Callable[[Found], bool]:
    return lambda found: all(part(found) for part in parts)


def either(*parts: Callable[[Found], bool]) -> Callable[[Found], bool]:
    return lambda found: any(part(found) for part in parts)


_GROUPS_IN_MEMORY = (
    at("DESCRIBE_GROUPS", "groups.group_state", "Empty", "Dead"),
    at("DESCRIBE_GROUPS", "groups.error_code", "none", "group_id_not_found"),
    both(at("DESCRIBE_GROUPS", "groups.authorized_operations", "3400", "-2147483648"), asks("groups")),
    at("DELETE_GROUPS|OFFSET_DELETE", "results.error_code|error_code", "none", "group_id_not_found"),
    both(at("OFFSET_DELETE", "topics", ".*", r"\[\]"), asks("group_id")),
    at(
        "(TXN_)?OFFSET_COMMIT",
        "topics.partitions.error_code",
        "unknown_member_id",
        "group_id_not_found|illegal_generation",
    ),
    at("JOIN_GROUP", "error_code", "inconsistent_group_protocol", "unknown_member_id"),
)


def _more_groups(found: Found) -> bool:
    """All of ours are in theirs, and the others have no member."""
    if found.asked.key is not ApiKey.LIST_GROUPS or found.path != "groups":
        return False
    others = [each for each in found.theirs if each not in found.ours]
    is_empty = all(each.get("group_state", "Empty") == "Empty" for each in others)
    return bool(others) and is_empty and len(found.theirs) == len(found.ours) + len(others)


# Other defaults than Apache Kafka's, other words for the same (addresses, no value, infinity), fixed while a broker
# runs though not there, or given in the file of one of the two brokers only.
_OTHER_VALUES = frozenset({
    "advertised.listeners", "broker.heartbeat.interval.ms", "broker.session.timeout.ms", "controller.listener.names",
    "controller.quorum.election.timeout.ms", "controller.quorum.fetch.timeout.ms",
    "controller.quorum.request.timeout.ms", "controller.quorum.voters",
    "group.coordinator.rebalance.protocols", "inter.broker.listener.name", "listener.security.protocol.map",
    "listeners", "log.cleaner.io.max.bytes.per.second", "log.dirs", "log.flush.interval.ms",
    "log.initial.task.delay.ms", "log.local.retention.bytes", "log.local.retention.ms", "log.preallocate",
    "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms", "log.segment.delete.delay.ms", "max.connections",
    "min.insync.replicas", "process.roles", "queued.max.request.bytes",
    "replica.fetch.backoff.ms", "replica.socket.timeout.ms", "socket.listen.backlog.size",
    "controlled.shutdown.max.wait.ms", "default.replication.factor",
    "allow.everyone.if.no.acl.found", "broker.rack",
    "follower.replication.throttled.rate", "group.consumer.regex.refresh.interval.ms",
    "leader.replication.throttled.rate", "metadata.log.dir", "replica.alter.log.dirs.io.max.bytes.per.second",
    "replica.selector.class",
})  # fmt: skip
_OWN = "harness."  # settings of this project
# Of TLS and SASL: no value is an empty text here, stores are PEM by default, and what may change may change for a
# listener only.
_OF_SECURITY = ("ssl.", "sasl.", "super.users", "share.coordinator.state.topic.num.partitions")


def _settings_of_a_broker(found: Found) -> bool:
    if (
        found.asked.key is not ApiKey.DESCRIBE_CONFIGS
        or found.path != "results.configs"
        or not asks("resource_type", 4)(found)
    ):
        return False
    theirs = {each["name"]: each for each in found.theirs}
    known = {each["name"]: each for each in found.ours}
    other = {name for name, each in known.items() if theirs.get(name) != each and not name.startswith(_OWN)}
    return {name for name in other if not name.startswith(_OF_SECURITY)} <= _OTHER_VALUES


NAMED: tuple[Named, ...] = (
    Named(
        name="ApiVersions: APIs and versions",
        why="What we offer is in [protocol.md](protocol.md); what we lack is named there.",
        applies=_offers,
    ),
    Named(
        name="ApiVersions: features",
        why="Apache Kafka has features that are not here (kraft.version), and "
        "their epoch is an offset of the metadata log.",
        applies=at("API_VERSIONS", "(supported_features|finalized_features|finalized_features_epoch)(\\..*)?"),
    ),
    Named(
        name="min.insync.replicas",
        why="With the feature of eligible leader replicas (KIP-966) Apache Kafka sets it as a dynamic default of the "
        "cluster. The value is the same, its source is not.",
        applies=lambda found: (
            at("DESCRIBE_CONFIGS|CREATE_TOPICS", ".*configs.config_source", "3", "5")(found)
            or at("DESCRIBE_CONFIGS", "results.configs.synonyms", ".*'min.insync.replicas'.*'source': 3.*")(found)
        ),
    ),
    Named(
        name="No answer to a Produce without records",
        why="Apache Kafka fails inside and leaves the client to its time limit; here INVALID_RECORD.",
        applies=both(at("PRODUCE", re.escape("(whole)"), "does not answer"), asks("records", None)),
    ),
    Named(
        name="No answer to an empty AddPartitionsToTxn",
        why="Apache Kafka waits for the last of no transactions; here an empty answer.",
        applies=both(
            at("ADD_PARTITIONS_TO_TXN", re.escape("(whole)"), "does not answer"),
            lambda found: found.asked.values.get("transactions") == [],
        ),
    ),
    Named(
        name="Fetch by the zero topic id",
        why="Apache Kafka fails inside (UNKNOWN_SERVER_ERROR for all); here UNKNOWN_TOPIC_ID for that topic.",
        applies=both(at("FETCH", "error_code|responses|session_id"), asks("topic_id", None)),
    ),
    Named(
        name="ListOffsets: the largest timestamp after DeleteRecords",
        why="Apache Kafka names a record that was deleted, as long as its segment is there; here one that can be read.",
        applies=both(
            at("LIST_OFFSETS", r"topics\.partitions\.(offset|timestamp|leader_epoch)"),
            asks("timestamp", -3),
            lambda found: bool(re.match("d21v", str(found.asked.values["topics"][0]["name"]))),
        ),
    ),
    Named(
        name="CreateTopics, only validated, by a client who may not describe settings",
        why="Apache Kafka tells the id of a topic that it has not made; here none.",
        applies=both(at("CREATE_TOPICS", "topics.topic_id", "#", "None"), asks("validate_only", True)),
    ),
    Named(
        name="Wrong settings of a broker, by a client who may not change them",
        why="Apache Kafka looks at the broker and its settings first; here at the client's rights.",
        applies=at(
            "(INCREMENTAL_)?ALTER_CONFIGS",
            "responses.error_code",
            "invalid_config|invalid_request",
            "cluster_authorization_failed",
        ),
    ),
    Named(
        name="Access control lists with a number that means unknown, by a client who may not see or change them",
        why="Apache Kafka closes the connection, because it parses first; here the client's rights come first.",
        applies=at(
            "(DESCRIBE|CREATE|DELETE)_ACLS", r"\(whole\)", "closes the connection", ".*cluster_authorization_failed.*"
        ),
    ),
    Named(
        name="An empty salted password",
        why="Apache Kafka fails inside (UNKNOWN_SERVER_ERROR); here UNACCEPTABLE_CREDENTIAL.",
        applies=both(
            at("ALTER_USER_SCRAM_CREDENTIALS", "results.error_code", "unknown_server_error", "unacceptable_credential"),
            asks("salted_password", b""),
        ),
    ),
    Named(
        name="DescribeUserScramCredentials of all users, refused",
        why="Apache Kafka fails inside and leaves the client to its time limit; here CLUSTER_AUTHORIZATION_FAILED.",
        applies=both(
            at("DESCRIBE_USER_SCRAM_CREDENTIALS", r"\(whole\)", "does not answer", ".*cluster_authorization_failed.*"),
        ),
    ),
    Named(
        name="Groups of which nothing was written",
        why="Apache Kafka keeps a group in memory of which every join or offset was refused: it is Empty, can be "
        "deleted and is asked for members. Here only what is written makes a group.",
        applies=lambda found: any(each(found) for each in _GROUPS_IN_MEMORY) or _more_groups(found),
    ),
    Named(
        name="JoinGroup: a static member under an unknown id",
        why="Apache Kafka fails inside (UNKNOWN_SERVER_ERROR); here UNKNOWN_MEMBER_ID.",
        applies=both(at("JOIN_GROUP", "error_code|member_id", "unknown_server_error|"), asks("group_instance_id", "i")),
    ),
    Named(
        name="DescribeQuorum: the metadata log",
        why="The same decisions are other records here, and the numbers of records and epochs with them.",
        applies=at(
            "DESCRIBE_QUORUM",
            "topics.partitions.(high_watermark|leader_epoch|current_voters.log_end_offset)",
            r"\d+",
            r"\d+",
        ),
    ),
    Named(
        name="DescribeTopicPartitions of no name",
        why="Apache Kafka fails inside (UNKNOWN_SERVER_ERROR for all); here INVALID_TOPIC_EXCEPTION for that topic.",
        applies=both(
            at(
                "DESCRIBE_TOPIC_PARTITIONS",
                r"topics\.(error_code|topic_authorized_operations|topic_id|partitions)",
                r"unknown_server_error|-2147483648|None|\[\]",
            ),
            asks("name", ""),
        ),
    ),
    Named(
        name="IncrementalAlterConfigs: an operation that is none",
        why="Apache Kafka fails inside (UNKNOWN_SERVER_ERROR for all); here INVALID_REQUEST for all.",
        applies=both(
            at("INCREMENTAL_ALTER_CONFIGS", "responses.error_code", "unknown_server_error", "invalid_request"),
            asks("config_operation", 9),
        ),
    ),
    Named(
        name="Settings of a broker that are none",
        why="Apache Kafka takes any name, as a plug-in might know it; here it is refused: no setting is ignored.",
        applies=both(
            at("(INCREMENTAL_)?ALTER_CONFIGS", "responses.error_code", "none", "invalid_config"),
            asks("resource_type", 4),
        ),
    ),
    Named(
        name="TxnOffsetCommit: two errors in one request",
        why="No transactional id and an epoch of -1: Apache Kafka names the epoch, here the id is named first.",
        applies=both(
            at("TXN_OFFSET_COMMIT", "topics.partitions.error_code", "invalid_producer_epoch", "invalid_request"),
            asks("transactional_id", ""),
            asks("producer_epoch", -1),
        ),
    ),
    Named(
        name="Settings of a broker",
        why="What a broker here knows is in [settings.md](settings.md); what it lacks has no value to tell.",
        applies=_settings_of_a_broker,
    ),
    Named(
        name="ShareFetch of an unknown topic",
        why="Apache Kafka fails inside where the request also forgets or acknowledges something (UNKNOWN_SERVER_ERROR "
        "for all); here each partition has its own error.",
        applies=both(
            either(
                at("SHARE_FETCH", "error_code", "unknown_server_error", "none"),
                at("SHARE_FETCH", "acquisition_lock_timeout", r"0\.0", r"[1-9].*"),
                at("SHARE_FETCH", "responses", r"\[\]"),
            ),
            asks("topic_id", NOWHERE, None),
        ),
    ),
    Named(
        name="Share groups: when states are made",
        why="Apache Kafka answers a heartbeat and then makes the states of new partitions, which are assigned at the "
        "next one; here they are assigned in the first answer. So the first epochs differ, and who is fenced by them.",
        applies=at(
            "SHARE_GROUP_HEARTBEAT",
            "member_epoch|assignment.*|error_code|heartbeat_interval|member_id",
            r"\d+|5\.0|\[.*\]|None|#|none|\{.*\}",
            r"\d+|0\.0|\[.*\]|None|#|none|fenced_member_epoch|\{.*\}",
        ),
    ),
    Named(
        name="A share group without a name",
        why="Apache Kafka opens a session for it and fails inside, because its coordinator refuses such a state. The "
        "session outlives its connection. Here nothing is read, and the session ends with the connection.",
        applies=both(
            either(
                at("SHARE_FETCH", "responses", ".*unknown_server_error.*", r"\[\]"),
                at("SHARE_(FETCH|ACKNOWLEDGE)", "error_code", "invalid_share_session_epoch", "share_session_not_found"),
            ),
            asks("group_id", ""),
        ),
    ),
    Named(
        name="AlterShareGroupOffsets: a topic of which no partition exists",
        why="Apache Kafka fails inside (UNKNOWN_SERVER_ERROR for all, or an answer without topics, after it may have "
        "changed the others); here UNKNOWN_TOPIC_OR_PARTITION for its partitions.",
        applies=either(
            at("ALTER_SHARE_GROUP_OFFSETS", "error_code", "unknown_server_error", "none"),
            at("ALTER_SHARE_GROUP_OFFSETS", "responses", r"\[\]", ".*unknown_topic_or_partition.*"),
        ),
    ),
    Named(
        name="DescribeShareGroupOffsets of what does not exist",
        why="Of a partition that does not exist in a topic that does, of none of its partitions, and for a group "
        "without a name, Apache Kafka does not answer or fails inside (UNKNOWN_SERVER_ERROR for the whole group); here "
        "such a partition has no offset.",
        applies=at("DESCRIBE_SHARE_GROUP_OFFSETS", ".*", r"does not answer|unknown_server_error|\[\]"),
    ),
    Named(
        name="Loggers",
        why="Resource type 8, the log levels of a running broker, is a matter of Apache Kafka's own logging library.",
        applies=both(
            at("(DESCRIBE|ALTER|INCREMENTAL_ALTER)_CONFIGS", "(results|responses).(error_code|configs)"),
            asks("resource_type", 8),
        ),
    ),
)


def compare(asked: Asked, *, theirs: Any, ours: Any) -> Iterator[Found]:
    """Every place where two masked answers differ."""
    yield from _walk(asked, "", theirs, ours)


def _walk(asked: Asked, path: str, theirs: Any, ours: Any) -> Iterator[Found]:
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        for name in theirs:
            yield from _walk(asked, f"{path}.{name}".lstrip("."), theirs[name], ours[name])
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for one, other in zip(theirs, ours, strict=True):
            yield from _walk(asked, path, one, other)
    elif theirs != ours:
        yield Found(asked=asked, path=path or "(whole)", theirs=theirs, ours=ours)


def name_of(found: Found, named: Iterable[Named] = NAMED) -> str | None:
    return next((each.name for each in named if each.applies(found)), None)


def page(counts: Counter[str], requests: Counter[str], equal: Counter[str], seeds: Iterable[int]) -> str:
    """docs/reference/differences.md."""
    total, same = sum(requests.values()), sum(equal.values())
    lines = [
        "# Answers that differ from Apache Kafka's",
        "",
        "Written by `make differential`: the same requests, drawn by a seed, valid and invalid, of every API and",
        "version that the broker offers to clients, go to it and to a node of Apache Kafka 4.3.1. Answers are compared",
        "field by field; ids that a broker makes up, addresses, times and texts of errors are masked. What differs all",
        "the same must be named here (tests/differential/differences.py), or the run fails. A second run asks under",
        "access control lists, which a seed draws (tests/differential/guarded.py). Its requests are not counted here.",
        "What shows only over several requests is in [behaviour](behaviour.md).",
        "",
        "Not asked: a thing named twice in one request of an API whose answer to that is an accident of Apache Kafka's",
        "maps (`NEVER_TWICE` in tests/differential/generator.py); AddPartitionsToTxn without partitions, whose answer",
        "has no place for an error; several markers in one WriteTxnMarkers, of which one that fits no log leaves all",
        "without an answer there; InitProducerId with an epoch of before while a transaction is open, which aborts it",
        "there and is refused here, so that a predecessor cannot harm its successor; segment.bytes below 1 MiB, which",
        "is allowed here; what needs several brokers or TLS; requests beyond the limits at the end of",
        "[settings.md](settings.md), which Apache Kafka does not have (LogAppendTime set by a producer on a topic of",
        "CreateTime, which it corrects, is refused here).",
        "",
        f"Last run: seeds {', '.join(map(str, seeds))}; {total:,} requests, {same:,} answered the same, "
        f"{total - same:,} with a named difference.",
        "",
        "| difference | answers | why it stands |",
        "|---|---|---|",
    ]
    lines += [f"| {each.name} | {counts[each.name]:,} | {each.why} |" for each in NAMED]
    lines += ["", "## Requests by API", "", "| API and version | requests | same |", "|---|---|---|"]
    lines += [f"| {title} | {requests[title]:,} | {equal[title]:,} |" for title in requests]
    return "\n".join(lines) + "\n"
