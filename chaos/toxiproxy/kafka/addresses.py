"""Replaces the brokers' addresses in responses, so that clients stay on the proxies.

Metadata, FindCoordinator and DescribeCluster contain addresses. So do Produce from version 10 on and Fetch from version
16 on, in a tagged field that comes with NOT_LEADER_OR_FOLLOWER (KIP-951), and ShareFetch and ShareAcknowledge, in an
array (KIP-932). The rest of a response is copied. A version
that this file does not know raises MalformedFrame. The caller must not pass on such a response. Otherwise a client
could learn a real address and bypass the proxies, and nobody would notice. Shown by
tests/chaos/test_chaos_kafka_addresses.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from chaos.toxiproxy.kafka.fields import MalformedFrame, Reader, Writer

HostPort = tuple[str, int]
Mapped = Mapping[HostPort, HostPort]

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER, SHARE_FETCH, SHARE_ACKNOWLEDGE = 0, 1, 3, 10, 60, 78, 79
# The values are the newest version of the API whose layout is known here, and its first version with addresses.
_NEWEST: Final = {
    PRODUCE: 13, FETCH: 18, METADATA: 13, FIND_COORDINATOR: 6, DESCRIBE_CLUSTER: 2, SHARE_FETCH: 2, SHARE_ACKNOWLEDGE: 2
}  # fmt: skip
_FIRST: Final = dict.fromkeys(_NEWEST, 0) | {PRODUCE: 10, FETCH: 16}
_NODE_ENDPOINTS_TAG: Final = 0


def carries_addresses(api_key: int, version: int) -> bool:
    return version >= _FIRST.get(api_key, 1 << 15)


def rewritten(frame: bytes, api_key: int, version: int, mapped: Mapped) -> bytes:
    """The response frame, with its length, in which every address in `mapped` is replaced."""
    if version > _NEWEST[api_key]:
        raise MalformedFrame(f"api key {api_key} version {version}, known up to {_NEWEST[api_key]}")
    return _REWRITERS[api_key](_Copy(frame, mapped), version)


class _Copy:
    """Reads a response and writes it again. The bytes between two edits are copied in one piece."""

    def __init__(self, frame: bytes, mapped: Mapped) -> None:
        self._frame, self._mapped = frame, mapped
        self.reader = Reader(frame, position=8)  # after length and correlation id
        self._writer = Writer(is_compact=False)
        self._copied_to = 4

    def begin(self, *, is_flexible: bool) -> Reader:
        """Go to the body, after the header's tags."""
        self.reader.is_compact = is_flexible
        self._writer = Writer(is_compact=is_flexible)
        self.reader.skip_tags()
        return self.reader

    def address(self) -> None:
        """Replace an address. The reader is at its host and port."""
        start = self.reader.position
        host, port = self.reader.text(), self.reader.int32()
        replacement = self._mapped.get((host or "", port))
        if replacement is not None:
            self._flush(start)
            self._writer.text(replacement[0])
            self._writer.int32(replacement[1])
            self._copied_to = self.reader.position

    def replace(self, start: int, content: bytes) -> None:
        """Write `content` instead of the bytes between `start` and the reader."""
        self._flush(start)
        self._writer.raw(content)
        self._copied_to = self.reader.position

    def done(self) -> bytes:
        self._flush(len(self._frame))
        return self._writer.frame()

    def endpoints(self, tag: bytes) -> bytes:
        """Replace the addresses in the tagged array of node endpoints. Its encoding is always compact, like that of the
        body."""
        inner = _Copy(b"\0\0\0\0" + tag, self._mapped)
        inner.reader = Reader(inner._frame, position=4, is_compact=True)
        inner._writer = Writer(is_compact=True)
        inner.nodes()
        return inner.done()[4:]

    def nodes(self) -> None:
        """Replace the addresses in an array of node endpoints."""
        for _ in range(self.reader.count()):
            self.reader.int32()  # node_id
            self.address()
            self.reader.text()  # rack
            self.reader.skip_tags()

    def _flush(self, end: int) -> None:
        self._writer.raw(self._frame[self._copied_to : end])
        self._copied_to = end


def _metadata(copy: _Copy, version: int) -> bytes:
    reader = copy.begin(is_flexible=version >= 9)
    if version >= 3:
        reader.int32()  # throttle_time_ms
    for _ in range(reader.count()):
        reader.int32()  # node_id
        copy.address()
        if version >= 1:
            reader.text()  # rack
        reader.skip_tags()
    return copy.done()


def _find_coordinator(copy: _Copy, version: int) -> bytes:
    reader = copy.begin(is_flexible=version >= 3)
    if version >= 1:
        reader.int32()  # throttle_time_ms
    if version >= 4:
        for _ in range(reader.count()):
            reader.text()  # key
            reader.int32()  # node_id
            copy.address()
            reader.int16()  # error_code
            reader.text()  # error_message
            reader.skip_tags()
        return copy.done()
    reader.int16()  # error_code
    if version >= 1:
        reader.text()  # error_message
    reader.int32()  # node_id
    copy.address()
    return copy.done()


def _describe_cluster(copy: _Copy, version: int) -> bytes:
    reader = copy.begin(is_flexible=True)
    reader.int32()  # throttle_time_ms
    reader.int16()  # error_code
    reader.text()  # error_message
    if version >= 1:
        reader.int8()  # endpoint_type
    reader.text()  # cluster_id
    reader.int32()  # controller_id
    for _ in range(reader.count()):
        reader.int32()  # broker_id
        copy.address()
        reader.text()  # rack
        if version >= 2:
            reader.int8()  # is_fenced
        reader.skip_tags()
    return copy.done()


def _produce(copy: _Copy, version: int) -> bytes:
    reader = copy.begin(is_flexible=True)
    for _ in range(reader.count()):
        if version >= 13:
            reader.skip(16)  # topic_id
        else:
            reader.text()  # name
        for _ in range(reader.count()):
            reader.skip(4 + 2 + 8 + 8 + 8)  # index, error_code, base_offset, log_append_time_ms, log_start_offset
            for _ in range(reader.count()):
                reader.int32()  # batch_index
                reader.text()  # batch_index_error_message
                reader.skip_tags()
            reader.text()  # error_message
            reader.skip_tags()
        reader.skip_tags()
    reader.int32()  # throttle_time_ms
    return _with_endpoints(copy)


def _fetch(copy: _Copy, version: int) -> bytes:
    reader = copy.begin(is_flexible=True)
    reader.skip(4 + 2 + 4)  # throttle_time_ms, error_code, session_id
    for _ in range(reader.count()):
        reader.skip(16)  # topic_id
        for _ in range(reader.count()):
            reader.skip(4 + 2 + 8 + 8 + 8)  # index, error_code, high_watermark, last_stable_offset, log_start_offset
            for _ in range(reader.count()):
                reader.skip(8 + 8)  # producer_id, first_offset
                reader.skip_tags()
            reader.int32()  # preferred_read_replica
            reader.blob()  # records
            reader.skip_tags()
        reader.skip_tags()
    return _with_endpoints(copy)


def _share_fetch(copy: _Copy, version: int) -> bytes:
    reader = copy.begin(is_flexible=True)
    reader.skip(4 + 2)  # throttle_time_ms, error_code
    reader.text()  # error_message
    reader.int32()  # acquisition_lock_timeout_ms
    for _ in range(reader.count()):
        reader.skip(16)  # topic_id
        for _ in range(reader.count()):
            _share_partition(reader)
            reader.int16()  # acknowledge_error_code
            reader.text()  # acknowledge_error_message
            _current_leader(reader)
            reader.blob()  # records
            for _ in range(reader.count()):
                reader.skip(8 + 8 + 2)  # first_offset, last_offset, delivery_count
                reader.skip_tags()
            reader.skip_tags()
        reader.skip_tags()
    copy.nodes()
    return copy.done()


def _share_acknowledge(copy: _Copy, version: int) -> bytes:
    reader = copy.begin(is_flexible=True)
    reader.skip(4 + 2)  # throttle_time_ms, error_code
    reader.text()  # error_message
    if version >= 2:
        reader.int32()  # acquisition_lock_timeout_ms
    for _ in range(reader.count()):
        reader.skip(16)  # topic_id
        for _ in range(reader.count()):
            _share_partition(reader)
            _current_leader(reader)
            reader.skip_tags()
        reader.skip_tags()
    copy.nodes()
    return copy.done()


def _share_partition(reader: Reader) -> None:
    reader.skip(4 + 2)  # partition_index, error_code
    reader.text()  # error_message


def _current_leader(reader: Reader) -> None:
    reader.skip(4 + 4)  # leader_id, leader_epoch
    reader.skip_tags()


def _with_endpoints(copy: _Copy) -> bytes:
    """Rewrite the node endpoints in the tags at the end of a body. Other tags are copied."""
    reader = copy.reader
    for _ in range(reader.tag_count()):
        tag = reader.varint()
        start = reader.position
        size = reader.varint()
        begin = reader.position
        reader.skip(size)
        if tag == _NODE_ENDPOINTS_TAG:
            content = copy.endpoints(reader.slice(begin, size))
            length = Writer(is_compact=True)
            length.varint(len(content))
            copy.replace(start, length.frame()[4:] + content)
    return copy.done()


_REWRITERS: Final[Mapping[int, Callable[[_Copy, int], bytes]]] = {
    PRODUCE: _produce,
    FETCH: _fetch,
    METADATA: _metadata,
    FIND_COORDINATOR: _find_coordinator,
    DESCRIBE_CLUSTER: _describe_cluster,
    SHARE_FETCH: _share_fetch,
    SHARE_ACKNOWLEDGE: _share_acknowledge,
}
