"""Waits for the answers to several questions of one request. It is for APIs that name many groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

R = TypeVar("R")


class Gather(Generic[R]):
    """Calls `done(results)` once, with the results in the order of the questions. If there are no questions, calls it
    at once."""

    def __init__(self, count: int, done: Callable[[list[R]], None]) -> None:
        self._results: list[R | None] = [None] * count
        self._waiting, self._done = count, done
        if count == 0:
            done([])

    def slot(self, position: int) -> Callable[[R], None]:
        """The function that takes the answer to this question. It must be called exactly once."""

        def put(result: R) -> None:
            assert self._results[position] is None, "one answer a question"
            self._results[position] = result
            self._waiting -= 1
            if self._waiting == 0:
                self._done([each for each in self._results if each is not None])

        return put
