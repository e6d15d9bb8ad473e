"""The application of a member: poll, process, commit, as its entry in the workload says, until it is told to stop.

A stop (SIGTERM) is noticed between two slices of work. Records that were polled and not processed stay undone, and the
member leaves its group. The journal says what it did.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Final

from runlog.records.member import MemberSpec
from workloads.clients import make_member
from workloads.clients.member_protocol import CommitRefused, GroupMember, MemberSetup, Positions
from workloads.clients.protocol import ReceivedRecord
from workloads.members.journal import MemberJournal

CONNECT_TIMEOUT_S: Final = 40.0  # the first transaction of a cluster waits until its internal topic is there
POLL_S: Final = 0.05
SLICE_US: Final = 20_000  # the work between two lines of the journal


def setup_of(spec: MemberSpec) -> MemberSetup:
    return MemberSetup(
        bootstrap_servers=spec.bootstrap_servers,
        topics=(spec.topic,),
        group_id=spec.group_id,
        properties=spec.properties,
        start=spec.start,
        is_auto_commit=spec.commit == "auto" and not spec.is_copier,
        runtime=spec.runtime,
    )


def run_member(spec: MemberSpec, journal: MemberJournal, stop: threading.Event) -> None:
    """Until `stop`. Raises what the client raises when it cannot go on."""
    member = make_member(spec.client, setup_of(spec), journal)
    try:
        member.connect(CONNECT_TIMEOUT_S)
        journal.started()
        while not stop.is_set():
            polled = member.poll(POLL_S)
            if polled.records:
                _work(spec, member, journal, polled.records, polled.polled_ns, stop)
    finally:
        member.close()
    journal.left()


def _work(
    spec: MemberSpec,
    member: GroupMember,
    journal: MemberJournal,
    records: Sequence[ReceivedRecord],
    polled_ns: int,
    stop: threading.Event,
) -> None:
    if spec.commit == "before":
        _commit(member, journal, positions_after(records))
    for part in slices(records, spec.processing_us):
        if stop.is_set():
            return
        time.sleep(len(part) * spec.processing_us / 1e6)
        journal.delivered(part, polled_ns)
        if spec.commit == "auto":
            member.processed(positions_after(part))
    if spec.commit == "after":
        _commit(member, journal, positions_after(records))


def _commit(member: GroupMember, journal: MemberJournal, positions: Positions) -> None:
    try:
        member.commit(positions)
    except CommitRefused:
        return  # the next owner begins at the earlier commit, which is lawful and in no journal
    journal.committed(positions)


def slices(records: Sequence[ReceivedRecord], processing_us: int) -> Iterator[Sequence[ReceivedRecord]]:
    """Parts that take about SLICE_US each; everything at once when the work takes no time."""
    size = max(1, SLICE_US // processing_us) if processing_us else len(records)
    for first in range(0, len(records), size):
        yield records[first : first + size]


def positions_after(records: Sequence[ReceivedRecord]) -> Positions:
    """Records of a partition come in order, so the last one counts."""
    return {(topic, partition): offset + 1 for topic, partition, offset, _, _ in records}
