"""SaslHandshakeRequest (key 17) and its answer, versions 0-1.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class SaslHandshakeRequest(Asks[SaslHandshakeResponse]):
    mechanism: str

class SaslHandshakeRequestFields(TypedDict, total=False):
    mechanism: str

@final
@dataclass(frozen=True, kw_only=True)
class SaslHandshakeResponse(Answers[SaslHandshakeRequest]):
    error_code: ErrorCode
    mechanisms: tuple[str, ...]

class SaslHandshakeResponseFields(TypedDict, total=False):
    error_code: int
    mechanisms: Iterable[str]
