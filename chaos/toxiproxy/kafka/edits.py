"""Responses that passed through a broker, with another error code or throttle time.

An entry that gets an error says what a refusal says (refusals.py): no offset, no records, no members. What it is about
stays: its topic, its partition, its group. So the client reads what a broker would have sent, and only the work was
done. Shown by tests/chaos/test_chaos_kafka_edits.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final

from chaos.toxiproxy.kafka.entries import arrays_of, error_field, partition_of, topic_of
from chaos.toxiproxy.kafka.error_levels import Level, level_of
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.messages import decode_response, encode_response, wire
from chaos.toxiproxy.kafka.refusals import code_of, refused

UNKNOWN_TOPIC_OR_PARTITION: Final = 3
# Fields that say what an entry is about, or what holds whether or not there is an error.
_KEPT: Final = frozenset(
    ("name", "topic", "topic_name", "topic_id", "partition_index", "partition", "index", "partition_id", "group_id",
     "key", "transactional_id", "resource_type", "resource_name", "user", "entity", "log_dir", "member_id",
     "group_instance_id", "feature", "is_internal", "throttle_time", "session_id", "allow_replication_factor_change",
     "node_endpoints")
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Selects entries of a response. Empty and -1 mean any."""

    topic: str = ""
    partition: int = -1
    group: str = ""
    transactional_id: str = ""

    def means(self, entry: Any, topic: str | None) -> bool:
        """Whether an entry, which is about `topic` if that is known, may be one of them."""
        if self.topic and topic is not None and topic != self.topic:
            return False
        number = partition_of(entry)
        if number is not None and self.partition not in (-1, number):
            return False
        for wanted, field in ((self.group, "group_id"), (self.transactional_id, "transactional_id")):
            value = getattr(entry, field, wanted)
            if wanted and value != wanted:
                return False
        key = getattr(entry, "key", None)
        return key is None or not (self.group or self.transactional_id) or key in (self.group, self.transactional_id)


class NothingChanged(MalformedFrame):
    """The response has no entry that is meant."""


def edited_response(
    frame: bytes,
    *,
    api_key: int,
    version: int,
    names: Mapping[bytes, str],
    error_code: int = -1,
    throttle_ms: int = -1,
    target: Target = Target(),
    is_hiding: bool = False,
) -> bytes:
    """The response with `error_code` for the entries that `target` means, with a throttle time, or with both. -1: this
    field does not change.

    With `is_hiding` a Metadata response no longer has the topic. `names`: of topics, by id. Raises MalformedFrame if
    the response cannot be read, and NothingChanged if it has no entry that is meant.
    """
    correlation_id, message = decode_response(frame, api_key, version)
    try:
        if throttle_ms >= 0 and hasattr(message, "throttle_time"):
            message = replace(message, throttle_time=type(message.throttle_time)(milliseconds=throttle_ms))
        elif throttle_ms >= 0 and error_code < 0:
            raise NothingChanged("this version has no throttle time")
        if is_hiding:
            message = _without_topic(message, target.topic, names)
        elif error_code >= 0:
            message = with_error(message, api_key, version, error_code, target, names)
    except MalformedFrame:
        raise
    except Exception as error:  # the errors of kio are many, and whatever it is: the response passes unedited
        raise MalformedFrame(f"response of api key {api_key} version {version}: {error}") from error
    return encode_response(api_key, version, correlation_id, message)


def with_error(
    message: Any, api_key: int, version: int, error_code: int, target: Target, names: Mapping[bytes, str]
) -> Any:  # kio's types
    """The decoded response with the error at the level where a broker puts it. Raises NothingChanged."""
    blanks = _blanks(api_key, version, error_code)
    level = level_of(api_key, error_code)
    has_top = hasattr(message, "error_code")
    # The response of LeaveGroup has entries of members, but most codes are about the whole request.
    if has_top and (level is Level.TOP or not _has_errors_below(message)):
        return _failed(message, error_code, blanks)
    for tried in (level, Level.INNER) if level is Level.OUTER else (level,):
        changed, count = _edited_entries(message, error_code, target, names, None, tried, blanks)
        if count:
            return changed
        if has_top and tried is Level.OUTER:  # versions of OffsetFetch with one group
            return _failed(message, error_code, blanks)
    raise NothingChanged(f"no entry of the response is about {target}")


def _edited_entries(
    message: Any,
    error_code: int,
    target: Target,
    names: Mapping[bytes, str],
    of_topic: str | None,
    level: Level,
    blanks: Mapping[Any, Any],
) -> tuple[Any, int]:
    """Give the entries that are meant the error. Returns how many there were."""
    values: dict[str, object] = {}
    total = 0
    for field, entries in arrays_of(message):
        edited = []
        for entry in entries:
            topic = of_topic if of_topic is not None else topic_of(entry, names)
            if not target.means(entry, topic):
                edited.append(entry)
                continue
            is_last = level is Level.OUTER and error_field(entry) is not None
            inner, count = (
                (entry, 0) if is_last else _edited_entries(entry, error_code, target, names, topic, level, blanks)
            )
            if not count and error_field(entry) and (is_last or not _has_errors_below(entry)):
                inner, count = _failed(entry, error_code, blanks), 1
            edited.append(inner)
            total += count
        values[field] = tuple(edited)
    return (replace(message, **values) if total else message), total


def _failed(entry: Any, error_code: int, blanks: Mapping[Any, Any]) -> Any:
    """The entry as in a refusal, about the same thing."""
    field = error_field(entry)
    assert field is not None
    values: dict[str, object] = {}
    if error_code and (blank := blanks.get(type(entry))) is not None:
        values = {name: getattr(blank, name) for name in (each.name for each in fields(entry)) if name not in _KEPT}
    return replace(entry, **{**values, field: code_of(error_code)})


@lru_cache(maxsize=256)
def _blanks(api_key: int, version: int, error_code: int) -> Mapping[Any, Any]:
    """One entry of each type of a refusal with this code, by its type."""
    messages = wire()
    request = _one_of_each(messages.request_type(api_key, version))
    refusal = refused(api_key, version, request, error_code)
    found: dict[Any, Any] = {}
    waiting = [] if refusal is None else [refusal]
    while waiting:
        entry = waiting.pop()
        if entry is refusal or error_field(entry):
            found.setdefault(type(entry), entry)
        waiting += [each for _, entries in arrays_of(entry) for each in entries]
    return found


def _one_of_each(kind: Any) -> Any:
    """A message of which each array has one entry."""
    messages = wire()
    values: dict[str, object] = {}
    for shape in messages.field_shapes(kind):
        if shape.is_array and shape.tag is None:
            is_text = shape.kafka_type in ("string", "uuid")
            values[shape.name] = (_one_of_each(shape.nested) if shape.nested else "" if is_text else 0,)
    return messages.build(kind, values)


def _has_errors_below(message: Any) -> bool:
    """Whether entries of such a message, at any depth, may have errors of their own."""
    kind: Any = type(message)
    return _type_has_errors_below(kind)


@lru_cache(maxsize=1024)
def _type_has_errors_below(kind: Any) -> bool:
    messages = wire()
    return any(
        "error_code" in shape.nested.__dataclass_fields__
        or "partition_error_code" in shape.nested.__dataclass_fields__
        or _type_has_errors_below(shape.nested)
        for shape in messages.field_shapes(kind)
        if shape.nested is not None and shape.is_array
    )


def _without_topic(message: Any, topic: str, names: Mapping[bytes, str]) -> Any:
    """The Metadata response in which the entry of the topic (empty: every entry) has UNKNOWN_TOPIC_OR_PARTITION and no
    partitions."""
    topics = tuple(
        replace(entry, error_code=code_of(UNKNOWN_TOPIC_OR_PARTITION), partitions=())
        if topic in ("", topic_of(entry, names))
        else entry
        for entry in message.topics or ()
    )
    return replace(message, topics=topics)
