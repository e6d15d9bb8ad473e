"""Of the record batches that were read, a member is sent those that hold what it has acquired."""

from __future__ import annotations

import pytest

from broker.node.features.share_groups.delivery.deliveries import Acquired
from broker.node.features.share_groups.handlers.reads import acquired_batches
from broker.wire.records import encode_batch

BATCHES = [
    bytes(encode_batch([b"v" * (1 + number)] * 4, timestamps_ms=1, base_offset=4 * number)) for number in range(4)
]


@pytest.mark.parametrize(
    ("ranges", "sent"),
    [
        ([(0, 15)], (0, 4)),
        ([(0, 3)], (0, 1)),
        ([(5, 5)], (1, 2)),
        ([(3, 4)], (0, 2)),
        ([(4, 4), (10, 12)], (1, 4)),
        ([(4, 4), (10, 11)], (1, 3)),
        ([(15, 15)], (3, 4)),
        ([], (0, 0)),
    ],
)
def test_batches_before_and_after_the_acquired_records_are_not_sent(
    ranges: list[tuple[int, int]], sent: tuple[int, int]
) -> None:
    acquired = [Acquired(first_offset=first, last_offset=last, delivery_count=1) for first, last in ranges]
    assert acquired_batches(b"".join(BATCHES), acquired) == b"".join(BATCHES[slice(*sent)])
