"""kafka_cut_frame: the first `at_byte` bytes of one request (or response) pass, then both sides of the connection end.

Bytes are counted from the frame's length field on. At least the last byte of the frame does not pass.
`chaos.toxiproxy.kafka.tap` performs it.
"""

from __future__ import annotations

from chaos.toxiproxy.kafka.matching import kafka_toxic
from chaos.toxiproxy.toxic import Attribute

SPEC = kafka_toxic(
    "kafka_cut_frame",
    Attribute(name="at_byte", default=64, minimum=1, maximum=100 << 20),
    Attribute(name="frame", default="request", choices=("request", "response")),
)
