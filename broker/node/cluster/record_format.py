"""Whether the metadata log on this disk holds records that this version reads. Asked once, before the broker starts."""

from __future__ import annotations

from pathlib import Path

from broker.controller.record_codec import decode_records
from broker.node.cluster.meta_properties import StorageMismatchError
from broker.node.cluster.metadata_store import METADATA_DIRECTORY, StoredMetadata
from broker.quorum.checkpoint import decode_snapshot


def check_record_format(stored: StoredMetadata, log_directory: Path) -> None:
    """Raises StorageMismatchError. One record is enough: no directory has two formats, because this check comes before
    anything is written."""
    try:
        for values in (_snapshot_values(stored), *(each.values for each in stored.entries if not each.is_control)):
            if values:
                decode_records(values[:1])
                break
    except ValueError as error:
        raise StorageMismatchError(f"{log_directory / METADATA_DIRECTORY}: {error}") from error


def _snapshot_values(stored: StoredMetadata) -> tuple[bytes, ...]:
    return () if stored.snapshot is None else decode_snapshot(stored.snapshot)
