"""The application of a member of a share group: poll, work, acknowledge, until it is told to stop.

With `commit: auto` the acknowledgement is implicit: the next poll accepts what the last one gave. With `commit: after`
each record is acknowledged when it is processed. Then `releases_every` and `rejects_every` choose records that are
released once, or rejected. A stop (SIGTERM) is noticed between two slices of work. The records that were not processed
are released when the member leaves.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from runlog.records.history import AcknowledgementKind
from runlog.records.member import MemberSpec
from workloads.clients import make_share_member
from workloads.clients.member_protocol import ShareMember, SharePoll, ShareSetup
from workloads.members.journal import MemberJournal
from workloads.members.loop import CONNECT_TIMEOUT_S, slices

POLL_S: Final = 0.2  # a longer poll costs nothing here, because a fetch of a share group is not sent ahead


def share_setup_of(spec: MemberSpec) -> ShareSetup:
    return ShareSetup(
        bootstrap_servers=spec.bootstrap_servers,
        topics=(spec.topic,),
        group_id=spec.group_id,
        properties=spec.properties,
        is_implicit=spec.commit == "auto",
    )


def run_share_member(spec: MemberSpec, journal: MemberJournal, stop: threading.Event) -> None:
    """Until `stop`. Raises what the client raises when it cannot go on."""
    member = make_share_member(spec.client, share_setup_of(spec), journal)
    try:
        member.connect(CONNECT_TIMEOUT_S)
        journal.started()
        while not stop.is_set():
            polled = member.poll(POLL_S)
            if polled.records:
                journal.share_polled(polled)
                _work(spec, member, journal, polled, stop)
    finally:
        member.close()
    journal.left()


def _work(
    spec: MemberSpec, member: ShareMember, journal: MemberJournal, polled: SharePoll, stop: threading.Event
) -> None:
    counts = {(record[1], record[2]): count for record, count in zip(polled.records, polled.counts, strict=True)}
    for part in slices(polled.records, spec.processing_us):
        if stop.is_set():
            return
        time.sleep(len(part) * spec.processing_us / 1e6)
        journal.delivered(part, polled.polled_ns)
        if spec.commit == "after":
            for record in part:
                member.acknowledge(record, decision(spec, record[2], counts[record[1], record[2]]))


def decision(spec: MemberSpec, offset: int, count: int) -> AcknowledgementKind:
    """What the application says of a record that it was given for the `count`-th time."""
    if spec.rejects_every and offset % spec.rejects_every == 0:
        return AcknowledgementKind.REJECT
    if spec.releases_every and offset % spec.releases_every == 0 and count == 1:
        return AcknowledgementKind.RELEASE
    return AcknowledgementKind.ACCEPT
