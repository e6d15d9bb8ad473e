"""How simulated clients send requests to a coordinator: find it, ask it, and find it again when it has moved.

It only remembers where the coordinator was last found. The caller decides what an answer means. Retriable codes that
only mean "ask another broker" or "ask later" are handled here, until a deadline.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from broker.sim.clients import SimClient
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes.kinds import Asks

Reply = TypeVar("Reply")

GROUP, TRANSACTION = 0, 1
FIND_COORDINATOR_VERSION = 4
PAUSE_S = 0.03
MOVED = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)


Place: TypeAlias = tuple[int, int]  # (broker, leader epoch) of a coordinator


class CoordinatorClient:
    """A client of the coordinator of one key. The key is a transactional id or a group id."""

    def __init__(
        self, *, client: SimClient, kind: int, key: str, rng: random.Random, truth: Callable[[int, str], Place]
    ) -> None:
        """`truth(kind, key)` is the coordinator that the controllers have committed."""
        self._client, self._kind, self.key, self._rng, self._truth = client, kind, key, rng, truth
        self._node_id = -1
        self.has_moved = False  # since the caller last set it to False
        # Whether the last answer came from the present coordinator, and not from a replaced one that does not know it
        # yet. In Kafka too, such a broker still answers requests that need no write.
        self.is_answer_current = False

    def now_s(self) -> float:
        return self._client.loop.time()

    async def ask(
        self,
        api_key: ApiKey,
        version: int,
        message: Asks[Reply],
        error_of: Callable[[Reply], ErrorCode],
        *,
        deadline_s: float,
        timeout_ms: int = 400,
        repeats: frozenset[ErrorCode] = frozenset(),
        asks_once: bool = False,
    ) -> Reply | None:
        """The first answer that is neither "moved" nor in `repeats`. None at the deadline: the outcome is unknown.

        `asks_once`: a request without an answer is not repeated.
        """
        while self.now_s() < deadline_s:
            if self._node_id < 0 and not await self.find():
                await asyncio.sleep(PAUSE_S)
                continue
            before = self._truth(self._kind, self.key)
            answer = await self._client.ask(self._node_id, api_key, version, message, timeout_ms=timeout_ms)
            self.is_answer_current = before == self._truth(self._kind, self.key) and before[0] == self._node_id
            if answer is None:
                self._node_id, self.has_moved = -1, True
                if asks_once:
                    return None
                continue
            error = error_of(answer)
            if error in MOVED:
                self._node_id, self.has_moved = -1, True
            elif error not in repeats:
                return answer
            await asyncio.sleep(PAUSE_S)
        return None

    @property
    def node_id(self) -> int:
        """The coordinator as it was last found, -1 if none is known."""
        return self._node_id

    def forget(self) -> None:
        self._node_id = -1

    async def find(self) -> bool:
        message = request(
            ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, key_type=self._kind, coordinator_keys=[self.key]
        )
        node_id = self._rng.choice(self._client.node_ids)
        answer = await self._client.ask(node_id, ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, message)
        if answer is None or answer.coordinators[0].error_code is not ErrorCode.none:
            return False
        self._node_id = answer.coordinators[0].node_id
        return self._node_id >= 0


class _HasCode(Protocol):
    @property
    def error_code(self) -> ErrorCode: ...


def error_code(answer: _HasCode) -> ErrorCode:
    """The error code of an answer that has only one."""
    return answer.error_code
