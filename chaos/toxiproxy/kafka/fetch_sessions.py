"""Knows which partitions a Fetch request of a session means, although it names only what changed (KIP-227).

A session belongs to one broker, and a client keeps one connection to it for its Fetch requests. So each connection has
its own `FetchSession`. It follows the session from its first request on. Of a session that began before anybody
followed it, it knows only what its requests name. Shown by tests/chaos/test_chaos_kafka_fetch_sessions.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from chaos.toxiproxy.kafka.entries import topic_of
from chaos.toxiproxy.kafka.fields import MalformedFrame, Reader

_FINAL_EPOCH, _FIRST_EPOCH = -1, 0  # org.apache.kafka.common.requests.FetchMetadata
_EPOCH_MAX: Final = 2**31 - 1
_FIRST_WITH_SESSION, _FIRST_FLEXIBLE = 7, 12
PARTITIONS_MAX: Final = 100_000  # A session may have more. Of those it knows only what requests name.

_Topics = dict[Any, tuple[Any, dict[int, Any]]]  # name or id -> the topic's entry, and its partitions' entries


class FetchSession:
    def __init__(self) -> None:
        self._session_id = 0  # 0: no session is known
        self._epoch = 0  # It is that of the last request.
        self._topics: _Topics = {}
        self._beginning: dict[int, _Topics] = {}  # correlation id of a first request -> what it asks for

    def asked(self, message: Any, correlation_id: int) -> Any:  # kio's Fetch request
        """A Fetch request has come. Returns it with all partitions that it means."""
        epoch = getattr(message, "session_epoch", _FINAL_EPOCH)
        if epoch in (_FINAL_EPOCH, _FIRST_EPOCH):
            self._session_id, self._topics = 0, {}
            if epoch == _FIRST_EPOCH:
                self._beginning = {correlation_id: _added({}, message)}
            return message
        if message.session_id != self._session_id or epoch != _next(self._epoch):  # requests passed unread
            self._session_id, self._topics = 0, {}
            return message
        self._epoch = epoch
        for topic in message.forgotten_topics_data or ():
            _, kept = self._topics.get(_key(topic), (None, {}))
            for partition in topic.partitions:
                kept.pop(partition, None)
        _added(self._topics, message)
        if sum(len(partitions) for _, partitions in self._topics.values()) > PARTITIONS_MAX:
            self._session_id, self._topics = 0, {}
            return message
        full = (replace(topic, partitions=tuple(parts.values())) for topic, parts in self._topics.values() if parts)
        return replace(message, topics=tuple(full))

    def is_known(self, message: Any) -> bool:
        """Whether `asked` returned all that the request means."""
        is_within = getattr(message, "session_epoch", _FINAL_EPOCH) > 0
        return not is_within or message.session_id == self._session_id

    def answered(self, frame: bytes, version: int, correlation_id: int) -> None:
        """A response to a Fetch request has come. A session begins if it answers a first request and names one."""
        topics = self._beginning.pop(correlation_id, None)
        if topics is None or version < _FIRST_WITH_SESSION:
            return
        try:
            reader = Reader(frame, position=8, is_compact=version >= _FIRST_FLEXIBLE)
            reader.skip_tags()
            reader.int32()  # throttle_time_ms
            error_code, session_id = reader.int16(), reader.int32()
        except MalformedFrame:
            return
        if not error_code and session_id:
            self._session_id, self._epoch, self._topics = session_id, _FIRST_EPOCH, topics


def partitions_of(message: Any, names: Mapping[bytes, str]) -> frozenset[tuple[str, int]]:
    """(topic, partition) of each that a Fetch request names."""
    return frozenset(
        (topic_of(topic, names) or "", each.partition) for topic in message.topics or () for each in topic.partitions
    )


def _next(epoch: int) -> int:
    return 1 if epoch == _EPOCH_MAX else epoch + 1


def _key(topic: Any) -> Any:
    return topic.topic if hasattr(topic, "topic") else topic.topic_id


def _added(topics: _Topics, message: Any) -> _Topics:
    for topic in message.topics or ():
        _, partitions = topics.setdefault(_key(topic), (topic, {}))
        partitions.update({each.partition: each for each in topic.partitions})
    return topics
