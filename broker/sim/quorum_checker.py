"""Invariants of the metadata quorum and the controller, looked at after every event of a broker.

Election safety, one vote per epoch and voter, log matching, nothing committed is lost, the high watermark never falls.
Replays what is committed, entry by entry, onto an image of its own: the one truth about leaders and ISRs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.controller.elections import is_unclean_allowed
from broker.controller.image import NO_LEADER, MetadataImage, replay
from broker.controller.record_codec import decode_records
from broker.quorum.state_file import decode_quorum_state
from broker.quorum.types import LogEntry
from broker.sim.coverage import Coverage

if TYPE_CHECKING:
    from broker.sim.cluster import Life

Fail = Callable[[str, str], None]


class QuorumChecker:
    def __init__(
        self,
        *,
        fail: Fail,
        coverage: Coverage,
        on_image: Callable[[MetadataImage, MetadataImage], None],
        on_vote: Callable[[int, int], None],  # (voter, candidate): of a vote that was not seen yet
    ) -> None:
        self._fail, self._coverage, self._on_image, self._on_vote = fail, coverage, on_image, on_vote
        self.image = MetadataImage()
        self._leaders: dict[int, int] = {}
        self._votes: dict[tuple[int, int], int] = {}
        self._committed: list[LogEntry] = []
        self._images: list[MetadataImage] = []  # after each of them
        self._images_seen: dict[int, MetadataImage] = {}  # by node
        # (offset, epoch) -> (epoch of the entry before, checksum): equal keys must mean equal logs up to there.
        self._entries: dict[tuple[int, int], tuple[int, int]] = {}
        self._mirrors: dict[int, list[LogEntry]] = {}
        self._seen: dict[int, tuple[object, ...]] = {}
        self._was_active: int | None = None

    def life_began(self, node_id: int) -> None:
        self._seen.pop(node_id, None)

    def quorum_state_written(self, node_id: int, text: str) -> None:
        state = decode_quorum_state(text)
        self._note_vote(node_id, state.leader_epoch, state.voted_id)

    def _note_vote(self, node_id: int, epoch: int, voted_id: int) -> None:
        """What was given counts, be it on the disk or in memory only: the candidate has heard of it."""
        if voted_id < 0:
            return
        earlier = self._votes.get((node_id, epoch))
        if earlier is None:
            self._votes[(node_id, epoch)] = voted_id
            self._on_vote(node_id, voted_id)
        elif earlier != voted_id:
            self._fail("one vote per epoch", f"voter {node_id} voted for {earlier} and for {voted_id} in epoch {epoch}")

    def _check_image(self, life: Life) -> None:
        """Two brokers that have the entries up to the same offset, one by one or by a snapshot, have the same image."""
        assert life.broker is not None
        image = life.broker.metadata.image
        if self._images_seen.get(life.node_id) is image or image.offset < 0:
            return
        self._images_seen[life.node_id] = image
        expected = self._images[image.offset] if image.offset < len(self._images) else None
        if expected != image:
            self._fail(
                "equal offsets mean equal images",
                f"node {life.node_id} at offset {image.offset} has {image}, the entries say {expected}",
            )

    def check(self, life: Life) -> None:
        assert life.broker is not None
        quorum = life.broker.metadata.quorum
        end = quorum.log_end_offset
        mirror = self._mirrors.setdefault(life.node_id, [])
        start = quorum.log_start_offset
        seen = (quorum.epoch, quorum.role_name, end, quorum.high_watermark, start, quorum.voted_id)
        before = self._seen.get(life.node_id)
        if before is None or before[5] != quorum.voted_id or before[0] != quorum.epoch:
            self._note_vote(life.node_id, quorum.epoch, quorum.voted_id)
        if before == seen and (end == start or quorum.last_entry is mirror[-1]):
            return
        self._update_mirror(life, mirror)
        quorum.check_invariants()
        if before is not None and quorum.high_watermark < before[3]:  # type: ignore[operator]  # both are ints
            self._fail(
                "quorum high watermark never falls", f"node {life.node_id}: {before[3]} to {quorum.high_watermark}"
            )
        self._seen[life.node_id] = seen
        self._note_leader(life, mirror)
        self._commit(life, quorum.high_watermark, mirror)
        self._check_image(life)

    def _update_mirror(self, life: Life, mirror: list[LogEntry]) -> None:
        assert life.broker is not None
        quorum = life.broker.metadata.quorum
        start = quorum.log_start_offset
        if start > len(self._committed):
            self._fail(
                "a snapshot holds committed entries only",
                f"node {life.node_id} has dropped {start} entries, {len(self._committed)} are committed",
            )
        # What a snapshot stands for is what was committed; that its image is right is looked at by itself.
        entries = (*self._committed[:start], *quorum.read_log())
        common = min(len(entries), len(mirror))
        while common and entries[common - 1] != mirror[common - 1]:
            common -= 1
        if common < len(mirror):
            self._coverage.reached("metadata truncated")
            del mirror[common:]
        for entry in entries[common:]:
            previous = mirror[-1].epoch if mirror else -1
            value = (previous, zlib.crc32(entry.payload))
            if self._entries.setdefault((entry.offset, entry.epoch), value) != value:
                self._fail(
                    "metadata log matching",
                    f"node {life.node_id}: offset {entry.offset} of epoch {entry.epoch} differs from another log's",
                )
            mirror.append(entry)

    def _note_leader(self, life: Life, mirror: list[LogEntry]) -> None:
        assert life.broker is not None
        quorum = life.broker.metadata.quorum
        if not quorum.is_leader:
            return
        known = self._leaders.get(quorum.epoch)
        if known is None:
            self._leaders[quorum.epoch] = life.node_id
            length = len(self._committed)
            if mirror[:length] != self._committed:
                self._fail(
                    "committed metadata is never lost",
                    f"node {life.node_id} leads epoch {quorum.epoch} without all {length} committed entries",
                )
        elif known != life.node_id:
            self._fail("one controller per epoch", f"nodes {known} and {life.node_id} both lead epoch {quorum.epoch}")
        if life.broker.metadata.controller.is_active and self._was_active != quorum.epoch:
            if self._was_active is not None:
                self._coverage.reached("controller failover")
            self._was_active = quorum.epoch

    def _commit(self, life: Life, high_watermark: int, mirror: list[LogEntry]) -> None:
        known = min(high_watermark, len(self._committed))
        if known and mirror[known - 1] != self._committed[known - 1]:
            self._fail(
                "committed metadata is never changed",
                f"node {life.node_id} has committed another entry at offset {known - 1}",
            )
        for entry in mirror[len(self._committed) : high_watermark]:
            self._committed.append(entry)
            records = () if entry.is_control else decode_records(entry.payload)
            old = self.image
            self.image = replay(old, records, offset=entry.offset, epoch=entry.epoch)
            self._images.append(self.image)
            self._check_partitions(old)
            self._on_image(old, self.image)

    def _check_partitions(self, old: MetadataImage) -> None:
        """What the controller may never write."""
        if old.topics is self.image.topics:
            return
        for name, topic in self.image.topics.items():
            before = old.topics.get(name)
            if before is None or before.topic_id != topic.topic_id:
                continue
            for index, (was, now) in enumerate(zip(before.partitions, topic.partitions, strict=False)):
                if was is now:
                    continue
                where = f"{name}-{index}"
                if now.leader_epoch < was.leader_epoch:
                    self._fail("leader epochs only grow", f"{where}: {was.leader_epoch} to {now.leader_epoch}")
                if now.leader not in (NO_LEADER, was.leader) and now.leader_epoch == was.leader_epoch:
                    self._fail("a new leader has a new epoch", f"{where}: {was.leader} to {now.leader}")
                if now.leader != NO_LEADER and now.leader not in now.isr:
                    self._fail("the leader is in its ISR", f"{where}: leader {now.leader}, ISR {now.isr}")
                if now.leader not in (NO_LEADER, was.leader) and now.leader not in was.isr:
                    self._coverage.reached("unclean election")
                    if not is_unclean_allowed(old, name, False) and not is_unclean_allowed(self.image, name, False):
                        self._fail(
                            "no unclean election unless allowed", f"{where}: {now.leader} was not in the ISR {was.isr}"
                        )
