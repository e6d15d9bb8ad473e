"""Metadata records to bytes and back, as Apache Kafka's MetadataRecordSerde: a frame, then the message.

The frame is three unsigned varints: the version of the frame (1), the record's number (`API_KEYS`), and the version of
its schema. The message follows, in the flexible encoding (KIP-482). One record is one value of the log.
`broker/controller/records.py` has the schemas, and broker/wire makes the code for them.

A reader refuses what it does not know: another frame, number or version, a field without a meaning here that has not
its default, bytes that are left over. Only tagged fields with an unknown number are skipped, as the protocol demands.
The brokers of a cluster run one version of this. Every length and count is checked before anything is built.
Shown by tests/broker_controller/test_controller_record_codec.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final
from uuid import UUID

from broker.controller import records as schemas
from broker.controller.records import MetadataRecord
from broker.wire.decoder import ELEMENTS_MAX, Budget, Decode, decoder_for
from broker.wire.encoder import Encode, Output, encoder_for
from broker.wire.errors import ProtocolError
from broker.wire.extent import extent_of
from broker.wire.messages import MessageType, field_shapes
from broker.wire.varints import read_uvarint, uvarint

FRAME_VERSION: Final = 1
FRAME_BYTES: Final = 3  # Every record that we know has so many: all three numbers are below 128.
_JSON = b"["  # what the records began with before they were Kafka's
_OLD_FORMAT = (
    "the metadata records are JSON, which an earlier version of this broker wrote. This version reads Kafka's records "
    "only, and does not convert. Start the cluster with empty log directories, or with the earlier version"
)
# Kafka's numbers of the records (apiKey in common/metadata/*.json).
API_KEYS: Final[Mapping[type[MetadataRecord], int]] = {
    schemas.RegisterBrokerRecord: 0,
    schemas.UnregisterBrokerRecord: 1,
    schemas.TopicRecord: 2,
    schemas.PartitionRecord: 3,
    schemas.ConfigRecord: 4,
    schemas.PartitionChangeRecord: 5,
    schemas.RemoveTopicRecord: 9,
    schemas.UserScramCredentialRecord: 11,
    schemas.FeatureLevelRecord: 12,
    schemas.ProducerIdsRecord: 15,
    schemas.BrokerRegistrationChangeRecord: 17,
    schemas.AccessControlEntryRecord: 18,
    schemas.RemoveAccessControlEntryRecord: 19,
    schemas.RemoveUserScramCredentialRecord: 22,
    schemas.ClearElrRecord: 28,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Codec:
    """Of one type of record."""

    kind: MessageType
    frame: bytes
    encode: Encode
    decode: Decode
    ids: tuple[str, ...]  # fields that must not be the zero id
    id_lists: tuple[str, ...]  # and those that must not hold it
    unknown: tuple[tuple[str, Any], ...]  # fields without a meaning here, with the only value that is accepted


def _frame(api_key: int, version: int) -> bytes:
    return uvarint(FRAME_VERSION) + uvarint(api_key) + uvarint(version)


def _codec(kind: MessageType, api_key: int) -> _Codec:
    unknown = {each.name for each in fields(kind) if each.metadata.get(schemas.NOT_KNOWN)}
    return _Codec(
        kind=kind,
        frame=_frame(api_key, kind.__version__),
        encode=encoder_for(kind),
        decode=decoder_for(kind, True),
        ids=tuple(each.name for each in fields(kind) if each.type is UUID),
        id_lists=tuple(each.name for each in fields(kind) if each.type in (tuple[UUID, ...], tuple[UUID, ...] | None)),
        unknown=tuple((each.name, each.default) for each in field_shapes(kind) if each.name in unknown),
    )


# Delegation tokens (KIP-48), their removals, and client quotas (KIP-546): a log or a snapshot that an earlier version
# of this broker wrote may hold such records. They are read past, because nothing here depends on them.
_READ_PAST: Final = (_frame(10, 0), _frame(26, 0), _frame(14, 0))
_BY_TYPE: Final = {kind: _codec(kind, api_key) for kind, api_key in API_KEYS.items()}
_BY_FRAME: Final = {
    _frame(API_KEYS[kind], version): codec
    for kind, codec in _BY_TYPE.items()
    for version in (kind.__version__, *getattr(kind, "__older__", ()))
}


def encode_records(records: tuple[MetadataRecord, ...]) -> tuple[bytes, ...]:
    """One value of the log for each. Raises ValueError for a record that Kafka's schema cannot hold."""
    return tuple([encode_record(record) for record in records])


def encode_record(record: MetadataRecord) -> bytes:
    codec, output = _BY_TYPE[type(record)], Output()
    output.small.append(codec.frame)
    try:
        codec.encode(record, output)
    except Exception as error:  # struct.error and the like: whatever it is, the record is not written
        raise ValueError(f"a metadata record cannot be encoded: {error}: {record!r:.300}") from error
    return b"".join(output.finish())


def decode_records(values: tuple[bytes, ...]) -> tuple[MetadataRecord, ...]:
    """The records that have a meaning here, in their order. Raises ValueError for anything that `encode_records` cannot
    have made, in this version or an earlier one."""
    return tuple([decode_record(value) for value in values if value[:FRAME_BYTES] not in _READ_PAST])


def decode_record(value: bytes) -> MetadataRecord:
    codec = _BY_FRAME.get(value[:FRAME_BYTES]) or _unknown_frame(value)
    view = memoryview(value)
    try:
        end = extent_of(codec.kind, view, FRAME_BYTES, elements_max=ELEMENTS_MAX)
        record, _ = codec.decode(view, FRAME_BYTES, Budget(ELEMENTS_MAX))
    except (ProtocolError, ValueError, OverflowError) as error:
        raise ValueError(f"a {codec.kind.__name__} is damaged: {error}; bytes: {value[:200].hex()}") from error
    if end != len(value):
        raise ValueError(f"a {codec.kind.__name__} ends at byte {end} of {len(value)}; bytes: {value[:200].hex()}")
    for name in codec.ids:
        if getattr(record, name) is None:
            raise ValueError(f"the {name} of a {codec.kind.__name__} is the zero id")
    for name in codec.id_lists:
        if None in (getattr(record, name) or ()):
            raise ValueError(f"the {name} of a {codec.kind.__name__} hold the zero id")
    for name, expected in codec.unknown:
        if getattr(record, name) != expected:
            raise ValueError(
                f"a {codec.kind.__name__} with {name} {getattr(record, name)}: only {expected} has a meaning here"
            )
    made: MetadataRecord = record
    return made


def _unknown_frame(value: bytes) -> _Codec:
    """Always raises."""
    if value.startswith(_JSON):
        raise ValueError(_OLD_FORMAT)
    try:
        frame_version, position = read_uvarint(value, 0)
        api_key, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except (IndexError, ProtocolError) as error:
        raise ValueError(f"a metadata record has no frame: {error}; bytes: {value[:200].hex()}") from error
    known = {codec.frame[1]: f"{codec.kind.__name__} {codec.kind.__version__}" for codec in _BY_TYPE.values()}
    raise ValueError(
        f"a metadata record with frame version {frame_version}, type {api_key}, version {version}: expected frame "
        f"version {FRAME_VERSION} and one of {', '.join(known[key] for key in sorted(known))}; bytes: "
        f"{value[:200].hex()}"
    )
