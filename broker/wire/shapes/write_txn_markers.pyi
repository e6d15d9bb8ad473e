"""WriteTxnMarkersRequest (key 27) and its answer, versions 1-2.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class WritableTxnMarkerTopic:
    name: str
    partition_indexes: tuple[int, ...]

class WritableTxnMarkerTopicFields(TypedDict, total=False):
    name: str
    partition_indexes: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class WritableTxnMarker:
    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: int
    transaction_version: int  # since version 2

class WritableTxnMarkerFields(TypedDict, total=False):
    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: Iterable[WritableTxnMarkerTopicFields]
    coordinator_epoch: int
    transaction_version: int  # since version 2

@final
@dataclass(frozen=True, kw_only=True)
class WriteTxnMarkersRequest(Asks[WriteTxnMarkersResponse]):
    markers: tuple[WritableTxnMarker, ...]

class WriteTxnMarkersRequestFields(TypedDict, total=False):
    markers: Iterable[WritableTxnMarkerFields]

@final
@dataclass(frozen=True, kw_only=True)
class WritableTxnMarkerPartitionResult:
    partition_index: int
    error_code: ErrorCode

class WritableTxnMarkerPartitionResultFields(TypedDict, total=False):
    partition_index: int
    error_code: int

@final
@dataclass(frozen=True, kw_only=True)
class WritableTxnMarkerTopicResult:
    name: str
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]

class WritableTxnMarkerTopicResultFields(TypedDict, total=False):
    name: str
    partitions: Iterable[WritableTxnMarkerPartitionResultFields]

@final
@dataclass(frozen=True, kw_only=True)
class WritableTxnMarkerResult:
    producer_id: int
    topics: tuple[WritableTxnMarkerTopicResult, ...]

class WritableTxnMarkerResultFields(TypedDict, total=False):
    producer_id: int
    topics: Iterable[WritableTxnMarkerTopicResultFields]

@final
@dataclass(frozen=True, kw_only=True)
class WriteTxnMarkersResponse(Answers[WriteTxnMarkersRequest]):
    markers: tuple[WritableTxnMarkerResult, ...]

class WriteTxnMarkersResponseFields(TypedDict, total=False):
    markers: Iterable[WritableTxnMarkerResultFields]
