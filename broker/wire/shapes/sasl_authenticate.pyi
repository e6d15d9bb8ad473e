"""SaslAuthenticateRequest (key 36) and its answer, versions 0-2.

Written by `python -m broker.wire.shape_writer`.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class SaslAuthenticateRequest(Asks[SaslAuthenticateResponse]):
    auth_bytes: bytes

class SaslAuthenticateRequestFields(TypedDict, total=False):
    auth_bytes: bytes

@final
@dataclass(frozen=True, kw_only=True)
class SaslAuthenticateResponse(Answers[SaslAuthenticateRequest]):
    error_code: ErrorCode
    error_message: str | None
    auth_bytes: bytes
    session_lifetime: timedelta  # since version 1

class SaslAuthenticateResponseFields(TypedDict, total=False):
    error_code: int
    error_message: str | None
    auth_bytes: bytes
    session_lifetime: timedelta | int  # since version 1
