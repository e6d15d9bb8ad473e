"""Creating a topic when answers get lost: what may have been done already is no error the second time."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters.admin import Admin
from harness.errors import CellError

EXISTS, TIMED_OUT, NOT_CONTROLLER, DONE = 36, 7, 41, 0


class ScriptedAdmin(Admin):
    """Brokers that answer by a list of error codes; None is no answer."""

    def __init__(self, codes: list[int | None]) -> None:
        super().__init__(lambda: ())
        self._codes = codes

    def answers(self, *_arguments: Any, **_fields: Any) -> Iterator[Any]:
        for code in self._codes:
            result = SimpleNamespace(error_code=code, error_message="")
            yield None if code is None else SimpleNamespace(topics=[result])


def create(codes: list[int | None]) -> None:
    ScriptedAdmin(codes).create_topic("t", partitions=1, replication_factor=1, config={})


@pytest.mark.parametrize("codes", [[DONE], [None, EXISTS], [TIMED_OUT, EXISTS], [NOT_CONTROLLER, DONE]])
def test_a_request_that_may_have_been_carried_out_is_not_an_error_when_it_was(codes: list[int | None]) -> None:
    create(codes)


@pytest.mark.parametrize("codes", [[EXISTS], [NOT_CONTROLLER, EXISTS], [None, None]])
def test_a_topic_of_somebody_else_or_no_answer_at_all_is_an_error(codes: list[int | None]) -> None:
    with pytest.raises(CellError, match="topic t with 1 partitions x 1 could not be created"):
        create(codes)
