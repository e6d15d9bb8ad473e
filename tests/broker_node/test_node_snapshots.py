"""When a snapshot is due, and when the log before it may go."""

from __future__ import annotations

from broker.node.cluster.snapshots import SnapshotConfig, SnapshotPolicy


def policy(**config: int) -> SnapshotPolicy:
    return SnapshotPolicy(SnapshotConfig(**config))


def test_bytes_since_the_last_snapshot_make_one_due() -> None:
    snapshots = policy(max_record_bytes=100, max_interval_ms=0)
    snapshots.committed(60, 1)
    assert not snapshots.is_due(10**12)
    snapshots.committed(40, 2)
    assert snapshots.is_due(2)
    snapshots.taken(3, has_dropped_prefix=False)
    assert not snapshots.is_due(10**12)


def test_the_age_of_the_first_new_entry_makes_one_due_and_nothing_new_never_does() -> None:
    snapshots = policy(max_interval_ms=1_000)
    assert snapshots.deadline_ms() is None
    assert not snapshots.is_due(10**12)
    snapshots.committed(1, 50)
    snapshots.committed(1, 900)
    assert snapshots.deadline_ms() == 1_050
    assert not snapshots.is_due(1_049)
    assert snapshots.is_due(1_050)
    snapshots.taken(1_050, has_dropped_prefix=False)
    assert snapshots.deadline_ms() is None


def test_the_log_is_shortened_when_it_is_too_large_or_too_old() -> None:
    snapshots = policy(retention_bytes=1_000, retention_ms=500)
    snapshots.committed(10, 0)
    assert not snapshots.drops_prefix(1_000, 499)
    assert snapshots.drops_prefix(1_001, 0)
    assert snapshots.drops_prefix(10, 500)
    snapshots.taken(500, has_dropped_prefix=True)
    snapshots.committed(10, 600)
    assert not snapshots.drops_prefix(10, 1_099)
    assert snapshots.drops_prefix(10, 1_100)


def test_negative_limits_are_none() -> None:
    snapshots = policy(retention_bytes=-1, retention_ms=-1)
    snapshots.committed(10, 0)
    assert not snapshots.drops_prefix(10**12, 10**12)
