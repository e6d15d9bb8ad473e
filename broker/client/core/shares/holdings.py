"""The records that a share consumer has acquired, and what the application decided about each.

    acquired --take--> delivered --acknowledge--> acknowledged --flush--> outbox --> in flight --> confirmed or failed
                           ^                                                             | RENEW is confirmed
                           +-------------------------------------------------------------+ and given out once more

The outbox and the request in flight are those of the session. Shown by
tests/broker_client/test_client_share_fetcher.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError
from broker.client.core.shares.session import ShareSession
from broker.client.core.shares.values import AcknowledgeType, Acks, Outcome, Place, ShareRecord
from broker.wire.errors import ErrorCode


@dataclass(slots=True, kw_only=True, eq=False)
class Lot:
    """Acquired records of one partition that wait for the application."""

    session: ShareSession
    place: Place
    partition: TopicPartition
    records: deque[ShareRecord]
    lock_end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Delivered:
    session: ShareSession
    place: Place
    record: ShareRecord


_Key = tuple[TopicPartition, int]  # partition, offset


class Holdings:
    def __init__(self) -> None:
        self.names: dict[UUID, str] = {}  # The names of topics.
        self._lots: deque[Lot] = deque()
        self._delivered: dict[_Key, _Delivered] = {}
        self._acknowledged: dict[_Key, tuple[_Delivered, AcknowledgeType]] = {}
        self._renewing: dict[_Key, _Delivered] = {}
        self._renewed: deque[_Delivered] = deque()
        self._outcomes: deque[Outcome] = deque()

    # -- records for the application ------------------------------------------------------------------------------

    @property
    def has_waiting(self) -> bool:
        """Whether records wait for the application."""
        return bool(self._lots or self._renewed)

    @property
    def unacknowledged(self) -> int:
        return len(self._delivered)

    def add(self, lot: Lot) -> None:
        lot.session.held += len(lot.records)
        self._lots.append(lot)

    def take(self, limit: int, now_ms: int) -> list[ShareRecord]:
        """Up to `limit` records, renewed ones first. Records whose lock has ended are dropped: the broker offers them
        again, because its clock of this lock began earlier."""
        self._drop([lot for lot in self._lots if now_ms >= lot.lock_end_ms])
        taken: list[ShareRecord] = []
        while self._renewed and len(taken) < limit:
            self._deliver(self._renewed.popleft(), taken)
        while self._lots and len(taken) < limit:
            lot = self._lots[0]
            while lot.records and len(taken) < limit:
                record = lot.records.popleft()
                self._deliver(_Delivered(session=lot.session, place=lot.place, record=record), taken)
            if not lot.records:
                self._lots.popleft()
        return taken

    def _deliver(self, what: _Delivered, taken: list[ShareRecord]) -> None:
        key = TopicPartition(what.record.topic, what.record.partition), what.record.offset
        old = self._delivered.pop(key, None)
        if old is not None:  # its lock or its session has ended, and the application has not acknowledged it
            old.session.held -= 1
        self._delivered[key] = what
        taken.append(what.record)

    # -- acknowledgements -----------------------------------------------------------------------------------------

    def acknowledge(self, partition: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        key = (TopicPartition(*partition), offset)
        what = self._delivered.pop(key, None) or self._acknowledged.get(key, (None,))[0]
        if what is None or kind is AcknowledgeType.GAP:
            text = f"{partition[0]}-{partition[1]} at offset {offset}: no record that waits for an acknowledgement"
            raise KafkaError(-1, text, name="LOCAL_STATE")
        self._acknowledged[key] = (what, kind)

    def acknowledge_all(self, kind: AcknowledgeType) -> None:
        self._acknowledged |= {key: (what, kind) for key, what in self._delivered.items()}
        self._delivered.clear()

    def flush(self) -> None:
        """Puts the acknowledgements into the outboxes. Those of lost sessions fail."""
        late: dict[ShareSession, dict[Place, dict[int, AcknowledgeType]]] = {}
        for key, (what, kind) in self._acknowledged.items():
            session = what.session
            session.held -= 1
            if session.is_lost:
                late.setdefault(session, {}).setdefault(what.place, {})[key[1]] = kind
                continue
            session.put(what.place, key[1], kind)
            if kind is AcknowledgeType.RENEW:
                self._renewing[key] = what
        self._acknowledged.clear()
        for session, acks in late.items():
            self.failed(acks, session_is_over(session.node))

    def confirmed(self, place: Place, types: Mapping[int, AcknowledgeType]) -> None:
        self._tell(place, types, None)
        partition = self.partition(place)
        for offset, kind in types.items():
            what = self._renewing.pop((partition, offset), None) if kind is AcknowledgeType.RENEW else None
            if what is not None:
                what.session.held += 1
                self._renewed.append(what)

    def failed(self, acks: Acks, error: KafkaError) -> None:
        for place, types in acks.items():
            partition = self.partition(place)
            for offset, kind in types.items():
                if kind is AcknowledgeType.RENEW:
                    self._renewing.pop((partition, offset), None)
            self._tell(place, types, error)

    def _tell(self, place: Place, types: Mapping[int, AcknowledgeType], error: KafkaError | None) -> None:
        told = {offset: kind for offset, kind in types.items() if kind is not AcknowledgeType.GAP}
        if told:
            self._outcomes.append(Outcome(partition=self.partition(place), types=told, error=error))

    def take_outcomes(self) -> list[Outcome]:
        found = list(self._outcomes)
        self._outcomes.clear()
        return found

    # -- ends -----------------------------------------------------------------------------------------------------

    def release_others(self, is_wanted: Callable[[TopicPartition], bool]) -> None:
        """Releases records that wait for the application, if their partition is not wanted any more."""
        others = [lot for lot in self._lots if not is_wanted(lot.partition)]
        for lot in others:
            for record in lot.records:
                lot.session.put(lot.place, record.offset, AcknowledgeType.RELEASE)
        self._drop(others)

    def session_lost(self, session: ShareSession) -> None:
        """The broker offers the records of this session again. Those that wait here are dropped."""
        self._drop([lot for lot in self._lots if lot.session is session])
        for what in [each for each in self._renewed if each.session is session]:
            session.held -= 1
            self._renewed.remove(what)

    def _drop(self, lots: Iterable[Lot]) -> None:
        for lot in lots:
            lot.session.held -= len(lot.records)
            self._lots.remove(lot)

    def partition(self, place: Place) -> TopicPartition:
        return TopicPartition(self.names.get(place[0], str(place[0])), place[1])

    def check_invariants(self, sessions: Iterable[ShareSession]) -> None:
        assert not self._delivered.keys() & self._acknowledged.keys(), "acknowledged, and not acknowledged"
        assert all(lot.records and not lot.session.is_lost for lot in self._lots)
        for session in sessions:
            waiting = sum(len(lot.records) for lot in self._lots if lot.session is session)
            here = (*self._delivered.values(), *(what for what, _ in self._acknowledged.values()), *self._renewed)
            given = sum(what.session is session for what in here)
            assert session.held == waiting + given, f"broker {session.node} holds {session.held}"
        for (partition, offset), what in self._renewing.items():
            sent = what.session.in_flight.acks if what.session.in_flight is not None else {}
            in_outbox = offset in what.session.outbox.get(what.place, {})
            assert in_outbox or offset in sent.get(what.place, {}), f"{partition} {offset}: nobody renews it"


def session_is_over(node: int) -> KafkaError:
    return KafkaError(ErrorCode.share_session_not_found, f"the share session with broker {node} is over")
