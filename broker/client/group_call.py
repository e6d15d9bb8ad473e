"""One commit or look-up of committed offsets. The application's thread passes it to the member's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from broker.client import native
from broker.client.core.errors import KafkaError
from broker.client.group_requests import Identity
from broker.wire.apis import ApiKey

if TYPE_CHECKING:
    from broker.wire.shapes.kinds import Asks

Answer = TypeVar("Answer")


class GroupCall:
    """One commit or look-up. `build` is called again for each attempt, because the member may have another generation
    by then."""

    __slots__ = (
        "api_key",
        "attempts",
        "build",
        "deadline_ms",
        "done",
        "error",
        "is_repeated",
        "not_before_ms",
        "on_done",
        "parse",
        "result",
    )

    def __init__(
        self,
        api_key: ApiKey,
        build: Callable[[int, Identity], Asks[Answer]],
        parse: Callable[[Answer], Any],  # Any: each API has its own result
        deadline_ms: int,
        *,
        is_repeated: bool,
        on_done: Callable[[GroupCall], None] | None = None,
    ) -> None:
        self.api_key = api_key
        self.build: Callable[[int, Identity], object] = build
        self.parse: Callable[[Any], Any] = parse
        self.deadline_ms = deadline_ms
        self.is_repeated = is_repeated
        self.on_done = on_done
        self.done = native.Event()
        self.result: Any = None
        self.error: KafkaError | None = None
        self.attempts = 0
        self.not_before_ms = 0
