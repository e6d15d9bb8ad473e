"""One request, and how to read its answer. The caller chooses the broker, asks again, or gives up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from broker.client.core.errors import KafkaError
from broker.client.protocol import HIGHEST
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode

if TYPE_CHECKING:
    from broker.wire.shapes.kinds import Asks

Answer = TypeVar("Answer")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Question(Generic[Result_co]):
    """`build` takes the version that is spoken. `parse` raises KafkaError for an error in the answer."""

    api_key: ApiKey
    build: Callable[[int], Any]  # Any: only the constructor knows the types of request and answer
    parse: Callable[[Any], Result_co]
    lowest: int = 0  # an older version cannot ask this question
    highest: int | None = None  # None: the version in protocol.py

    if TYPE_CHECKING:

        def __init__(
            self,
            api_key: ApiKey,
            build: Callable[[int], Asks[Answer]],
            parse: Callable[[Answer], Result_co],
            lowest: int = 0,
            highest: int | None = None,
        ) -> None:
            """`parse` reads the answer to the request that `build` makes."""

    def version(self, negotiated: Callable[[ApiKey, int], int | None], who: str) -> int:
        """The version of the request. `negotiated` returns the highest version that both sides speak and that is not
        above its argument.

        Raises KafkaError UNSUPPORTED_VERSION if the broker offers no suitable version.
        """
        version = negotiated(self.api_key, HIGHEST[self.api_key] if self.highest is None else self.highest)
        if version is None or version < self.lowest:
            raise KafkaError(ErrorCode.unsupported_version, f"{who} offers no version of {self.api_key.name} we speak")
        return version


def raise_error(code: ErrorCode, message: str | None, what: str) -> None:
    """Raises KafkaError with the broker's message, unless `code` is NONE."""
    if code is not ErrorCode.none:
        raise KafkaError(code, f"{what}: {message}" if message else what)
