"""`harness.tape.record`: which frames of two runs become a tape, and how it is cut down."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from broker.wire.messages import response_type
from chaos.toxiproxy.kafka.apis import API_KEYS
from chaos.toxiproxy.kafka.messages import encode_response
from harness.explore.oracles.oracles import Kind, Suspicion
from harness.explore.trial.model import Disturbance, How, Move
from harness.explore.trial.model import Do as MoveDo
from harness.tape.fields import from_plain
from harness.tape.model import Do, Frame, Tape
from harness.tape.record import NotTaped, check, cut, tape_of
from runlog.records.exchange import ExchangeOutcome, KafkaExchange
from tests.harness.tapes import API_VERSIONS, HEALTHY, METADATA, NOT_COORDINATOR, TRIAL, tape

SHOWN = Suspicion(kind=Kind.STUCK, what="10 of 10 records unread", count=1)
REFUSED_AGAIN = {"groups": [{"group_id": "explore-a-2-group", "error_code": NOT_COORDINATOR}]}
NEEDS_ID = {"error_code": 79, "member_id": "m"}


def exchange(
    api: str,
    version: int,
    message: Mapping[str, Any] | None,
    *,
    outcome: ExchangeOutcome = ExchangeOutcome.DELIVERED,
    toxics: tuple[str, ...] = (),
) -> KafkaExchange:
    key = API_KEYS[api]
    response = None
    if message is not None:
        frame = encode_response(key, version, 7, from_plain(response_type(key, version), message))
        response = base64.b64encode(frame).decode()
    return KafkaExchange(
        mono_ns=0,
        ended_ns=0,
        proxy="client-1",
        connection=1,
        client_id="explore-a-1",
        api=api,
        api_version=version,
        correlation_id=7,
        request_bytes=1,
        outcome=outcome,
        is_forwarded=outcome in (ExchangeOutcome.DELIVERED, ExchangeOutcome.REPLACED, ExchangeOutcome.DROPPED),
        toxics=toxics,
        response=response,
    )


QUIET = [
    exchange("ApiVersions", 3, API_VERSIONS),
    exchange("Metadata", 12, {**METADATA, "topics": [{**METADATA["topics"][0], "name": "explore-a-1"}]}),  # type: ignore[index]
    exchange("JoinGroup", 5, NEEDS_ID),
    exchange("JoinGroup", 5, {"generation_id": 3, "leader": "m", "member_id": "m"}),
    exchange("OffsetFetch", 9, {"groups": [{"group_id": "explore-a-1-group"}]}),
]


def disturbed(last: KafkaExchange) -> list[KafkaExchange]:
    return [*QUIET[:2], exchange("JoinGroup", 5, NEEDS_ID), QUIET[3], last]


def made(last: KafkaExchange, how: How = How.ERROR_BEFORE) -> Tape:
    disturbance = Disturbance(api="OffsetFetch", how=how, code=NOT_COORDINATOR, late_ms=3_000)
    trial = replace(TRIAL, disturbance=disturbance)
    names = ["explore-a-1", "explore-a-2"]
    return tape_of(trial, SHOWN, disturbed(last), QUIET, client="a client 1", names=names)


def of(tape: Tape, *, is_script: bool) -> list[tuple[str, int]]:
    return [(frame.api, frame.request) for frame in tape.frames if frame.is_script is is_script]


def test_each_api_has_one_healthy_answer_and_each_error_stands_with_the_number_of_its_request() -> None:
    found = made(exchange("OffsetFetch", 9, REFUSED_AGAIN, outcome=ExchangeOutcome.REFUSED, toxics=("t",)))
    assert of(found, is_script=False) == [("ApiVersions", 0), ("Metadata", 0), ("JoinGroup", 0), ("OffsetFetch", 0)]
    assert of(found, is_script=True) == [("JoinGroup", 1), ("OffsetFetch", 1)]


def test_a_tape_has_names_of_its_own_and_nothing_that_the_peer_writes_anew() -> None:
    found = made(exchange("OffsetFetch", 9, REFUSED_AGAIN, outcome=ExchangeOutcome.REFUSED, toxics=("t",)))
    by_api = {(frame.api, frame.request): frame for frame in found.frames}
    assert by_api["Metadata", 0].message["topics"][0]["name"] == "tape"
    assert by_api["OffsetFetch", 1].message["groups"][0]["group_id"] == "tape-group"
    assert not {"generation_id", "leader", "member_id"} & by_api["JoinGroup", 0].message.keys()


@pytest.mark.parametrize(
    ("how", "outcome", "do", "is_after_work"),
    [
        (How.CLOSED_BEFORE, ExchangeOutcome.UNANSWERED, Do.CLOSE, False),
        (How.CLOSED_AFTER, ExchangeOutcome.DROPPED, Do.CLOSE, True),
        (How.SILENCE_BEFORE, ExchangeOutcome.UNANSWERED, Do.SILENCE, False),
        (How.SILENCE_AFTER, ExchangeOutcome.DROPPED, Do.SILENCE, True),
        (How.LATE, ExchangeOutcome.DELIVERED, Do.LATE, True),
        (How.ERROR_AFTER, ExchangeOutcome.REPLACED, Do.ANSWER, True),
    ],
)
def test_each_disturbance_has_its_kind_of_frame(
    how: How, outcome: ExchangeOutcome, do: Do, is_after_work: bool
) -> None:
    found = made(exchange("OffsetFetch", 9, REFUSED_AGAIN, outcome=outcome, toxics=("t",)), how)
    frame = found.frames[-1]
    assert (frame.api, frame.do, frame.is_after_work, frame.late_ms) == (
        "OffsetFetch",
        do,
        is_after_work,
        3_000 if how is How.LATE else 0,
    )


def test_a_disturbed_answer_that_is_not_in_the_log_makes_no_tape() -> None:
    with pytest.raises(NotTaped, match="request 1 of OffsetFetch is not in the log"):
        made(exchange("OffsetFetch", 9, None, outcome=ExchangeOutcome.REFUSED, toxics=("t",)))


def test_transactions_are_refused() -> None:
    moves = (Move(do=MoveDo.BEGIN), Move(do=MoveDo.COMMIT_TRANSACTION))
    with pytest.raises(NotTaped, match="transactions"):
        check(replace(TRIAL, program=replace(TRIAL.program, moves=moves)))


def numbered(api: str, count: int) -> list[Frame]:
    return [Frame(api=api, version=5, request=number) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    "needed",
    [
        {("OffsetFetch", 1)},
        {("OffsetFetch", 2), ("OffsetFetch", 5)},
        {("JoinGroup", 3), ("OffsetFetch", 4)},
    ],
)
def test_what_need_not_be_there_is_left_out_and_what_must_stays(needed: set[tuple[str, int]]) -> None:
    whole = tape(*numbered("JoinGroup", 6), *numbered("OffsetFetch", 6))

    def shows(candidate: Tape) -> bool:
        return needed <= {(frame.api, frame.request) for frame in candidate.frames}

    found = cut(whole, shows, cuts_max=200)
    assert set(of(found, is_script=True)) == needed
    assert of(found, is_script=False) == [(frame.api, 0) for frame in HEALTHY]


def test_cutting_has_a_bound_and_never_ends_with_a_tape_that_was_not_seen_to_show_it() -> None:
    plays: list[Tape] = []

    def shows(candidate: Tape) -> bool:
        plays.append(candidate)
        return len(candidate.frames) % 2 == 0

    found = cut(tape(*numbered("JoinGroup", 40)), shows, cuts_max=7)
    assert len(plays) <= 7
    assert found in plays or len(found.frames) == len(HEALTHY) + 40
