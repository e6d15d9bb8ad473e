"""Client requests that only the active controller can serve: sent on in the version that brokers speak to it.

The answer waits, for a short time, until this broker's own image shows the change, so that a client which asks the same
broker next finds it. `as_version` carries a message over to another version of its API, field by field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.node.channel import ChannelError
from broker.node.clock import monotonic_ms
from broker.node.control import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, request, response, to_ms

if TYPE_CHECKING:
    from broker.node.broker import Broker

TIMEOUT_MS_MIN = 1_000
TIMEOUT_MS_MAX = 60_000
DEFAULT_TIMEOUT_MS = 10_000
VISIBLE_WITHIN_MS = 2_000


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
    return request(api_key, version, **values)


def response_as(api_key: ApiKey, version: int, message: Message) -> Message:
    values = plain(message)
    assert isinstance(values, dict)
    return response(api_key, version, **values)


async def forward(
    broker: Broker,
    asked: AnyRequest,
    *,
    api_key: ApiKey,
    version: int,
    failed: Callable[[ErrorCode, str], Message],
    is_visible: Callable[[MetadataImage, Message], bool] | None = None,
    default_timeout_ms: int = DEFAULT_TIMEOUT_MS,  # for requests without a time limit of their own
) -> None:
    """Ask the controller in `version` and answer `asked`; `failed` makes the answer when there was none in time."""
    message = asked.message
    limit_ms = to_ms(message.timeout) if hasattr(message, "timeout") else default_timeout_ms
    timeout_ms = min(max(limit_ms, TIMEOUT_MS_MIN), TIMEOUT_MS_MAX)
    try:
        sent = request_as(api_key, version, message) if asked.version != version else message
        answer = await broker.control.call(api_key, version, sent, timeout_ms=timeout_ms)
    except ChannelError as error:
        asked.respond(failed(ErrorCode.request_timed_out, str(error)))
        return
    if is_visible is not None:
        deadline_ms = monotonic_ms() + VISIBLE_WITHIN_MS
        while not is_visible(broker.metadata.image, answer) and monotonic_ms() < deadline_ms:
            await broker.image_moves(max(1, deadline_ms - monotonic_ms()))
    asked.respond(response_as(api_key, asked.version, answer))
