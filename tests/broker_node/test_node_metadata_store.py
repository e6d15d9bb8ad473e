"""What the quorum keeps on disk survives a restart; a torn tail does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.node.metadata_store import (
    LOG_FILE,
    METADATA_DIRECTORY,
    MetadataStore,
    StorageMismatchError,
    check_meta_properties,
)
from broker.quorum.types import LogEntry, PersistedState

VOTERS = (1, 2, 3)


def entry(offset: int, epoch: int = 1) -> LogEntry:
    return LogEntry(offset=offset, epoch=epoch, is_control=False, payload=b"payload %d" % offset)


def opened(directory: Path) -> MetadataStore:
    return MetadataStore(directory, cluster_id="c", voters=VOTERS)


def test_state_and_entries_come_back(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.load() == (PersistedState(), ())
    store.persist_state(PersistedState(leader_epoch=4, leader_id=2, voted_id=3))
    store.append((entry(0), entry(1)))
    store.append((entry(2, epoch=2),))
    store.truncate(2)
    store.append((entry(2, epoch=3),))
    store.close()
    state, entries = opened(tmp_path).load()
    assert state == PersistedState(leader_epoch=4, leader_id=2, voted_id=3)
    assert entries == (entry(0), entry(1), entry(2, epoch=3))


def test_torn_tail_is_cut_at_every_byte(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.load()
    store.append((entry(0),))
    path = tmp_path / METADATA_DIRECTORY / LOG_FILE
    first_bytes = path.stat().st_size
    store.append((entry(1),))
    store.close()
    whole = path.read_bytes()
    for size in range(first_bytes, len(whole)):
        path.write_bytes(whole[:size])
        torn = opened(tmp_path)
        assert torn.load()[1] == (entry(0),)
        assert path.stat().st_size == first_bytes
        torn.append((entry(1),))
        torn.close()
        assert path.read_bytes() == whole


def test_directory_of_another_broker_is_refused(tmp_path: Path) -> None:
    check_meta_properties(tmp_path, node_id=1, cluster_id="c")
    check_meta_properties(tmp_path, node_id=1, cluster_id="c")
    with pytest.raises(StorageMismatchError, match=r"node\.id is 1, expected 2"):
        check_meta_properties(tmp_path, node_id=2, cluster_id="c")
    with pytest.raises(StorageMismatchError, match=r"cluster\.id is c, expected d"):
        check_meta_properties(tmp_path, node_id=1, cluster_id="d")
