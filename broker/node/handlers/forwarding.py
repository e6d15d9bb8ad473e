"""Client requests that only the active controller can serve. They are forwarded in the version that brokers use with
the controller.

The answer waits for a short time until this broker's own image shows the change. So a client that asks the same broker
next finds it. `request_as` and `response_as` convert a message to another version of its API, field by field.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from broker.controller.image import MetadataImage
from broker.node.cluster.controller_client import nothing
from broker.node.handlers.services import Services
from broker.node.net.channel import ChannelError
from broker.node.net.requests import AnyRequest, Asked
from broker.node.process.clock import monotonic_ms
from broker.node.settings.config import NodeConfig
from broker.wire.apis import ApiKey
from broker.wire.codec import decode_response, encode_request
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, build, request_type, response_type, to_ms
from broker.wire.messages import request as make_request
from broker.wire.principals import encode_principal

if TYPE_CHECKING:
    from broker.wire.shapes.kinds import Answers

Answered = TypeVar("Answered")  # the answer to an `Asked`
TIMEOUT_MS_MIN = 1_000
TIMEOUT_MS_MAX = 60_000
DEFAULT_TIMEOUT_MS = 10_000
VISIBLE_WITHIN_MS = 2_000
_LENGTH_BYTES: Final = 4  # the length before a frame; an envelope contains the frame without it


def _always(image: MetadataImage, message: object, answer: object) -> bool:
    return True


def _default_timeout_ms(config: NodeConfig) -> int:
    return DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward(Generic[Asked, Answered]):
    """How requests of one API are forwarded to the active controller."""

    version: int
    # Makes the answer if the controller did not answer in time.
    failed: Callable[[AnyRequest[Asked], ErrorCode, str | None], Answers[Asked]]
    is_visible: Callable[[MetadataImage, Asked, Answered], bool] = _always  # (image, request, answer)
    # counted from the controller's answer; None: for the rest of the request's time
    visible_within_ms: int | None = VISIBLE_WITHIN_MS
    # Requests without a time limit of their own get this one.
    default_timeout_ms: Callable[[NodeConfig], int] = _default_timeout_ms
    sent: Callable[[AnyRequest[Asked], int], Asked] | None = (
        None  # (request, its time in ms) -> the message in that version; None: converted field by field
    )
    # Changes the answer if the controller was asked more than once.
    repeated: Callable[[Answered], Answered] | None = None
    # The answer, if this broker itself refuses the request. It may change the request, and it may wait.
    refusal: Callable[[Services, AnyRequest[Asked]], Awaitable[Answers[Asked] | None]] | None = None
    # while there are controller mutation quotas, it must know the principal and the client's own version
    is_charged: bool = False


def plain(message: object) -> object:
    """Converts a message to mappings, lists and primitives."""
    if is_dataclass(message):
        return {each.name: plain(getattr(message, each.name)) for each in fields(message)}
    if isinstance(message, tuple):
        return [plain(item) for item in message]
    return message


def request_as(api_key: ApiKey, version: int, message: Message) -> Message:
    values = plain(message)
    assert isinstance(values, dict)
    return build(request_type(api_key, version), values)


def response_as(api_key: ApiKey, version: int, message: Message) -> Message:
    values = plain(message)
    assert isinstance(values, dict)
    return build(response_type(api_key, version), values)


def told_controller(services: Services) -> int:
    """Whom a client may ask to change the cluster: this broker, or another live one if this one is not known as live;
    -1 if there is no live broker. Every broker forwards such requests, and this one is certainly there.

    The active controller would be a worse answer. After its death the others name it until they have heard of the next
    election, and it counts as live until its session is over. A client that begins at this moment tries to reach it and
    may not ask again before its time-out. librdkafka does that, also if it was told -1. Apache Kafka tells some live
    broker, by chance, so it may name the dead one too."""
    live = services.metadata.image.live_broker_ids()
    own = services.config.node_id
    return own if own in live else min(live, default=-1)


async def forward(
    services: Services, asked: AnyRequest[Asked], api_key: ApiKey, how: Forward[Asked, Answers[Asked]]
) -> None:
    """Asks the controller, and answers `asked`."""
    if how.refusal is not None and (refused := await how.refusal(services, asked)) is not None:
        asked.respond(refused)
        return
    message, version = asked.message, how.version
    is_charged = how.is_charged and services.change_quotas.is_active
    limit_ms = to_ms(message.timeout) if hasattr(message, "timeout") else how.default_timeout_ms(services.config)
    timeout_ms = min(max(limit_ms, TIMEOUT_MS_MIN), TIMEOUT_MS_MAX)
    deadline_ms = monotonic_ms() + timeout_ms
    repetitions: list[None] = []
    try:
        if is_charged:
            version = asked.version
        elif how.sent is not None:
            message = how.sent(asked, timeout_ms)
        elif asked.version != how.version:
            message = request_as(api_key, how.version, message)
        ask = ask_enveloped(services, asked) if is_charged else services.control.call
        answer = await ask(api_key, version, message, timeout_ms=timeout_ms, on_repeat=lambda: repetitions.append(None))
    except ChannelError as error:
        asked.respond(how.failed(asked, ErrorCode.request_timed_out, str(error)))
        return
    if how.visible_within_ms is not None:
        deadline_ms = monotonic_ms() + how.visible_within_ms
    while not how.is_visible(services.metadata.image, asked.message, answer) and monotonic_ms() < deadline_ms:
        await services.image_moves.wait(max(1, deadline_ms - monotonic_ms()))
    if repetitions and how.repeated is not None:
        answer = how.repeated(answer)
    asked.respond(response_as(api_key, asked.version, answer))


def ask_enveloped(services: Services, asked: AnyRequest[Any]) -> Callable[..., Awaitable[Any]]:
    """As `ControllerClient.call`, for a request in an Envelope with the client's principal (KIP-590). The types are
    Any, because it serves any API."""

    async def ask(
        api_key: ApiKey, version: int, message: Any, *, timeout_ms: int, on_repeat: Callable[[], object] = nothing
    ) -> Any:
        principal, host = asked.principal, asked.peer_host.removeprefix("/")
        frame = b"".join(encode_request(api_key, version, 0, asked.client_id, message))
        envelope = make_request(
            ApiKey.ENVELOPE,
            0,
            request_data=frame[_LENGTH_BYTES:],
            request_principal=encode_principal(principal.kind, principal.name),
            client_host_address=_address_bytes(host),
        )
        answer = await services.control.call(ApiKey.ENVELOPE, 0, envelope, timeout_ms=timeout_ms, on_repeat=on_repeat)
        if answer.error_code is not ErrorCode.none or answer.response_data is None:
            raise ChannelError(f"{api_key.name} in an envelope: {answer.error_code.name}")
        return decode_response(api_key, version, bytes(answer.response_data))[1]

    return ask


def _address_bytes(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return ipaddress.ip_address("0.0.0.0").packed  # A socket without an address gets this one.
