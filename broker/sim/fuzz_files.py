"""Damages files and lets the code open them: partition logs, their side files, the directory, the metadata store.

Two results are allowed. Either the files open, and the log has only whole batches. Or the error says which file is
wrong. Anything else is a defect: another exception, an endless loop, a batch with a wrong CRC.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from broker.log.config import LogConfig
from broker.log.directory import LogDirectory
from broker.log.errors import LogError
from broker.log.partition_log import PartitionLog
from broker.node.cluster.meta_properties import StorageMismatchError, check_meta_properties
from broker.node.cluster.metadata_store import MetadataStore
from broker.quorum.types import LogEntry, PersistedState
from broker.sim.disk import SimDisk
from broker.sim.filesystem import SimFileSystem
from broker.sim.fuzz_frames import FuzzError
from broker.sim.fuzz_input import damage
from broker.sim.scheduler import Scheduler
from broker.wire.batch_encoder import encode_batch
from broker.wire.errors import CorruptBatchError
from broker.wire.records import iter_batches, validate_batches

ROOT = "/data"
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)
EXPECTED_ERRORS = (LogError, ValueError, StorageMismatchError)  # each names the file


@dataclass(slots=True, kw_only=True)
class FileFuzzResult:
    files: int = 0
    opened: int = 0
    refused: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


def _append(log: PartitionLog, number: int, epoch: int) -> None:
    batch = encode_batch(
        [b"value %d" % number] * 2,
        timestamps_ms=1_000 + number,
        producer_id=4,
        producer_epoch=0,
        base_sequence=2 * number,
    )
    log.append(memoryview(bytearray(batch)), leader_epoch=epoch)


def _check_meta(filesystem: SimFileSystem) -> None:
    check_meta_properties(ROOT, node_id=1, cluster_id="c", new_id=lambda: UUID(int=1_000), filesystem=filesystem)


def _write(filesystem: SimFileSystem, *, clean: bool) -> None:
    """Write the files that a broker has after some minutes."""
    _check_meta(filesystem)
    directory = LogDirectory(ROOT, config=CONFIG, filesystem=filesystem, boot_id="boot")
    log = directory.open_log("t", 0, topic_id="id", config=CONFIG)
    for number in range(12):
        _append(log, number, epoch=number // 5)
    directory.write_high_watermarks({("t", 0): 20})
    if clean:
        directory.close([log])
    store = MetadataStore(Path(ROOT), cluster_id="c", voters=(1,), filesystem=filesystem)
    store.load()
    store.persist_state(PersistedState(leader_epoch=2, leader_id=1, voted_id=1))
    # The first entry has one value, the second has two, and so on.
    store.append(
        tuple(
            LogEntry(offset=sum(range(count)), epoch=1, is_control=False, values=(b"p" * count,) * count)
            for count in range(1, 6)
        )
    )


def _open(filesystem: SimFileSystem, boot_id: str) -> None:
    """Do with these files everything that a start does. Then use the log."""
    _check_meta(filesystem)
    store = MetadataStore(Path(ROOT), cluster_id="c", voters=(1,), filesystem=filesystem)
    entries = store.load().entries
    assert [entry.end_offset for entry in entries] == [sum(range(2 + each)) for each in range(len(entries))]
    directory = LogDirectory(ROOT, config=CONFIG, filesystem=filesystem, boot_id=boot_id)
    directory.read_high_watermarks()
    log = directory.open_log("t", 0, topic_id="id", config=CONFIG)
    log.check_invariants()
    is_scanned = log.recovery.scanned_segments == log.recovery.segments
    try:
        _read_through(log, is_scanned=is_scanned)
    except CorruptBatchError:
        assert not is_scanned, "a scanned log holds a broken batch"
    end = log.log_end_offset
    log.append(memoryview(bytearray(encode_batch([b"after"], timestamps_ms=9))), leader_epoch=9)
    assert log.log_end_offset == end + 1
    validate_batches(log.read(end, 1 << 20))


def _read_through(log: PartitionLog, *, is_scanned: bool) -> None:
    """Read the whole log. A scanned segment must be whole. A trusted segment may be damaged, which the read or the CRC
    shows."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20)
        if not data:
            assert not is_scanned, f"nothing to read at {offset} of {log.log_end_offset}"
            return
        for batch in iter_batches(data):
            assert batch.is_crc_valid() or not is_scanned, f"wrong CRC at {batch.header.base_offset}"
            if batch.header.next_offset <= offset:
                # The CRC does not cover the base offset, so in a trusted segment nothing else shows this damage.
                assert not is_scanned, f"offsets do not rise after {offset}"
                return
            offset = batch.header.next_offset


def _mutate(disk: SimDisk, rng: random.Random) -> str:
    """Damage one file, sometimes two, or remove one."""
    names = [path for path in disk.files if path.endswith(".log") or rng.random() < 0.5]
    changed = []
    for path in rng.sample(names, rng.choice((1, 1, 1, 2))):
        if rng.random() < 0.05:
            disk.remove(path)
            changed.append(f"{path} removed")
            continue
        content = bytearray(disk.files[path])
        content = bytearray(rng.randbytes(rng.randrange(300))) if rng.random() < 0.1 else damage(content, rng)
        disk.overwrite(path, bytes(content))
        changed.append(path)
    return ", ".join(changed)


def fuzz_files(seed: int, count: int) -> FileFuzzResult:
    """Raises FuzzError with the seed that shows the defect again."""
    result = FileFuzzResult()
    images = {clean: _image(clean) for clean in (False, True)}
    for number in range(count):
        rng = random.Random(f"files {seed + number}")
        disk = SimDisk(scheduler=Scheduler(), rng=rng, name="disk")
        disk.restore(images[rng.random() < 0.3])
        what = _mutate(disk, rng)
        boot_id = rng.choice(("boot", "another boot"))
        _try(lambda disk=disk, boot_id=boot_id: _open(SimFileSystem(disk), boot_id), seed + number, what, result)  # type: ignore[misc]
        result.files += 1
        result.kinds[what.rpartition(".")[2]] += 1
    return result


def _image(clean: bool) -> dict[str, bytes]:
    disk = SimDisk(scheduler=Scheduler(), rng=random.Random(1), name="disk")
    _write(SimFileSystem(disk), clean=clean)
    return dict(disk.files)


def _try(work: Callable[[], None], seed: int, what: str, result: FileFuzzResult) -> None:
    try:
        work()
    except EXPECTED_ERRORS:
        result.refused += 1
    except Exception as error:  # anything else is a defect, whatever it is
        raise FuzzError(f"{type(error).__name__}: {error}\n  seed {seed}: {what}") from error
    else:
        result.opened += 1
