"""Registration, heartbeats, fencing, controlled shutdown, producer id blocks. Pure functions of image and sessions.

A broker is FENCED, UNFENCED, or in CONTROLLED_SHUTDOWN; the heartbeat moves it (Kafka's BrokerHeartbeatManager).
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from broker.controller.elections import (
    changes_for_failed,
    changes_for_offline,
    changes_without,
    leaders_allowed,
    leads_any,
)
from broker.controller.features import may_cordon
from broker.controller.image import BrokerRegistration, MetadataImage
from broker.controller.outcome import Outcome, refusal
from broker.controller.reassignment_types import UnregisterBroker, UnregisterBrokerResponse
from broker.controller.records import (
    FENCE,
    UNFENCE,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    replica_directory,
)
from broker.controller.sessions import BrokerSessions
from broker.controller.types import (
    AllocateProducerIds,
    AllocateProducerIdsResponse,
    BrokerHeartbeat,
    BrokerHeartbeatResponse,
    RegisterBroker,
    RegisterBrokerResponse,
)
from broker.wire.errors import ErrorCode

RESERVED_IDS = 100  # Kafka's directory ids below it have meanings of their own: 0 not assigned, 1 lost, 2 migrating
PRODUCER_ID_BLOCK = 1000  # as in Kafka; a broker asks again when it has given these out


def register(
    image: MetadataImage,
    sessions: BrokerSessions,
    request: RegisterBroker,
    *,
    next_offset: int,
    now_ms: int,
    unclean: bool,
) -> Outcome:
    """`next_offset` is the offset of the registration's record. It becomes the broker epoch, so epochs only grow.

    A new incarnation names the broker epoch of the previous one, if that one shut down cleanly. Any other epoch means
    that the broker may have lost records (KIP-966).
    """
    if request.broker_id < 0:  # -1 means that there is no leader
        return Outcome(response=refusal(request, ErrorCode.invalid_request))
    existing = image.brokers.get(request.broker_id)
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        # The answer to the first attempt was lost.
        return Outcome(response=RegisterBrokerResponse(error_code=ErrorCode.none, broker_epoch=existing.broker_epoch))
    is_leaving = existing is not None and existing.in_controlled_shutdown
    if existing is not None and not is_leaving and sessions.is_valid(request.broker_id, now_ms):
        # Two processes may have the same node.id. We know that the old one is gone only when its session ends. As in
        # Kafka (ClusterControlManager.registerBroker), this also holds if the old one is fenced. Otherwise each of two
        # processes would again and again replace the other.
        return Outcome(response=refusal(request, ErrorCode.duplicate_broker_registration))
    if not _are_valid(image, request):
        return Outcome(response=refusal(request, ErrorCode.invalid_registration))
    leaving: tuple[MetadataRecord, ...]
    if existing is not None:
        has_lost = request.previous_broker_epoch != existing.broker_epoch
        leaving = tuple(changes_without(image, request.broker_id, unclean_default=unclean, has_lost=has_lost))
    else:  # it was unregistered, so nobody knows the epoch of its last shutdown
        leaving = tuple(changes_without(image, request.broker_id, unclean_default=unclean, has_lost=True))
    registration = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=next_offset,
        endpoints=request.endpoints,
        rack=request.rack,
        fenced=True,
        in_controlled_shutdown=False,
        log_directories=tuple(sorted(each for each in request.log_directories if each is not None)),
    )
    sessions.begin(request.broker_id, now_ms)
    response = RegisterBrokerResponse(error_code=ErrorCode.none, broker_epoch=next_offset)
    return Outcome(response=response, records=(registration, *leaving))


def _are_valid(image: MetadataImage, request: RegisterBroker) -> bool:
    """Whether the log directories may be those of this broker (Kafka: ClusterControlManager.registerBroker)."""
    told = set(request.log_directories)
    if len(told) != len(request.log_directories) or any(each is None or each.int < RESERVED_IDS for each in told):
        return False
    return not any(
        told & broker.log_directories for broker in image.brokers.values() if broker.broker_id != request.broker_id
    )


def unregister(image: MetadataImage, sessions: BrokerSessions, request: UnregisterBroker, *, unclean: bool) -> Outcome:
    """Remove the registration of a broker that will not come back. The broker leaves its ISRs, as if it were fenced.

    It stays in the lists of replicas until a reassignment removes it there.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        message = f"Broker ID {request.broker_id} is not currently registered"
        response = UnregisterBrokerResponse(error_code=ErrorCode.broker_id_not_registered, error_message=message)
        return Outcome(response=response)
    sessions.end(request.broker_id)
    moved = changes_without(image, request.broker_id, unclean_default=unclean)
    gone = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    response = UnregisterBrokerResponse(error_code=ErrorCode.none, error_message=None)
    return Outcome(response=response, records=(*moved, gone))


def check_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> int:
    """NONE, or the reason why a request in the name of this broker is refused."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.broker_id_not_registered
    return ErrorCode.none if broker.broker_epoch == broker_epoch else ErrorCode.stale_broker_epoch


def heartbeat(
    image: MetadataImage,
    sessions: BrokerSessions,
    request: BrokerHeartbeat,
    *,
    next_offset: int,
    now_ms: int,
    unclean: bool,
) -> Outcome:
    error = check_epoch(image, request.broker_id, request.broker_epoch)
    if error != ErrorCode.none:
        return Outcome(response=refusal(request, error))
    sessions.touch(request.broker_id, now_ms, request.current_metadata_offset)
    broker = image.brokers[request.broker_id]
    caught_up = request.current_metadata_offset >= broker.broker_epoch
    failed = _failed(image, broker, request.offline_directories)
    if failed:  # everything else in this heartbeat can wait for the next one
        records = _directories_failed(image, broker, failed, unclean=unclean)
        return _beat(caught_up, fenced=broker.fenced, records=records)
    cordoned = _cordoned(image, broker, request.cordoned_directories)
    if cordoned is not None:
        change = _registration_change(
            broker, fenced=broker.fenced, in_controlled_shutdown=broker.in_controlled_shutdown
        )
        return _beat(caught_up, fenced=broker.fenced, records=(replace(change, cordoned_directories=cordoned),))
    if broker.fenced:
        if request.want_shut_down:
            return _beat(caught_up, fenced=True, shut_down=True)
        if request.want_fence or not caught_up:
            return _beat(caught_up, fenced=True)
        return _beat(caught_up, fenced=False, records=unfence(image, broker, unclean=unclean))
    if not request.want_shut_down:
        if request.want_fence:
            return _beat(caught_up, fenced=True, records=fence(image, broker, unclean=unclean))
        return _beat(caught_up, fenced=False)
    return _shutdown_beat(image, sessions, broker, caught_up, next_offset=next_offset, unclean=unclean)


def _beat(
    caught_up: bool, *, fenced: bool, shut_down: bool = False, records: tuple[MetadataRecord, ...] = ()
) -> Outcome:
    response = BrokerHeartbeatResponse(
        error_code=ErrorCode.none, is_caught_up=caught_up, is_fenced=fenced, should_shut_down=shut_down
    )
    return Outcome(response=response, records=records)


def _shutdown_beat(
    image: MetadataImage,
    sessions: BrokerSessions,
    broker: BrokerRegistration,
    caught_up: bool,
    *,
    next_offset: int,
    unclean: bool,
) -> Outcome:
    """First move the leaders away. The broker may stop only when no other broker can still believe that it leads."""
    if not broker.in_controlled_shutdown:
        sessions.begin_shutdown(broker.broker_id, next_offset)
        change = _registration_change(broker, fenced=False, in_controlled_shutdown=True)
        moved = changes_without(image, broker.broker_id, unclean_default=unclean)
        return _beat(caught_up, fenced=False, records=(change, *moved))
    waits = not sessions.others_saw_shutdown(broker.broker_id, image.live_broker_ids())
    if waits or leads_any(image, broker.broker_id):
        return _beat(caught_up, fenced=False)
    return _beat(caught_up, fenced=True, shut_down=True, records=fence(image, broker, unclean=unclean))


def _registration_change(
    broker: BrokerRegistration, *, fenced: bool, in_controlled_shutdown: bool
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        fenced=FENCE if fenced else UNFENCE,
        in_controlled_shutdown=int(in_controlled_shutdown),
        offline_directories=tuple(sorted(broker.offline_directories)),
    )


def _failed(image: MetadataImage, broker: BrokerRegistration, told: frozenset[UUID]) -> frozenset[UUID]:
    """Those of the failed directories that the controller does not know as failed: log directories of this broker, and
    replicas on it. Any other id needs no record."""
    told -= broker.offline_directories
    if not told:
        return told
    directories = told & broker.log_directories
    if directories == broker.log_directories:  # a broker without any ends by itself; no record can express it
        directories = frozenset()
    return directories | told & {
        replica_directory(topic.topic_id, partition)
        for topic in image.topics.values()
        for partition, state in enumerate(topic.partitions)
        if broker.broker_id in state.replicas
    }


def _cordoned(
    image: MetadataImage, broker: BrokerRegistration, told: frozenset[UUID] | None
) -> tuple[UUID, ...] | None:
    """All log directories that are cordoned, if the controller does not know it yet (KIP-1066). Else None."""
    if told is None or not may_cordon(image):
        return None
    cordoned = told & broker.log_directories
    return None if cordoned == broker.cordoned_directories & broker.log_directories else tuple(sorted(cordoned))


def _directories_failed(
    image: MetadataImage, broker: BrokerRegistration, failed: frozenset[UUID], *, unclean: bool
) -> tuple[MetadataRecord, ...]:
    after = replace(
        broker,
        log_directories=broker.log_directories - failed,
        offline_directories=broker.offline_directories | (failed - broker.log_directories),
    )
    image = replace(image, brokers={**image.brokers, broker.broker_id: after})
    change = _registration_change(after, fenced=broker.fenced, in_controlled_shutdown=broker.in_controlled_shutdown)
    if after.log_directories != broker.log_directories:
        change = replace(change, log_directories=tuple(sorted(after.log_directories)))
    return (change, *changes_for_failed(image, broker.broker_id, failed, unclean_default=unclean))


def fence(image: MetadataImage, broker: BrokerRegistration, *, unclean: bool) -> tuple[MetadataRecord, ...]:
    change = _registration_change(broker, fenced=True, in_controlled_shutdown=broker.in_controlled_shutdown)
    return (change, *changes_without(image, broker.broker_id, unclean_default=unclean))


def unfence(image: MetadataImage, broker: BrokerRegistration, *, unclean: bool) -> tuple[MetadataRecord, ...]:
    change = _registration_change(broker, fenced=False, in_controlled_shutdown=False)
    may_lead = leaders_allowed(image) | {broker.broker_id}
    return (change, *changes_for_offline(image, may_lead, unclean_default=unclean))


def allocate_producer_ids(image: MetadataImage, request: AllocateProducerIds) -> Outcome:
    error = check_epoch(image, request.broker_id, request.broker_epoch)
    if error != ErrorCode.none:
        return Outcome(response=refusal(request, error))
    start = image.next_producer_id
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=start + PRODUCER_ID_BLOCK,
    )
    response = AllocateProducerIdsResponse(
        error_code=ErrorCode.none, producer_id_start=start, producer_id_count=PRODUCER_ID_BLOCK
    )
    return Outcome(response=response, records=(record,))
