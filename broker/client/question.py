"""One request and how its answer is read. The caller chooses the broker, asks again, or gives up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from broker.client.core.errors import KafkaError
from broker.client.protocol import HIGHEST
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Question(Generic[Result_co]):
    """`build` takes the version that is spoken. `parse` raises KafkaError for an error in the answer."""

    api_key: ApiKey
    build: Callable[[int], Message]
    parse: Callable[[Message], Result_co]
    lowest: int = 0  # an older version could not ask this
    highest: int | None = None  # None: what protocol.py says

    def version(self, negotiated: Callable[[ApiKey, int], int | None], who: str) -> int:
        """The version to ask in. `negotiated` gives the highest version that both sides speak, not above the given one.

        Raises KafkaError UNSUPPORTED_VERSION if the broker offers no suitable version.
        """
        version = negotiated(self.api_key, HIGHEST[self.api_key] if self.highest is None else self.highest)
        if version is None or version < self.lowest:
            raise KafkaError(ErrorCode.unsupported_version, f"{who} offers no version of {self.api_key.name} we speak")
        return version


def raise_error(code: ErrorCode, message: str | None, what: str) -> None:
    """KafkaError with the broker's words, unless `code` is NONE."""
    if code is not ErrorCode.none:
        raise KafkaError(code, f"{what}: {message}" if message else what)
