"""EnvelopeRequest (key 58) and its answer, version 0.

Written by `python -m broker.wire.shape_writer`.
"""

from dataclasses import dataclass
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class EnvelopeRequest(Asks[EnvelopeResponse]):
    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes

class EnvelopeRequestFields(TypedDict, total=False):
    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes

@final
@dataclass(frozen=True, kw_only=True)
class EnvelopeResponse(Answers[EnvelopeRequest]):
    response_data: bytes | None
    error_code: ErrorCode

class EnvelopeResponseFields(TypedDict, total=False):
    response_data: bytes | None
    error_code: int
