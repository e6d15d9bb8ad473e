"""Settings of log directories, the defaults of topics, and what the broker does to its logs by itself.

Shown by tests/broker_node/test_node_config.py and tests/broker_node/test_node_log_settings.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from broker.node.settings.sections.section import Problem, setting
from broker.node.settings.values import LONG_MAX, whole_number

CORDONED_ALL = "*"  # in cordoned.log.dirs


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    log_dirs: tuple[Path, ...]
    log_dir: str = "/tmp/kafka-logs"  # counts if log.dirs is not given
    # those of log.dirs that get no new replicas (KIP-1066), or * for all of them
    cordoned_log_dirs: tuple[str, ...] = ()
    metadata_log_dir: str = ""  # empty: the first of log.dirs
    # Kafka: 30000. If the controller does not learn in this time that a log directory failed, the broker ends.
    log_dir_failure_timeout_ms: int = 30_000

    @property
    def metadata_directory(self) -> Path:
        """The directory with the metadata log."""
        return Path(self.metadata_log_dir) if self.metadata_log_dir else self.log_dirs[0]

    @property
    def cordoned_paths(self) -> frozenset[Path]:
        """Those of `log_dirs` that get no new replicas."""
        if CORDONED_ALL in self.cordoned_log_dirs:
            return frozenset(self.log_dirs)
        return frozenset(self.log_dirs) & set(map(Path, self.cordoned_log_dirs))

    def problem(self) -> Problem | None:
        """In Kafka's words."""
        named = self.cordoned_log_dirs
        if CORDONED_ALL in named:
            text = "When cordoned.log.dirs is set to *, it must not contain other values" if len(named) > 1 else ""
        else:
            missing = ",".join(each for each in named if Path(each) not in self.log_dirs)
            cause = "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : "
            text = cause + missing if missing else ""
        return Problem(keys=("cordoned.log.dirs",), text=text) if text else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """What a topic has that does not say otherwise (broker/controller/topic_configs.py has the topics' own names)."""

    num_partitions: int = 1  # More spreads the load wider; each partition needs a descriptor and memory.
    default_replication_factor: int = 1  # More survives more failures and costs as many writes.
    min_insync_replicas: int = 1  # With acks=all. More loses less, but refuses writes sooner.
    unclean_leader_election_enable: bool = False  # True loses acknowledged records rather than wait.
    message_max_bytes: int = 1_048_588  # of one batch; more needs more memory for each request
    compression_type: str = "producer"  # Another one makes the broker compress each batch again.
    compression_gzip_level: int = setting(-1, whole_number)  # Higher levels are smaller and slower.
    compression_lz4_level: int = 9
    compression_zstd_level: int = setting(3, whole_number)
    log_message_timestamp_type: str = "CreateTime"  # or LogAppendTime
    log_message_timestamp_before_max_ms: int = LONG_MAX  # Records that are older are refused.
    log_message_timestamp_after_max_ms: int = 3_600_000  # Records from further in the future are refused.
    log_segment_bytes: int = 1 << 30  # Less removes old records sooner and makes more files.
    log_roll_ms: int = 604_800_000  # The same by time.
    log_roll_jitter_ms: int = 0  # Up to this much earlier, so that not all partitions roll at once.
    log_index_interval_bytes: int = 4096  # Less makes larger indexes, and shorter searches.
    log_index_size_max_bytes: int = 10 << 20  # A segment rolls when an index would be larger.
    log_cleanup_policy: str = "delete"  # or compact, or both
    log_retention_ms: int = setting(604_800_000, whole_number)  # Below 0: no limit. More needs more disk.
    log_retention_bytes: int = setting(-1, whole_number)  # of one partition; below 0: no limit
    log_local_retention_bytes: int = setting(-2, whole_number)  # without effect: there is no tiered storage
    log_local_retention_ms: int = setting(-2, whole_number)  # without effect: there is no tiered storage
    log_segment_delete_delay_ms: int = 60_000  # without effect: no read holds a file after it returned
    log_preallocate: bool = False  # without effect: files grow as they are written
    # Appends between two syncs. By default the kernel writes when it likes: replicas, not the disk, keep the records.
    log_flush_interval_messages: int = LONG_MAX
    log_flush_interval_ms: int = LONG_MAX
    log_cleaner_min_cleanable_ratio: float = 0.5  # Less cleans more often, which costs reads and writes.
    log_cleaner_min_compaction_lag_ms: int = 0  # Younger records are kept, also if a later one has their key.
    log_cleaner_max_compaction_lag_ms: int = LONG_MAX  # Older ones are cleaned whatever the ratio is.
    log_cleaner_delete_retention_ms: int = 86_400_000  # A reader who needs longer may miss a tombstone.


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepSettings:
    """The rounds of retention, of the checkpoints, and of the cleaner. Longer intervals cost less and act later."""

    log_retention_check_interval_ms: int = 300_000
    log_initial_task_delay_ms: int = 30_000  # from the start to the first round of retention
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000  # A crash forgets DeleteRecords of this time.
    replica_high_watermark_checkpoint_interval_ms: int = 5_000  # More: a restart begins lower.
    # Less forgets the sequences of quiet producers sooner. More needs more memory.
    producer_id_expiration_ms: int = 86_400_000
    log_cleaner_enable: bool = True  # False: compacted topics grow
    log_cleaner_backoff_ms: int = 15_000  # from a round that found nothing to the next
    log_cleaner_dedupe_buffer_size: int = 128 << 20  # bytes of the map of keys; less needs more passes
    log_cleaner_io_max_bytes_per_second: float = float(LONG_MAX)  # Less leaves more of the disk to clients.
