"""What the quorum keeps on disk survives a restart; a torn tail does not."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
from cluster_helper import Cluster

from broker.controller.record_codec import encode_records
from broker.controller.records import FeatureLevelRecord
from broker.node.__main__ import EXIT_ENVIRONMENT
from broker.node.cluster.meta_properties import StorageMismatchError
from broker.node.cluster.metadata_store import (
    METADATA_DIRECTORY,
    MetadataStore,
    StoredMetadata,
    check_record_format,
)
from broker.quorum.checkpoint import encode_snapshot
from broker.quorum.snapshots import Snapshot, SnapshotId
from broker.quorum.types import LogEntry, PersistedState
from broker.sim.disk import Death, SimDisk
from broker.sim.filesystem import SimFileSystem
from broker.sim.scheduler import Scheduler
from broker.wire.records import iter_batches

VOTERS = (1, 2, 3)


def entry(offset: int, epoch: int = 1, count: int = 1) -> LogEntry:
    values = tuple(b"value %d" % each for each in range(offset, offset + count))
    return LogEntry(offset=offset, epoch=epoch, is_control=False, values=values)


def opened(directory: Path) -> MetadataStore:
    return MetadataStore(directory, cluster_id="c", voters=VOTERS)


def test_state_and_entries_come_back(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.load() == StoredMetadata(state=PersistedState(), snapshot=None, log_start=None, entries=())
    store.persist_state(PersistedState(leader_epoch=4, leader_id=2, voted_id=3))
    store.append((entry(0), entry(1)))
    store.append((entry(2, epoch=2),))
    store.truncate(2)
    store.append((entry(2, epoch=3),))
    store.close()
    stored = opened(tmp_path).load()
    assert stored.state == PersistedState(leader_epoch=4, leader_id=2, voted_id=3)
    assert stored.entries == (entry(0), entry(1), entry(2, epoch=3))


def test_entries_of_several_values_are_cut_and_dropped_as_wholes(tmp_path: Path) -> None:
    first, second, third = entry(0, count=3), entry(3, count=2), entry(5, count=4)
    store = opened(tmp_path)
    store.load()
    store.append((first, second))
    store.append((third,))
    assert store.end_offset == 9
    store.truncate(5)
    assert store.end_offset == 5
    store.append((third,))
    store.write_snapshot(snapshot_of(3))
    store.drop_prefix(3)
    assert store.end_offset == 9
    store.append((entry(9),))
    store.close()
    assert names(tmp_path) == ["00000000000000000003-0000000001.checkpoint", "00000000000000000003.log"]
    again = opened(tmp_path)
    stored = again.load()
    assert (stored.log_start, stored.entries) == (
        SnapshotId(end_offset=3, epoch=1),
        (second, third, entry(9)),
    )
    assert again.end_offset == 10
    again.write_snapshot(snapshot_of(9))
    again.close()
    assert opened(tmp_path).load().entries == (entry(9),)
    again = opened(tmp_path)
    again.load()
    again.install_snapshot(snapshot_of(20))
    assert again.end_offset == 20
    again.append((entry(20, count=2),))
    again.truncate(20)
    assert again.end_offset == 20
    again.close()


def test_torn_tail_is_cut_at_every_byte(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.load()
    store.append((entry(0),))
    path = tmp_path / METADATA_DIRECTORY / "00000000000000000000.log"
    first_bytes = path.stat().st_size
    store.append((entry(1),))
    store.close()
    whole = path.read_bytes()
    for size in range(first_bytes, len(whole)):
        path.write_bytes(whole[:size])
        torn = opened(tmp_path)
        assert torn.load().entries == (entry(0),)
        assert path.stat().st_size == first_bytes
        torn.append((entry(1),))
        torn.close()
        assert path.read_bytes() == whole


def json_entry(offset: int) -> LogEntry:
    """As the version before this one wrote them."""
    value = b'[["FeatureLevelRecord",{"name":"metadata.version","level":30}]]'
    return LogEntry(offset=offset, epoch=1, is_control=False, values=(value,))


def test_a_directory_of_the_earlier_format_is_refused_and_kept(tmp_path: Path) -> None:
    election = LogEntry(offset=0, epoch=1, is_control=True, values=(b"",))
    (record,) = encode_records((FeatureLevelRecord(name="metadata.version", level=30),))
    store = opened(tmp_path)
    check_record_format(store.load(), tmp_path)
    store.append((election,))
    check_record_format(opened(tmp_path).load(), tmp_path)
    store.append((json_entry(1),))
    store.close()
    with pytest.raises(StorageMismatchError, match=r"__cluster_metadata-0: .* are JSON, .* empty log directories"):
        check_record_format(opened(tmp_path).load(), tmp_path)
    assert len(opened(tmp_path).load().entries) == 2
    other = tmp_path / "snapshot"
    other.mkdir()
    for values, is_refused in (((record, record), False), (json_entry(0).values, True)):
        store = opened(other)
        store.load()
        snapshot_id = SnapshotId(end_offset=4 + is_refused, epoch=1)
        store.install_snapshot(encode_snapshot(snapshot_id, values, last_timestamp_ms=5))
        store.close()
        with pytest.raises(StorageMismatchError) if is_refused else contextlib.nullcontext():
            check_record_format(opened(other).load(), other)


@pytest.mark.slow
def test_a_broker_says_what_to_do_with_a_directory_of_the_earlier_format(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, brokers=1)
    cluster.log_dir(1).mkdir()
    store = opened(cluster.log_dir(1))
    store.load()
    store.append((json_entry(0),))
    store.close()
    with contextlib.ExitStack() as ending:
        ending.callback(cluster.__exit__)
        cluster.start(1)
        assert cluster.processes[1].wait(60) == EXIT_ENVIRONMENT
    assert "Start the cluster with empty log directories" in cluster.stderr(1)


def snapshot_of(end_offset: int, epoch: int = 1) -> Snapshot:
    snapshot_id = SnapshotId(end_offset=end_offset, epoch=epoch)
    return encode_snapshot(snapshot_id, (b"[]", b"state"), last_timestamp_ms=5)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / METADATA_DIRECTORY).iterdir())


def filled(directory: Path, count: int) -> MetadataStore:
    store = opened(directory)
    store.load()
    store.append(tuple(entry(offset) for offset in range(count)))
    return store


def test_snapshot_and_the_log_behind_it_come_back(tmp_path: Path) -> None:
    store = filled(tmp_path, 6)
    store.write_snapshot(snapshot_of(4))
    store.drop_prefix(4)
    store.append((entry(6),))
    store.truncate(6)
    store.append((entry(6, epoch=2),))
    store.close()
    assert names(tmp_path) == ["00000000000000000004-0000000001.checkpoint", "00000000000000000004.log"]
    stored = opened(tmp_path).load()
    assert stored.snapshot == snapshot_of(4)
    assert stored.log_start == SnapshotId(end_offset=4, epoch=1)
    assert stored.entries == (entry(4), entry(5), entry(6, epoch=2))


def test_a_later_snapshot_takes_the_place_of_the_one_before_and_of_what_it_holds_of_the_log(tmp_path: Path) -> None:
    store = filled(tmp_path, 8)
    store.write_snapshot(snapshot_of(3))
    store.drop_prefix(3)
    store.write_snapshot(snapshot_of(6))
    store.close()
    stored = opened(tmp_path).load()
    assert (stored.snapshot, stored.log_start) == (snapshot_of(6), SnapshotId(end_offset=6, epoch=1))
    assert stored.entries == (entry(6), entry(7))
    assert names(tmp_path) == ["00000000000000000006-0000000001.checkpoint", "00000000000000000006.log"]


def test_an_installed_snapshot_replaces_the_log_also_when_the_crash_came_in_between(tmp_path: Path) -> None:
    store = filled(tmp_path, 5)
    store.install_snapshot(snapshot_of(9, epoch=3))
    store.append((entry(9, epoch=3),))
    store.close()
    assert opened(tmp_path).load().entries == (entry(9, epoch=3),)
    for end_offset, epoch in ((9, 3), (4, 2)):  # the log ends before, or holds another entry there
        other = tmp_path / f"crash-{end_offset}"
        other.mkdir()
        store = filled(other, 5)
        store.write_snapshot(snapshot_of(end_offset, epoch))
        store.close()
        stored = opened(other).load()
        assert stored.entries == ()
        assert stored.log_start == SnapshotId(end_offset=end_offset, epoch=epoch)


def test_a_damaged_snapshot_is_named(tmp_path: Path) -> None:
    store = filled(tmp_path, 5)
    store.write_snapshot(snapshot_of(4))
    store.close()
    path = tmp_path / METADATA_DIRECTORY / "00000000000000000004-0000000001.checkpoint"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:70], whole[:100] + b"?" + whole[101:], b""):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"00000004-0000000001\.checkpoint is damaged"):
            opened(tmp_path).load()
    path.unlink()
    store = opened(tmp_path)
    assert store.load().entries == tuple(entry(offset) for offset in range(5))
    store.close()


def test_a_log_without_the_snapshot_before_it_is_refused(tmp_path: Path) -> None:
    store = filled(tmp_path, 5)
    store.write_snapshot(snapshot_of(4))
    store.drop_prefix(4)
    store.close()
    (tmp_path / METADATA_DIRECTORY / "00000000000000000004-0000000001.checkpoint").unlink()
    with pytest.raises(ValueError, match="begins at offset 4, but there is no snapshot"):
        opened(tmp_path).load()


class Killed(BaseException):
    """No `except Exception` on the way may stop it."""


def test_what_a_killed_life_had_not_synced_is_on_the_disk_before_the_next_one_vouches_for_it() -> None:
    def die() -> None:
        raise Killed

    votes, ends = set[int](), set[int]()
    for operations in range(1, 20):
        for seed in range(10):
            disk = SimDisk(scheduler=Scheduler(), rng=random.Random(seed), name="disk")
            store = MetadataStore("data", cluster_id="c", voters=VOTERS, filesystem=SimFileSystem(disk))
            store.load()
            disk.death = Death(operations=operations, die=die)
            with contextlib.suppress(Killed):
                store.persist_state(PersistedState(leader_epoch=4, voted_id=2))
                store.append((entry(0), entry(1)))
                store.persist_state(PersistedState(leader_epoch=5, voted_id=3))
                store.append((entry(2),))
            disk.death = None
            seen = MetadataStore("data", cluster_id="c", voters=VOTERS, filesystem=SimFileSystem(disk)).load()
            disk.lose_power(1.0)
            found = MetadataStore("data", cluster_id="c", voters=VOTERS, filesystem=SimFileSystem(disk)).load()
            assert found == seen, f"after {operations} operations, seed {seed}"
            votes.add(seen.state.leader_epoch)
            ends.add(len(seen.entries))
    assert (votes, ends) == ({4, 5}, {0, 2, 3})


def test_damage_before_what_was_written_later_ends_the_start_and_cuts_nothing(tmp_path: Path) -> None:
    """It was cut as a torn tail, and committed metadata with it."""
    written = opened(tmp_path)
    written.load()
    for offset in range(6):
        written.append((entry(offset),))
    written.close()
    path = next((tmp_path / METADATA_DIRECTORY).glob("*.log"))
    data = path.read_bytes()
    starts = [batch.position for batch in iter_batches(data)]
    for position in range(0, len(data), 3):
        start = max(each for each in starts if each <= position)
        if 12 <= position - start < 16:
            continue  # the leader epoch is outside of the CRC
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        path.write_bytes(damaged)
        if start == starts[-1]:
            assert len(opened(tmp_path).load().entries) == 5
            continue
        with pytest.raises(ValueError, match=rf"damaged at byte {start} \(metadata offset {starts.index(start)}\)"):
            opened(tmp_path).load()
        assert path.read_bytes() == damaged


def test_a_hole_in_the_last_append_is_a_torn_write(tmp_path: Path) -> None:
    """Of one write, the drive may have taken the end and not the beginning."""
    written = opened(tmp_path)
    written.load()
    written.append((entry(0),))
    written.append(tuple(entry(offset) for offset in range(1, 5)))
    written.close()
    path = next((tmp_path / METADATA_DIRECTORY).glob("*.log"))
    data = bytearray(path.read_bytes())
    starts = [batch.position for batch in iter_batches(data)]
    data[starts[2] : starts[3]] = bytes(starts[3] - starts[2])
    path.write_bytes(data)
    again = opened(tmp_path)
    assert [each.offset for each in again.load().entries] == [0, 1]
    again.append((entry(2),))
    again.close()
    assert len(opened(tmp_path).load().entries) == 3
