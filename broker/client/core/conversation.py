"""The protocol of one connection: versions, correlation ids, answers in the order of the requests, limits on answers.

It is pure: it takes messages and frames, and gives buffers and messages. `connection.py` moves the bytes of many
pipelined requests without blocking. `direct.py` moves the bytes of one request at a time. A broker answers the requests
of a connection in order, so an answer with an unexpected correlation id means that the peer is broken. Shown by
tests/broker_client/test_client_conversation.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.wire.apis import ApiKey, negotiate
from broker.wire.codec import decode_response, decode_response_correlation_id, encode_request
from broker.wire.encoder import Buffer
from broker.wire.errors import ErrorCode, RemoteProtocolError
from broker.wire.extent import ANSWER_ELEMENTS_MAX
from broker.wire.messages import Message, field_or, request

if TYPE_CHECKING:
    from broker.wire.shapes.api_versions import ApiVersionsResponse

_SOFTWARE_NAME = "kafka-harness-reference"
_SOFTWARE_VERSION = "1"
_API_VERSIONS_VERSION = 3
_CORRELATION_MODULUS = 2**31


class Pending:
    """A request that was sent or is being sent. `end_bytes` is the position in the outgoing stream after its last
    byte."""

    __slots__ = (
        "api_key",
        "context",
        "correlation_id",
        "deadline_ms",
        "end_bytes",
        "expects_answer",
        "sent_at_s",
        "version",
    )

    def __init__(self, api_key: int, version: int, context: object, expects_answer: bool, deadline_ms: int) -> None:
        self.api_key = api_key
        self.version = version
        self.context = context
        self.expects_answer = expects_answer
        self.deadline_ms = deadline_ms
        self.correlation_id = 0
        self.end_bytes = 0
        self.sent_at_s = 0.0


class Conversation:
    """Invariant: `pending` holds the requests that wait for an answer, oldest first."""

    def __init__(
        self, client_id: str, correlation_ids: Iterator[int], *, elements_max: int = ANSWER_ELEMENTS_MAX
    ) -> None:
        self.pending: deque[Pending] = deque()
        self.features: dict[str, int] = {}  # finalized feature levels by name (KIP-584)
        self._client_id = client_id or None
        self._correlation_ids = correlation_ids
        self._elements_max = elements_max
        self._offered: dict[int, tuple[int, int]] = {}
        self._versions: dict[tuple[ApiKey, int], int | None] = {}

    def greet(self, context: object, deadline_ms: int, *, version: int = _API_VERSIONS_VERSION) -> list[Buffer]:
        """The first request: which versions does the broker speak?"""
        message = request(
            ApiKey.API_VERSIONS,
            version,
            client_software_name=_SOFTWARE_NAME,
            client_software_version=_SOFTWARE_VERSION,
        )
        return self.ask(Pending(ApiKey.API_VERSIONS, version, context, True, deadline_ms), message)

    def on_greeted(self, message: ApiVersionsResponse) -> bool:
        """Takes the broker's versions. Returns True if requests may be sent now, False if ApiVersions must be asked in
        version 0 first."""
        if message.error_code == ErrorCode.unsupported_version and message.__version__ > 0:
            return False
        if message.error_code != ErrorCode.none:
            raise RemoteProtocolError(f"ApiVersions answered with {message.error_code.name}")
        self._offered = {each.api_key: (each.min_version, each.max_version) for each in message.api_keys}
        finalized = field_or(message, "finalized_features", None) or ()
        self.features = {each.name: each.max_version_level for each in finalized}
        return True

    def offered(self, api_key: int) -> tuple[int, int] | None:
        """Lowest and highest version of an API that the broker told. None if the broker does not offer the API."""
        return self._offered.get(api_key)

    def version(self, api_key: ApiKey, highest: int) -> int | None:
        """The highest version that both sides speak and that is not above `highest`. None if there is no such
        version."""
        key = (api_key, highest)
        if key not in self._versions:
            self._versions[key] = negotiate(api_key, self._offered, highest)
        return self._versions[key]

    def ask(self, pending: Pending, message: Message) -> list[Buffer]:
        """The buffers to write for this request. If it expects an answer, it is in `pending` from now on."""
        pending.correlation_id = next(self._correlation_ids) % _CORRELATION_MODULUS
        buffers: list[Buffer] = encode_request(
            pending.api_key, pending.version, pending.correlation_id, self._client_id, message
        )
        if pending.expects_answer:
            self.pending.append(pending)
        return buffers

    def take(self, frame: memoryview) -> tuple[Pending, Message]:
        """The oldest request and its answer. Raises RemoteProtocolError.

        A request leaves `pending` only when its answer is decoded. If decoding fails, the request is lost with the
        connection.
        """
        correlation_id = decode_response_correlation_id(frame)
        if not self.pending or self.pending[0].correlation_id != correlation_id:
            raise RemoteProtocolError(f"an answer with correlation id {correlation_id} that nothing waits for")
        pending = self.pending[0]
        message = self._decode(pending, frame)
        self.pending.popleft()
        return pending, message

    def _decode(self, pending: Pending, frame: memoryview) -> Message:
        if pending.api_key == ApiKey.API_VERSIONS and bytes(frame[4:6]) == b"\x00\x23":
            # A broker that does not know the client's version answers in version 0 (KIP-511), with error 35.
            return decode_response(ApiKey.API_VERSIONS, 0, frame)[1] if pending.version == 0 else _Unsupported
        return decode_response(pending.api_key, pending.version, frame, elements_max=self._elements_max)[1]


class _Unsupported:
    """The message that means "ask again with version 0"."""

    error_code = ErrorCode.unsupported_version
    __version__ = 1
