"""The application of a copier. The records of a poll are written to another topic, with the group's offsets, in one
transaction (consume, transform, produce; KIP-98, KIP-447).

Each copy has a header `copy` = CONSUMER/INCARNATION/NUMBER of its transaction, so that the final read can tell which
copies belong together. A producer that was fenced or does not know its state is replaced, as an application's
supervisor would do. Its successor with the same transactional.id ends the transaction that it left open.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

from runlog.records.history import TransactionOutcome
from runlog.records.member import MemberSpec
from workloads.clients import make_copier
from workloads.clients.member_protocol import Copier, CopierSetup, CopyAborted, CopyUnknown
from workloads.clients.protocol import ReceivedRecord
from workloads.members.journal import MemberJournal
from workloads.members.loop import CONNECT_TIMEOUT_S, POLL_S, positions_after, setup_of

RENEWALS_MAX: Final = 50  # producers that a process uses up before it gives up
RENEWAL_PAUSE_S: Final = 0.5


def run_copier(spec: MemberSpec, journal: MemberJournal, stop: threading.Event) -> None:
    number = 0
    for renewal in range(RENEWALS_MAX):
        copier = make_copier(spec.client, _setup(spec), journal)
        try:
            copier.connect(CONNECT_TIMEOUT_S)
            if not renewal:
                journal.started()
            number = _copy_until_unknown(spec, copier, journal, stop, number)
        finally:
            copier.close()
        if stop.is_set():
            journal.left()
            return
        stop.wait(RENEWAL_PAUSE_S)
    raise RuntimeError(f"{RENEWALS_MAX} producers were of no more use, one after the other")


def _setup(spec: MemberSpec) -> CopierSetup:
    return CopierSetup(
        member=setup_of(spec),
        transactional_id=spec.transactional_id,
        producer_properties=spec.producer_properties,
    )


def _copy_until_unknown(
    spec: MemberSpec, copier: Copier, journal: MemberJournal, stop: threading.Event, number: int
) -> int:
    """Returns the number of the last transaction. Returns early if the producer cannot be used any more."""
    while not stop.is_set():
        polled = copier.poll(POLL_S)
        if not polled.records:
            continue
        number += 1
        journal.transaction_began(number, len(polled.records))
        journal.delivered(
            polled.records, polled.polled_ns
        )  # before the commit: a kill in between must not look like a loss
        asked_ns = time.monotonic_ns()
        try:
            _send_all(spec, copier, polled.records, number)
            asked_ns = time.monotonic_ns()
            copier.commit(positions_after(polled.records))
        except CopyAborted as error:
            journal.transaction(number, TransactionOutcome.ABORTED, asked_ns=asked_ns, reason=str(error))
            continue
        except CopyUnknown as error:
            journal.transaction(number, TransactionOutcome.UNKNOWN, asked_ns=asked_ns, reason=str(error))
            journal.renewed(str(error))
            return number
        journal.transaction(number, TransactionOutcome.COMMITTED, asked_ns=asked_ns)
        journal.committed(positions_after(polled.records))
    return number


def _send_all(spec: MemberSpec, copier: Copier, records: Sequence[ReceivedRecord], number: int) -> None:
    copier.begin()
    header = f"{spec.consumer}/{spec.incarnation}/{number}".encode()
    for record in records:
        copier.send(spec.copy_to, record, header)
    if spec.processing_us:
        time.sleep(len(records) * spec.processing_us / 1e6)
