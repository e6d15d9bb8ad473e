"""Client requests that only the active controller can serve: sent on in the version that brokers speak to it.

The answer waits, for a short time, until this broker's own image shows the change, so that a client which asks the same
broker next finds it. `request_as` and `response_as` carry a message over to another version of its API, field by field.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """How one API goes on to the active controller."""

    version: int
    # The answer when there was none in time.
    failed: Callable[[AnyRequest[Asked], ErrorCode, str | None], Answers[Asked]]
    is_visible: Callable[[MetadataImage, Asked, Answered], bool] = _always  # (image, request, answer)
    visible_within_ms: int | None = VISIBLE_WITHIN_MS  # after the answer; None: for what the request's time leaves
    default_timeout_ms: Callable[[NodeConfig], int] = _default_timeout_ms  # where a request has no limit of its own
    sent: Callable[[AnyRequest[Asked], int], Asked] | None = (
        None  # (request, its time in ms) in that version; None: field by field
    )
    # The answer of a controller that was asked more than once.
    repeated: Callable[[Answered], Answered] | None = None


def plain(message: object) -> object:
    """A message as mappings, lists and primitives."""
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


async def forward(
    services: Services, asked: AnyRequest[Asked], api_key: ApiKey, how: Forward[Asked, Answers[Asked]]
) -> None:
    """Ask the controller, and answer `asked`."""
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
