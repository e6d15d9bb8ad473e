"""Client requests that only the active controller can serve. They are forwarded in the version that brokers use with
the controller.

The answer waits for a short time until this broker's own image shows the change. So a client that asks the same broker
next finds it. `request_as` and `response_as` convert a message to another version of its API, field by field.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from broker.controller.image import MetadataImage
from broker.node.handlers.services import Services
from broker.node.net.channel import ChannelError
from broker.node.net.requests import AnyRequest, Asked
from broker.node.process.clock import monotonic_ms
from broker.node.settings.config import NodeConfig
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, build, request_type, response_type, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes.kinds import Answers

Answered = TypeVar("Answered")  # the answer to an `Asked`
TIMEOUT_MS_MIN = 1_000
TIMEOUT_MS_MAX = 60_000
DEFAULT_TIMEOUT_MS = 10_000
VISIBLE_WITHIN_MS = 2_000


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
    message = asked.message
    limit_ms = to_ms(message.timeout) if hasattr(message, "timeout") else how.default_timeout_ms(services.config)
    timeout_ms = min(max(limit_ms, TIMEOUT_MS_MIN), TIMEOUT_MS_MAX)
    deadline_ms = monotonic_ms() + timeout_ms
    repetitions: list[None] = []
    try:
        if how.sent is not None:
            message = how.sent(asked, timeout_ms)
        elif asked.version != how.version:
            message = request_as(api_key, how.version, message)
        answer = await services.control.call(
            api_key, how.version, message, timeout_ms=timeout_ms, on_repeat=lambda: repetitions.append(None)
        )
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
