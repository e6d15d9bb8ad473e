"""What a client may do, told as bits (KIP-430). There is no authoriser here, so each may do everything there is.

The bit of an operation is its number in Kafka: read 3, write 4, create 5, delete 6, alter 7, describe 8, cluster action
9, describe configs 10, alter configs 11, idempotent write 12.
"""

from __future__ import annotations

NOT_ASKED = -(2**31)
TOPIC = sum(1 << each for each in (3, 4, 5, 6, 7, 8, 10, 11))
GROUP = sum(1 << each for each in (3, 6, 8, 10, 11))
CLUSTER = sum(1 << each for each in (5, 7, 8, 9, 10, 11, 12))


def asked(are_asked: bool, operations: int) -> int:
    """`operations` if the request asks for them. Old versions lack the field: they do not ask."""
    return operations if are_asked else NOT_ASKED
