"""One partition's log on disk: segments, index, leader epochs, producer state, recovery. Synchronous; no replication.

directory   LogDirectory(path, config=LogConfig(), filesystem=LOCAL)    all logs of one log.dirs entry
              .open_log(topic, partition, topic_id=None) -> PartitionLog  (creates or recovers; .recovery = summary)
              .partitions() -> [(topic, partition)]   .discard_log(topic, partition), .remove_discarded()
              .read_high_watermarks() -> {(topic, partition): offset}   .write_high_watermarks(mapping)
              .close(logs)                            checkpoints + clean-shutdown mark
partition_log PartitionLog
              .log_start_offset  .log_end_offset  .latest_epoch (-1 if none)  .size_bytes  .topic_id  .recovery
              .append(buffer, leader_epoch=, headers=None) -> AppendResult(verdict, base_offset,
                   last_offset, headers)
                   As leader: assigns offsets IN PLACE (a read-only buffer is copied), checks sequences, one write.
                   Verdict.OK | DUPLICATE (offsets of the first append) | OUT_OF_ORDER | INVALID_EPOCH; all but OK:
                   nothing was written. `headers` = what validate_batches(buffer) of broker.wire.records returned.
              .append_as_follower(buffer, headers=None) -> AppendResult   offsets and epochs are kept
              .read(offset, max_bytes, max_offset=None, minimum_one_batch=True) -> bytes: whole batches, b"" at the
                   end. max_offset is exclusive: the high watermark for consumers. Raises OffsetOutOfRangeError.
              .truncate_to(offset) -> TruncationResult(from_offset, to_offset)
              .truncate_fully_and_start_at(offset) -> the same
              .assign_epoch(leader_epoch)          on becoming leader: the epoch starts at log_end_offset
              .end_offset_for_epoch(epoch) -> (epoch, end_offset); (-1, -1) if unknown (OffsetForLeaderEpoch)
              .find_timestamp(timestamp_ms), .find_max_timestamp() -> generators, which yield after each step of
                   bounded work; their value: (timestamp_ms, offset) | None. Raise UnreadableBatchError
              .flush() = fsync   .close() = flush + index + producer snapshot   .delete()
              .producers (ProducerState)  .epochs (LeaderEpochCache; .epoch_at(offset): -1 if none)  .check_invariants()
              .checks.begin_verification(producer_id, producer_epoch, ..) -> VerificationGuard | None   before the
                   coordinator is asked; .append(..., guard=, must_be_verified=True) says INVALID_TXN_STATE without it
              .append_marker(producer_id=, producer_epoch=, marker=EndMarker(is_commit, coordinator_epoch), ..)
              .last_stable_offset(high_watermark)   .aborted_transactions(from_offset, upper_bound)
              .high_watermark_advanced(high_watermark)   call it whenever it grew, on leader and follower
errors        LogError, OffsetOutOfRangeError(.log_start_offset, .log_end_offset), LogCorruptError,
              TopicIdMismatchError, UnreadableBatchError(.offset)

retention   apply_retention(log, now_ms=, high_watermark=) -> RetentionResult      whole segments, oldest first
compaction  find_cleanable(log, checkpoint=, high_watermark=, now_ms=) -> Cleanable
            compact(log, cleanable, now_ms=, map_bytes_max=) -> generator of bytes read; its value: CompactionResult
            .roll()   .advance_log_start(offset) (DeleteRecords)   .config may be replaced at any time
"""
