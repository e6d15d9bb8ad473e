"""The figures of producer and consumer under Kafka's metric names. Averages cover the client's whole life, not a
sliding window.

The sender thread writes the producer's figures. Callers write, under the lock, the time that they waited for memory.
The thread that polls writes the consumer's figures. The group's thread writes those of commits. Any thread may read
them.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.client.core.batch import TopicPartition
from broker.client.core.groups.events import GroupCounters
from broker.client.core.sender_counters import SenderCounters


class ProducerMetrics:
    def __init__(self) -> None:
        self.record_bytes = 0
        self.uncompressed_bytes = 0
        self.encoded_batches = 0
        self.latency_ms_sum = 0.0
        self.latency_ms_max = 0.0
        self.response_total = 0
        self.bufferpool_wait_ns = 0
        self.buffer_exhausted_total = 0
        self.queue_time_ms_sum = 0.0
        self.accumulated_records = 0
        self.accumulated_ms_sum = 0
        self.is_stamped_by_user = False  # if True, a record's timestamp is not the time of the call of `send`
        self.callback_error_total = 0

    def on_batch(self, encoded_bytes: int, uncompressed_bytes: int, queue_time_ms: int) -> None:
        self.encoded_batches += 1
        self.record_bytes += encoded_bytes
        self.uncompressed_bytes += uncompressed_bytes
        self.queue_time_ms_sum += queue_time_ms

    def on_records(self, count: int, waited_ms: int) -> None:
        """The records of a batch that is sent for the first time. `waited_ms` is the sum over these records."""
        self.accumulated_records += count
        self.accumulated_ms_sum += waited_ms

    def on_response(self, latency_ms: float) -> None:
        self.response_total += 1
        self.latency_ms_sum += latency_ms
        self.latency_ms_max = max(self.latency_ms_max, latency_ms)

    def snapshot(
        self,
        counters: SenderCounters,
        *,
        in_flight: int,
        buffer_total_bytes: int,
        buffer_used_bytes: int,
        out_bytes: int,
    ) -> dict[str, float]:
        return {
            "record-send-total": float(counters.record_send_total),
            "record-error-total": float(counters.record_error_total),
            "record-retry-total": float(counters.record_retry_total),
            "batch-total": float(counters.batch_total),
            "request-total": float(counters.request_total),
            "epoch-bump-total": float(counters.epoch_bump_total),
            "outgoing-byte-total": float(out_bytes),
            "response-total": float(self.response_total),
            "batch-size-avg": _ratio(self.record_bytes, self.encoded_batches),
            "records-per-request-avg": _ratio(counters.record_send_total, counters.request_total),
            "records-per-batch-avg": _ratio(counters.record_send_total, self.encoded_batches),
            "compression-rate-avg": _ratio(self.record_bytes, self.uncompressed_bytes),
            "record-queue-time-avg": _ratio(self.queue_time_ms_sum, self.encoded_batches),
            # Kafka's record-queue-time-avg counts batches: it begins with the first record of each batch. The wait of
            # the average record needs a figure of its own, for which Kafka has no name.
            **(
                {}
                if self.is_stamped_by_user
                else {
                    "record-accumulate-total": float(self.accumulated_records),
                    "record-accumulate-time-total": float(self.accumulated_ms_sum),
                }
            ),
            "request-latency-avg": _ratio(self.latency_ms_sum, self.response_total),
            "request-latency-max": self.latency_ms_max,
            "requests-in-flight": float(in_flight),
            "buffer-total-bytes": float(buffer_total_bytes),
            "buffer-available-bytes": float(buffer_total_bytes - buffer_used_bytes),
            "buffer-exhausted-total": float(self.buffer_exhausted_total),
            "bufferpool-wait-time-total": self.bufferpool_wait_ns
            / 1e6,  # ms, unlike Kafka's bufferpool-wait-time-ns-total
            "bufferpool-wait-time-ns-total": float(self.bufferpool_wait_ns),
            "callback-error-total": float(self.callback_error_total),
        }


class ConsumerMetrics:
    def __init__(self) -> None:
        self.fetch_total = 0
        self.fetch_latency_ms_sum = 0.0
        self.fetch_latency_ms_max = 0.0
        self.bytes_consumed_total = 0
        self.records_consumed_total = 0
        self.commit_total = 0
        self.commit_latency_ms_sum = 0
        self.commit_latency_ms_max = 0
        self.last_poll_ms: int | None = None
        self.poll_total = 0
        self.between_polls_ms_sum = 0
        self.between_polls_ms_max = 0

    def on_fetch(self, latency_ms: float, size_bytes: int) -> None:
        self.fetch_total += 1
        self.fetch_latency_ms_sum += latency_ms
        self.fetch_latency_ms_max = max(self.fetch_latency_ms_max, latency_ms)
        self.bytes_consumed_total += size_bytes

    def on_poll(self, now_ms: int) -> None:
        if self.last_poll_ms is not None:
            between_ms = now_ms - self.last_poll_ms
            self.poll_total += 1
            self.between_polls_ms_sum += between_ms
            self.between_polls_ms_max = max(self.between_polls_ms_max, between_ms)
        self.last_poll_ms = now_ms

    def on_commit(self, latency_ms: int) -> None:
        self.commit_total += 1
        self.commit_latency_ms_sum += latency_ms
        self.commit_latency_ms_max = max(self.commit_latency_ms_max, latency_ms)

    def snapshot(
        self, now_ms: int, lags: Mapping[TopicPartition, int], leads: Mapping[TopicPartition, int]
    ) -> dict[str, float]:
        """Times are in ms, as in Kafka. `last-poll-seconds-ago` is -1 before the first poll."""
        since_poll_ms = -1000 if self.last_poll_ms is None else now_ms - self.last_poll_ms
        return {
            "fetch-total": float(self.fetch_total),
            "fetch-latency-avg": _ratio(self.fetch_latency_ms_sum, self.fetch_total),
            "fetch-latency-max": self.fetch_latency_ms_max,
            "fetch-size-avg": _ratio(self.bytes_consumed_total, self.fetch_total),
            "bytes-consumed-total": float(self.bytes_consumed_total),
            "records-consumed-total": float(self.records_consumed_total),
            "records-per-request-avg": _ratio(self.records_consumed_total, self.fetch_total),
            "records-lag-max": float(max(lags.values(), default=0)),
            "records-lead-min": float(min(leads.values(), default=0)),
            "commit-total": float(self.commit_total),
            "commit-latency-avg": _ratio(self.commit_latency_ms_sum, self.commit_total),
            "commit-latency-max": float(self.commit_latency_ms_max),
            "time-between-poll-avg": _ratio(self.between_polls_ms_sum, self.poll_total),
            "time-between-poll-max": float(self.between_polls_ms_max),
            "last-poll-seconds-ago": float(since_poll_ms // 1000),
        }


class ShareMetrics:
    """Kafka's metrics of a share consumer. `acknowledgements-error-total` counts records whose acknowledgement failed,
    and `acknowledgements-send-total` all that were answered or lost."""

    def __init__(self) -> None:
        self.fetch_total = 0
        self.fetch_latency_ms_sum = 0.0
        self.fetch_latency_ms_max = 0.0
        self.bytes_fetched_total = 0
        self.records_consumed_total = 0
        self.acknowledged_total = 0
        self.acknowledge_error_total = 0

    def on_fetch(self, latency_ms: float, size_bytes: int) -> None:
        self.fetch_total += 1
        self.fetch_latency_ms_sum += latency_ms
        self.fetch_latency_ms_max = max(self.fetch_latency_ms_max, latency_ms)
        self.bytes_fetched_total += size_bytes

    def on_outcome(self, records: int, *, has_failed: bool) -> None:
        self.acknowledged_total += records
        if has_failed:
            self.acknowledge_error_total += records

    def snapshot(self) -> dict[str, float]:
        return {
            "fetch-total": float(self.fetch_total),
            "fetch-latency-avg": _ratio(self.fetch_latency_ms_sum, self.fetch_total),
            "fetch-latency-max": self.fetch_latency_ms_max,
            "fetch-size-avg": _ratio(self.bytes_fetched_total, self.fetch_total),
            "bytes-fetched-total": float(self.bytes_fetched_total),
            "records-consumed-total": float(self.records_consumed_total),
            "records-per-request-avg": _ratio(self.records_consumed_total, self.fetch_total),
            "acknowledgements-send-total": float(self.acknowledged_total),
            "acknowledgements-error-total": float(self.acknowledge_error_total),
        }


def group_snapshot(counters: GroupCounters, now_ms: int, assigned: int) -> dict[str, float]:
    """Kafka's consumer-coordinator-metrics. A figure in "seconds ago" is -1 if the event never happened."""

    def seconds_ago(at_ms: int | None) -> float:
        return -1.0 if at_ms is None else float((now_ms - at_ms) // 1000)

    return {
        "assigned-partitions": float(assigned),
        "heartbeat-total": float(counters.heartbeats),
        "last-heartbeat-seconds-ago": seconds_ago(counters.last_heartbeat_ms),
        "join-total": float(counters.joins),
        "sync-total": float(counters.syncs),
        "rebalance-total": float(counters.rebalances),
        "failed-rebalance-total": float(counters.failed_rebalances),
        "rebalance-latency-avg": _ratio(counters.rebalance_ms_sum, counters.rebalances),
        "rebalance-latency-max": float(counters.rebalance_ms_max),
        "rebalance-latency-total": float(counters.rebalance_ms_sum),
        "last-rebalance-seconds-ago": seconds_ago(counters.last_rebalance_end_ms),
    }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
