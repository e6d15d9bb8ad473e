"""Which answer a request of a client gets from the scripted peer. Pure: requests in, answers out, no clock.

A frame of the tape that is meant for the n-th request of its API is sent as it was recorded, with the request's
correlation id. All other requests get the frame that the tape has for that API, and in it what depends on the request
is written anew: which partitions are asked for and from which offset, the member's id, its subscription, its
assignment, the offsets that it committed, and the address of the peer. `_RULES` has one function for each API for
which that is so. Shown by tests/harness/test_harness_tape_script.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final  # a request is kio's, of a type that is chosen at run time

from chaos.toxiproxy.kafka.apis import API_KEYS
from harness.tape.fields import Plain
from harness.tape.model import Do, Frame, Tape
from harness.tape.partitions import Partitions

MEMBER: Final = "tape-member"
PRODUCER_ID: Final = 1_000
_EARLIEST, _LATEST = -2, -1
_OFFSET_OUT_OF_RANGE: Final = 1
_UNKNOWN_TOPIC_OR_PARTITION: Final = 3
_API_VERSIONS: Final = "ApiVersions"
# A peer that does not offer these is not asked for them. Without Produce a client would take it for an old broker.
_OPTIONAL: Final = frozenset({"GetTelemetrySubscriptions", "PushTelemetry"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`message` is None where nothing is sent. `waits_ms`: a Fetch that found nothing may be asked again until then."""

    do: Do
    message: Plain | None = None
    late_ms: int = 0
    waits_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    host: str
    port: int


class Script:
    """The state of one peer. `missing` names what a client asked for and the tape has no answer to."""

    def __init__(self, tape: Tape, address: Address) -> None:
        program = tape.trial.program
        self.address = address
        self.partitions = Partitions(program.partitions, program.prefilled)
        self.committed: dict[tuple[str, int], int] = {}
        self.generation = 0
        self.epoch = -1  # The epoch of the producer with the transactional id, or of all.
        self.missing: Counter[str] = Counter()
        self.met = 0  # requests that got a frame of their own
        self._frames = {(frame.api, frame.request): frame for frame in tape.frames}
        self._asked: Counter[str] = Counter()
        self._scripted = sum(frame.is_script for frame in tape.frames)

    @property
    def is_spent(self) -> bool:
        """Nothing but healthy answers from here on."""
        return self.met >= self._scripted

    def version_max(self, api: str) -> int | None:
        """The newest version that the peer speaks of this API: the one that was recorded. None if it has none."""
        return max((frame.version for frame in self._frames.values() if frame.api == api), default=None)

    def take(self, api: str) -> Frame | None:
        """The frame for the next request of this API; None if the tape has none. Each request takes one, once."""
        self._asked[api] += 1
        own = self._frames.get((api, self._asked[api]))
        if own is not None:
            self.met += 1
            return own
        found = self._frames.get((api, 0))
        if found is None and api in _NEED_NO_FRAME:
            return Frame(api=api, version=0)
        if found is None:
            self.missing[api] += 1
        return found

    def answer(self, frame: Frame, request: Any) -> Answer:
        """What a request gets. For a Fetch without records it may be called again with the same frame."""
        rule = _RULES.get(frame.api)
        if not frame.is_script:
            message = dict(frame.message) if rule is None else rule(self, request, frame.message)
            return Answer(do=Do.ANSWER, message=message, waits_ms=_wait_ms(frame.api, request, message))
        default = self._frames.get((frame.api, 0))
        worked = (
            rule(self, request, {} if default is None else default.message) if rule and frame.is_after_work else None
        )
        if frame.do is Do.ANSWER:
            return Answer(do=Do.ANSWER, message=_with_address(dict(frame.message), self.address))
        if frame.do is Do.LATE:
            return Answer(do=Do.LATE, message=worked or dict((default or frame).message), late_ms=frame.late_ms)
        return Answer(do=frame.do)


def _wait_ms(api: str, request: Any, message: Plain) -> int:
    if api != "Fetch":
        return 0
    has_news = any(
        part.get("records") or part.get("error_code") for topic in message["responses"] for part in topic["partitions"]
    )
    return 0 if has_news else round(request.max_wait.total_seconds() * 1_000)


def _with_address(message: Plain, address: Address) -> Plain:
    """Brokers are named in the answers of Metadata and FindCoordinator, and a broker is this peer. An error of
    FindCoordinator names none."""
    here = {"host": address.host, "port": address.port}
    if message.get("host"):
        message |= here
    for name in ("brokers", "coordinators", "node_endpoints"):
        if message.get(name):
            message[name] = [{**each, **here} if each.get("host") else each for each in message[name]]
    return message


# --- what depends on the request --------------------------------------------------------------------------------------


def _api_versions(script: Script, request: Any, answer: Mapping[str, Any]) -> Plain:
    """What the real broker told, up to the version that was recorded of each API."""
    keys: list[Plain] = []
    names = {key: name for name, key in API_KEYS.items()}
    for each in answer.get("api_keys", []):
        name = names.get(each.get("api_key", 0), "")
        newest = script.version_max(name)
        if newest is None and name in _OPTIONAL:
            continue
        most = each.get("max_version", 0)
        keys.append({**each, "max_version": most if newest is None else min(newest, most)})
    return {**answer, "api_keys": keys}


def _metadata(script: Script, request: Any, answer: Mapping[str, Any]) -> Plain:
    """All topics, if the client asks for all, and else those that it names."""
    message = _with_address(dict(answer), script.address)
    if request.topics is None or (not request.topics and not hasattr(request, "allow_auto_topic_creation")):
        return message
    known = {each.get("name"): each for each in answer.get("topics", [])}
    by_id = {each.get("topic_id"): each for each in answer.get("topics", []) if each.get("topic_id")}
    topics: list[Plain] = []
    for asked in request.topics:
        found = known.get(asked.name) if asked.name is not None else by_id.get(str(asked.topic_id))
        topics.append(dict(found) if found else {"name": asked.name, "error_code": _UNKNOWN_TOPIC_OR_PARTITION})
    return {**message, "topics": topics}


def _find_coordinator(script: Script, request: Any, answer: Mapping[str, Any]) -> Plain:
    message = _with_address(dict(answer), script.address)
    keys = getattr(request, "coordinator_keys", None)
    if keys is not None and message.get("coordinators"):
        message["coordinators"] = [{**message["coordinators"][0], "key": key} for key in keys]
    return message


def _join_group(script: Script, request: Any, answer: Mapping[str, Any]) -> Plain:
    """The only member leads, with the first protocol that it offers."""
    script.generation += 1
    member, first = request.member_id or f"{MEMBER}-{script.generation}", request.protocols[0]
    myself = {
        "member_id": member,
        "metadata": first.metadata,
        "group_instance_id": getattr(request, "group_instance_id", None),
    }
    return {
        **answer,
        "generation_id": script.generation,
        "protocol_type": request.protocol_type,
        "protocol_name": first.name,
        "leader": member,
        "member_id": member,
        "members": [myself],
    }


def _sync_group(script: Script, request: Any, answer: Mapping[str, Any]) -> Plain:
    assignment = next((each.assignment for each in request.assignments), b"")
    names = {name: getattr(request, name) for name in ("protocol_type", "protocol_name") if hasattr(request, name)}
    return {**answer, **names, "assignment": assignment}


def _leave_group(script: Script, request: Any, answer: Mapping[str, Any]) -> Plain:
    members = [
        {"member_id": each.member_id, "group_instance_id": each.group_instance_id}
        for each in getattr(request, "members", ())
    ]
    return {**answer, "members": members}


def _offset_commit(script: Script, request: Any, answer: Mapping[str, Any]) -> Plain:
    for topic in request.topics:
        for part in topic.partitions:
            script.committed[topic.name, part.partition_index] = part.committed_offset
    topics = [
        {"name": topic.name, "partitions": [{"partition_index": part.partition_index} for part in topic.partitions]}
        for topic in request.topics
    ]
    return {**answer, "topics": topics}


def _offset_fetch(script: Script, request: Any, answer: Mapping[str, Any]) -> Plain:
    groups = getattr(request, "groups", None)
    if groups is None:
        return {**answer, "topics": _committed(script, request.topics)}
    return {
        **answer,
        "groups": [{"group_id": group.group_id, "topics": _committed(script, group.topics)} for group in groups],
    }


def _committed(script: Script, topics: Sequence[Any] | None) -> list[Plain]:
    if topics is None:
        names = sorted({name for name, _ in script.committed})
        asked = [(name, [part for each, part in script.committed if each == name]) for name in names]
    else:
        asked = [(topic.name, list(topic.partition_indexes)) for topic in topics]
    return [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": part,
                    "committed_offset": script.committed.get((name, part), -1),
                    "committed_leader_epoch": -1,
                    "metadata": "",
                }
                for part in parts
            ],
        }
        for name, parts in asked
    ]


def _list_offsets(script: Script, request: Any, answer: Mapping[str, Any]) -> Plain:
    ends = script.partitions.ends

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


def _fetch(script: Script, request: Any, answer: Mapping[str, Any]) -> Plain:
    """Without a session, so the next request names all its partitions again."""
    ends = script.partitions.ends

    def one(part: Any) -> Plain:
        number, offset = part.partition, part.fetch_offset
        found: Plain = {"partition_index": number, "preferred_read_replica": -1}
        if number not in ends:
            return {**found, "error_code": _UNKNOWN_TOPIC_OR_PARTITION, "high_watermark": -1}
        end = ends[number]
        found |= {"high_watermark": end, "last_stable_offset": end, "log_start_offset": 0}
        if not 0 <= offset <= end:
            return {**found, "error_code": _OFFSET_OUT_OF_RANGE}
        return {**found, "records": script.partitions.fetch(number, offset, part.partition_max_bytes)}

    responses = [
        {
            "topic": getattr(topic, "topic", None),
            "topic_id": getattr(topic, "topic_id", None),
            "partitions": [one(part) for part in topic.partitions],
        }
        for topic in request.topics
    ]
    return {**answer, "error_code": 0, "session_id": 0, "responses": responses}


def _end_of_epoch(script: Script, request: Any, answer: Mapping[str, Any]) -> Plain:
    ends = script.partitions.ends
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


def _produce(script: Script, request: Any, answer: Mapping[str, Any]) -> Plain:
    def one(part: Any) -> Plain:
        if not script.partitions.has(part.index):
            return {"index": part.index, "error_code": _UNKNOWN_TOPIC_OR_PARTITION, "base_offset": -1}
        code, base = script.partitions.append(part.index, part.records or b"")
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


def _init_producer_id(script: Script, request: Any, answer: Mapping[str, Any]) -> Plain:
    """The next epoch of the one producer that there is."""
    script.epoch += 1
    return {**answer, "producer_id": PRODUCER_ID, "producer_epoch": script.epoch}


_RULES: Final[Mapping[str, Callable[[Script, Any, Mapping[str, Any]], Plain]]] = {
    _API_VERSIONS: _api_versions,
    "Metadata": _metadata,
    "FindCoordinator": _find_coordinator,
    "JoinGroup": _join_group,
    "SyncGroup": _sync_group,
    "LeaveGroup": _leave_group,
    "OffsetCommit": _offset_commit,
    "OffsetFetch": _offset_fetch,
    "ListOffsets": _list_offsets,
    "Fetch": _fetch,
    "OffsetForLeaderEpoch": _end_of_epoch,
    "Produce": _produce,
    "InitProducerId": _init_producer_id,
}
# Their answers follow from the request and from what the peer holds. So a client may ask for them also where the one
# that was recorded never came so far.
_NEED_NO_FRAME: Final = frozenset(
    {"Fetch", "Heartbeat", "LeaveGroup", "ListOffsets", "OffsetCommit", "OffsetFetch", "OffsetForLeaderEpoch"}
)
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
}
