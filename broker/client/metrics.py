"""The figures of a producer under Kafka's metric names. Averages cover the client's whole life, not a sliding window.

The sender thread writes the figures. Callers write, under the lock, the time that they waited for memory. Any thread
may read them.
"""

from __future__ import annotations

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


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
