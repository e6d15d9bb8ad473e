"""Frames to messages and back, for any API.

It imports the schemas of the whole protocol, so import it where it is needed.
"""

from __future__ import annotations

from broker.wire.codec import decode_message, decode_response, encode_response, skip_tags
from broker.wire.messages import build, field_shapes, request_type, response_type

__all__ = [
    "build",
    "decode_message",
    "decode_response",
    "encode_response",
    "field_shapes",
    "request_type",
    "response_type",
    "skip_tags",
]
