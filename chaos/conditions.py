"""Conditions that a step of a timeline waits for.

`isr == 1` (any of == != < <= > >=) · `leader changed` (since the last step that waited for it, or the start) ·
`no leader` · `leader gone` (none, or another one than before) · `has leader` · `controller changed` (likewise) ·
`broker stopped` (one that ran when the wait began) · `high watermark lags by 100` · `acked >= 5000` ·
`acked grew by 500` (since this step began to wait) · `log directory failed` (a broker goes on without one of its log
directories: its replicas there are out of sync, and its others in sync).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from chaos.ports.cluster import ClusterPort
from chaos.targets import PartitionOfInterest

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ISR = re.compile(r"isr (==|!=|<=|>=|<|>) (\d+)")
_ACKED = re.compile(r"acked >= (\d+)")
_GREW = re.compile(r"acked grew by (\d+)")
_LAG = re.compile(r"high watermark lags by (\d+)")
_LEADER, _CONTROLLER, _STOPPED = "leader changed", "controller changed", "broker stopped"
_DIRECTORY_FAILED = "log directory failed"
_NO_LEADER, _HAS_LEADER, _LEADER_GONE = "no leader", "has leader", "leader gone"


@dataclass(slots=True, kw_only=True)
class Observed:
    """The earlier state that conditions compare with."""

    leader: int | None
    controller: int | None = None
    running: frozenset[int] = frozenset()  # brokers that ran when this step began to wait
    acked_at_start_of_wait: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """`holds` returns whether the condition holds, and what was seen. The latter goes into the record."""

    text: str
    holds: Callable[[ClusterPort, PartitionOfInterest, Observed], tuple[bool, dict[str, object]]]


def parse(text: str) -> Condition:
    """Raises ValueError that lists the possible forms."""
    words = " ".join(text.split())
    if words in _BY_TEXT:
        return Condition(text=words, holds=_BY_TEXT[words])
    if found := _ISR.fullmatch(words):
        return _isr(words, _COMPARE[found[1]], int(found[2]))
    if found := _ACKED.fullmatch(words):
        return _acked(words, int(found[1]))
    if found := _GREW.fullmatch(words):
        return _grew(words, int(found[1]))
    if found := _LAG.fullmatch(words):
        return _lags(words, int(found[1]))
    raise ValueError(
        f"{text!r} is no condition: isr == N, leader changed, no leader, leader gone, has leader, controller changed, "
        "broker stopped, log directory failed, high watermark lags by N, acked >= N, acked grew by N"
    )


def _leader_changed(port: ClusterPort, of: PartitionOfInterest, observed: Observed) -> tuple[bool, dict[str, object]]:
    leader = port.brokers.leader(of.topic, of.partition)
    before = observed.leader
    if leader is None or leader == before:
        return False, {"leader": leader}
    observed.leader = leader
    return True, {"leader": leader, "before": before}


def _no_leader(port: ClusterPort, of: PartitionOfInterest, observed: Observed) -> tuple[bool, dict[str, object]]:
    leader = port.brokers.leader(of.topic, of.partition)
    return leader is None, {"leader": leader}


def _leader_gone(port: ClusterPort, of: PartitionOfInterest, observed: Observed) -> tuple[bool, dict[str, object]]:
    leader = port.brokers.leader(of.topic, of.partition)
    return leader is None or leader != observed.leader, {"leader": leader, "before": observed.leader}


def _has_leader(port: ClusterPort, of: PartitionOfInterest, observed: Observed) -> tuple[bool, dict[str, object]]:
    leader = port.brokers.leader(of.topic, of.partition)
    return leader is not None and port.brokers.is_running(leader), {"leader": leader}


def _controller_changed(
    port: ClusterPort, of: PartitionOfInterest, observed: Observed
) -> tuple[bool, dict[str, object]]:
    controller, before = port.brokers.controller(), observed.controller
    if controller is None or controller == before or not port.brokers.is_running(controller):
        return False, {"controller": controller}
    observed.controller = controller
    return True, {"controller": controller, "before": before}


def _stopped(port: ClusterPort, of: PartitionOfInterest, observed: Observed) -> tuple[bool, dict[str, object]]:
    gone = sorted(broker for broker in observed.running if not port.brokers.is_running(broker))
    return bool(gone), {"stopped": gone}


def _directory_failed(port: ClusterPort, of: PartitionOfInterest, observed: Observed) -> tuple[bool, dict[str, object]]:
    """The first broker that tells of a failed directory counts, with those partitions of which it has a log."""
    for broker in sorted(observed.running):
        if not (failed := port.log_directories.failed(broker)):
            continue
        is_in_sync: dict[bool, dict[int, bool]] = {True: {}, False: {}}  # The key says whether the directory failed.
        for partition in range(port.topics.partition_count(of.topic)):
            if (log := port.files.partition_directory(broker, of.topic, partition)) is not None:
                is_in_sync[log.parent.resolve() in failed][partition] = broker in port.brokers.isr(of.topic, partition)
        lost, kept = is_in_sync[True], is_in_sync[False]
        seen: dict[str, object] = {
            "broker": broker,
            "failed": sorted(map(str, failed)),
            "out_of_sync_there": [partition for partition, is_member in lost.items() if not is_member],
            "in_sync_elsewhere": [partition for partition, is_member in kept.items() if is_member],
        }
        return bool(lost and kept) and not any(lost.values()) and all(kept.values()), seen
    return False, {"failed": []}


def _isr(text: str, compare: Callable[[int, int], bool], count: int) -> Condition:
    def holds(port: ClusterPort, of: PartitionOfInterest, observed: Observed) -> tuple[bool, dict[str, object]]:
        isr = list(port.brokers.isr(of.topic, of.partition))
        return bool(isr) and compare(len(isr), count), {"isr": isr}  # empty: nobody answered

    return Condition(text=text, holds=holds)


def _acked(text: str, count: int) -> Condition:
    def holds(port: ClusterPort, of: PartitionOfInterest, observed: Observed) -> tuple[bool, dict[str, object]]:
        acked = port.load.acked
        return acked >= count, {"acked": acked}

    return Condition(text=text, holds=holds)


def _grew(text: str, count: int) -> Condition:
    def holds(port: ClusterPort, of: PartitionOfInterest, observed: Observed) -> tuple[bool, dict[str, object]]:
        grown = port.load.acked - observed.acked_at_start_of_wait
        return grown >= count, {"acked_since": grown}

    return Condition(text=text, holds=holds)


def _lags(text: str, count: int) -> Condition:
    def holds(port: ClusterPort, of: PartitionOfInterest, observed: Observed) -> tuple[bool, dict[str, object]]:
        lag = port.files.high_watermark_lag(of.topic, of.partition)
        return lag is not None and lag >= count, {"high_watermark_lag": lag}

    return Condition(text=text, holds=holds)


_BY_TEXT: dict[str, Callable[[ClusterPort, PartitionOfInterest, Observed], tuple[bool, dict[str, object]]]] = {
    _LEADER: _leader_changed,
    _NO_LEADER: _no_leader,
    _LEADER_GONE: _leader_gone,
    _HAS_LEADER: _has_leader,
    _CONTROLLER: _controller_changed,
    _STOPPED: _stopped,
    _DIRECTORY_FAILED: _directory_failed,
}


def is_of_files(text: str) -> bool:
    """Whether the condition can be checked only with access to the brokers' files."""
    return bool(_LAG.fullmatch(text)) or text == _DIRECTORY_FAILED


def is_seen_by_clients(text: str) -> bool:
    """Whether Metadata and the load are enough to check the condition. Other conditions need processes and their files,
    or the quorum."""
    return not (is_of_files(text) or text in (_STOPPED, _CONTROLLER))
