"""What the sender counts, for the metrics of the producer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class SenderCounters:
    """The counts that metrics() reports, summed since the start."""

    record_send_total: int = 0
    record_error_total: int = 0
    record_retry_total: int = 0
    batch_total: int = 0
    request_total: int = 0
    epoch_bump_total: int = 0
