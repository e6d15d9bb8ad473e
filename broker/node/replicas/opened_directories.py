"""Opens the log directories of log.dirs at the start of a broker, and reads or makes their ids.

A directory that cannot be used does not keep the broker from starting, as in Kafka, unless it holds the metadata log or
no other directory works. A directory of another node or cluster does. Shown by
tests/broker_node/test_node_meta_properties.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from broker.log.directory import LogDirectory
from broker.log.filesystem import LOCAL, FileSystem
from broker.node.cluster.meta_properties import StorageMismatchError, check_meta_properties
from broker.node.process.logs import Logger
from broker.node.replicas.directories import LogDirectories
from broker.node.settings.config import NodeConfig

_OWN_STREAM = 0x6B1D5  # so that ids do not repeat other ids that are made from the same random numbers


def id_maker(rng: random.Random) -> Callable[[], UUID]:
    """Makes ids. It takes nothing from `rng`: a broker with new directories and the same broker with old ones then
    behave alike, which keeps the seeds of the simulation comparable."""
    copied = random.Random()
    copied.setstate(rng.getstate())
    own = random.Random(copied.getrandbits(64) ^ _OWN_STREAM)
    return lambda: UUID(int=own.getrandbits(128), version=4)


def open_directories(
    config: NodeConfig,
    *,
    new_id: Callable[[], UUID],
    logger: Logger,
    filesystem: FileSystem = LOCAL,
    boot_id: str | None = None,
) -> LogDirectories:
    """Raises StorageMismatchError, or OSError if the broker cannot start without a directory that fails."""
    metadata = config.storage.metadata_directory
    failed: dict[str, UUID | None] = {}
    ids: dict[str, UUID] = {}
    last: OSError | None = None
    for path in map(str, dict.fromkeys((*config.storage.log_dirs, metadata))):
        try:
            filesystem.make_directory(path)
            ids[path] = check_meta_properties(
                path,
                node_id=config.node_id,
                cluster_id=config.own.harness_cluster_id,
                new_id=new_id,
                filesystem=filesystem,
            )
        except OSError as error:
            _note(logger, failed, path, None, metadata, error)
            last = error
    _expect_different(ids)
    # Each directory is checked before one of them is opened, because opening removes the mark of a clean shutdown.
    working: list[LogDirectory] = []
    for path in (str(each) for each in config.storage.log_dirs if str(each) in ids):
        try:
            working.append(LogDirectory(path, filesystem=filesystem, boot_id=boot_id, directory_id=ids[path]))
        except OSError as error:
            _note(logger, failed, path, ids[path], metadata, error)
            last = error
    if not working and last is not None:
        raise last
    return LogDirectories(working, failed=failed, metadata_path=str(metadata), cordoned=config.storage.cordoned_paths)


def _note(
    logger: Logger, failed: dict[str, UUID | None], path: str, known: UUID | None, metadata: Path, error: OSError
) -> None:
    if path == str(metadata):
        raise error
    logger.error("log_directory_offline", directory=path, cause=repr(f"{type(error).__name__}: {error}"))
    failed[path] = known


def _expect_different(ids: dict[str, UUID]) -> None:
    by_id: dict[UUID, str] = {}
    for path, directory_id in ids.items():
        other = by_id.setdefault(directory_id, path)
        if other != path:
            raise StorageMismatchError(f"{path} and {other} have the same directory.id: one is a copy of the other")
