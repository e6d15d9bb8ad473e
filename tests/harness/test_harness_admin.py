"""Creating a topic when answers get lost: what may have been done already is no error the second time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from broker.client.core.errors import KafkaError
from broker.client.question import Question
from broker.wire.errors import ErrorCode
from harness.clusters.requests.admin import Admin, TopicNotCreated
from harness.errors import CellError

EXISTS, TIMED_OUT, NOT_CONTROLLER, REFUSED, DONE = 36, 7, 41, 37, 0
OURS = uuid4()


class ScriptedAdmin(Admin):
    """Brokers that answer by a list of error codes; None is no answer. `ids` are what Metadata tells, one by one."""

    def __init__(self, codes: list[int | None], ids: list[str | None]) -> None:
        super().__init__(lambda: ())
        self._codes, self._ids = codes, ids

    def answers(self, question: Question[Any]) -> Iterator[Any]:
        for code in self._codes:
            if code is None:
                yield KafkaError(ErrorCode.network_exception, "closed", definite=False)
            elif code == DONE:
                yield {"t": str(OURS)}
            else:
                yield KafkaError(code, "topic 't'")

    def topic_id(self, _name: str) -> str | None:
        return self._ids.pop(0) if self._ids else None


def create(codes: list[int | None], ids: list[str | None] | None = None) -> str | None:
    return ScriptedAdmin(codes, ids or [None, str(OURS)]).create_topic(
        "t", partitions=1, replication_factor=1, config={}
    )


@pytest.mark.parametrize("codes", [[DONE], [None, EXISTS], [TIMED_OUT, EXISTS], [NOT_CONTROLLER, DONE]])
def test_a_request_that_may_have_been_carried_out_is_not_an_error_when_it_was(codes: list[int | None]) -> None:
    assert create(codes) == str(OURS)


@pytest.mark.parametrize("codes", [[None, None], [TIMED_OUT, REFUSED], [REFUSED]])
def test_no_answer_at_all_is_an_error_and_tells_whether_the_topic_may_exist(codes: list[int | None]) -> None:
    with pytest.raises(TopicNotCreated, match="topic t with 1 partitions x 1 could not be created") as caught:
        create(codes)
    assert caught.value.may_exist is (codes != [REFUSED])


@pytest.mark.parametrize("codes", [[EXISTS], [NOT_CONTROLLER, EXISTS]])
def test_a_topic_of_somebody_else_is_an_error(codes: list[int | None]) -> None:
    with pytest.raises(CellError, match="made by somebody else: it is neither used nor deleted"):
        create(codes)


def test_a_topic_that_was_there_before_an_unanswered_request_is_somebody_elses() -> None:
    with pytest.raises(TopicNotCreated, match="made by somebody else") as caught:
        create([None, EXISTS], [str(uuid4()), str(OURS)])
    assert not caught.value.may_exist
