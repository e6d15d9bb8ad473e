"""The share groups of a cell: their settings before the members start, and where they stand at the end.

A share group is done when its coordinator says that no record is left (KIP-1226): each one was accepted, rejected, or
archived after the last delivery that is allowed. Shown by tests/harness/test_harness_share_groups.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from broker.door.clients import Admin, KafkaError, ShareOffset, TopicPartition
from harness.errors import CellError
from runlog.records.lines import MEMBER_JOURNAL, RecordWriter, own_lines
from runlog.records.member import MemberSpec
from runlog.records.member_journal import RecordsDelivered, ShareEnd, SharePolled
from workloads.members.transcribe import SHARE_ENDS

ASK_TIMEOUT_MS: Final = 5_000
PREPARE_TIMEOUT_MS: Final = 30_000
OFFSET_RESET: Final = "share.auto.offset.reset"


def settings_of(start: str, settings: Mapping[str, str]) -> dict[str, str]:
    """What a share group gets before its members start."""
    return {OFFSET_RESET: start, **settings}


def held_by(journal: Path) -> int:
    """How many records of a share group this start of a member has got and not processed, by its journal."""
    held: set[tuple[str, int, int]] = set()
    for line in own_lines(journal, MEMBER_JOURNAL):
        if isinstance(line, SharePolled):
            held = {(topic, partition, offset) for topic, partition, offset, _ in line.records}
        elif isinstance(line, RecordsDelivered):
            held -= {(topic, partition, offset) for topic, partition, offset, *_ in line.records}
    return len(held)


class ShareOffsets(Protocol):
    """As Admin(..).share_groups."""

    def offsets(self, group_id: str) -> Mapping[TopicPartition, ShareOffset]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    group_id: str
    topic: str
    settings: Mapping[str, str]


class ShareGroups:
    """Nothing happens in a cell without share groups."""

    def __init__(
        self, specs: Sequence[MemberSpec], bootstrap_servers: str, access: Mapping[str, str], directory: Path
    ) -> None:
        self._groups = {
            spec.group_id: _Group(
                group_id=spec.group_id,
                topic=spec.topic,
                settings=settings_of(spec.start, spec.group_settings),
            )
            for spec in specs
            if spec.is_share
        }
        self._properties = {**access, "bootstrap.servers": bootstrap_servers}
        self._directory = directory

    def prepare(self) -> None:
        """Without this a group begins at the end of the log, and misses what comes before its first member."""
        if not self._groups:
            return
        try:
            with Admin({**self._properties, "default.api.timeout.ms": PREPARE_TIMEOUT_MS}) as admin:
                for group in self._groups.values():
                    admin.alter_configs("group", group.group_id, group.settings)
        except KafkaError as error:
            raise CellError(f"the settings of a share group were refused: {error}") from error

    def missing(self, end_offset: Callable[[str, int], int | None], partitions: int) -> str:
        """What is not done yet; empty when everything is. What the coordinators say is noted for the report."""
        ends: dict[str, dict[int, int]] = {}
        for topic in {group.topic for group in self._groups.values()}:
            for partition in range(partitions):
                end = end_offset(topic, partition)
                if end is None:
                    return f"partition {partition} of {topic}: its end is not known"
                ends.setdefault(topic, {})[partition] = end
        if not ends:
            return ""
        try:
            with Admin({**self._properties, "default.api.timeout.ms": ASK_TIMEOUT_MS}) as admin:
                return self.missing_of(admin.share_groups, ends)
        except KafkaError as error:
            return f"a share group cannot be asked where it stands: {error}"

    def missing_of(self, shares: ShareOffsets, ends: Mapping[str, Mapping[int, int]]) -> str:
        """`ends`: by topic and partition, where its log ends."""
        problems: list[str] = []
        with RecordWriter(self._directory / SHARE_ENDS, MEMBER_JOURNAL) as writer:
            for group in self._groups.values():
                found = shares.offsets(group.group_id)
                for partition, end in sorted(ends.get(group.topic, {}).items()):
                    at = found.get(TopicPartition(group.topic, partition))
                    if at is None:
                        if end:
                            problems.append(f"share group {group.group_id} has not begun with partition {partition}")
                        continue
                    writer.append(
                        ShareEnd(
                            mono_ns=time.monotonic_ns(),
                            group=group.group_id,
                            partition=partition,
                            start_offset=at.start_offset,
                            lag=at.lag,
                        )
                    )
                    if at.lag is None and at.start_offset < end:
                        problems.append(f"share group {group.group_id}, partition {partition}: no lag is told")
                    elif at.lag:
                        problems.append(
                            f"share group {group.group_id}, partition {partition}: {at.lag} records are not done, from "
                            f"offset {at.start_offset} on"
                        )
        return problems[0] if problems else ""
