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
from harness.explore.trial.model import Disturbance, How, Move, Role
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
    refused = by_api["OffsetFetch", 1]
    assert (refused.do, refused.code, refused.message) == (Do.ERROR, NOT_COORDINATOR, {})
    assert not {"generation_id", "leader", "member_id"} & by_api["JoinGroup", 0].message.keys()


def test_both_runs_have_one_topic_with_one_id() -> None:
    """An answer of the disturbed run named the other one, and franz-go 1.22.2 was told that its topic is not there."""
    other = "11111111-1111-1111-1111-111111111111"
    topic = {**METADATA["topics"][0], "name": "explore-a-2", "topic_id": other, "error_code": 5}  # type: ignore[index]
    own = exchange("Metadata", 12, {**METADATA, "topics": [topic]})
    trial = replace(TRIAL, disturbance=Disturbance(api="Metadata", how=How.ERROR_AFTER, code=5))
    found = tape_of(trial, SHOWN, [own], QUIET, client="a client 1", names=["explore-a-1", "explore-a-2"])
    ids = {each["topic_id"] for frame in found.frames for each in frame.message.get("topics", ())}
    assert ids == {METADATA["topics"][0]["topic_id"]}  # type: ignore[index]


@pytest.mark.parametrize(
    ("how", "outcome", "do", "is_after_work", "late_ms"),
    [
        (How.CLOSED_BEFORE, ExchangeOutcome.UNANSWERED, Do.CLOSE, False, 0),
        (How.CLOSED_AFTER, ExchangeOutcome.DROPPED, Do.CLOSE, True, 0),
        (How.SILENCE_BEFORE, ExchangeOutcome.UNANSWERED, Do.SILENCE, False, 4_000),
        (How.SILENCE_AFTER, ExchangeOutcome.DROPPED, Do.SILENCE, True, 4_000),
        (How.SILENCE_BEFORE, ExchangeOutcome.DELIVERED, Do.SILENCE, False, 4_000),  # when it was healed
        (How.LATE, ExchangeOutcome.DELIVERED, Do.LATE, True, 3_000),
        (How.ERROR_AFTER, ExchangeOutcome.REPLACED, Do.ERROR, True, 0),
    ],
)
def test_each_disturbance_has_its_kind_of_frame(
    how: How, outcome: ExchangeOutcome, do: Do, is_after_work: bool, late_ms: int
) -> None:
    found = made(exchange("OffsetFetch", 9, REFUSED_AGAIN, outcome=outcome, toxics=("t",)), how)
    frame = found.frames[-1]
    assert (frame.api, frame.do, frame.is_after_work, frame.late_ms) == (
        "OffsetFetch",
        do,
        is_after_work,
        late_ms,
    )


def test_a_disturbed_answer_that_is_not_in_the_log_makes_no_tape() -> None:
    with pytest.raises(NotTaped, match="request 1 of OffsetFetch is not in the log"):
        made(exchange("OffsetFetch", 9, None, outcome=ExchangeOutcome.ALTERED, toxics=("t",)), How.ALTERED)


@pytest.mark.parametrize(("took_ms", "late_ms"), [(3, 0), (201, 201)])
def test_a_refusal_that_took_long_is_as_late_in_the_tape(took_ms: int, late_ms: int) -> None:
    refused = exchange("OffsetFetch", 9, REFUSED_AGAIN, outcome=ExchangeOutcome.REFUSED, toxics=("t",))
    assert made(replace(refused, ended_ns=took_ms * 1_000_000)).frames[-1].late_ms == late_ms


def test_a_disturbance_until_healing_is_one_frame_that_lasts_as_long() -> None:
    """With a frame for each request that it met, a faster client was out of them long before it was healed there."""
    trial = replace(TRIAL, disturbance=replace(TRIAL.disturbance, count=0, heal_after_ms=4_000))  # type: ignore[type-var]
    refused = exchange("OffsetFetch", 9, REFUSED_AGAIN, outcome=ExchangeOutcome.REFUSED, toxics=("t",))
    found = tape_of(trial, SHOWN, [*QUIET, *[refused] * 900], QUIET, client="a client 1", names=["explore-a-1"])
    last = found.frames[-1]
    assert of(found, is_script=True) == [("JoinGroup", 1), ("OffsetFetch", 2)]
    assert (last.do, last.code, last.lasting_ms) == (Do.ERROR, NOT_COORDINATOR, 4_000)


def test_what_shows_without_a_disturbance_becomes_a_tape_without_a_fault() -> None:
    found = tape_of(TRIAL.control, SHOWN, QUIET, QUIET, client="a client 1", names=["explore-a-1"])
    assert not found.has_fault
    assert cut(found, lambda _: pytest.fail("there is nothing to cut")) == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"moves": (Move(do=MoveDo.SEND_OFFSETS),)}, "cannot carry send offsets"),
        ({"moves": (Move(do=MoveDo.MOVE_LEADER, partition=1),)}, "cannot carry leader moves of partition 1"),
        ({"moves": (Move(do=MoveDo.RUN),)}, "cannot carry run the program"),
        ({"role": Role.COPIER}, "no copies"),
        ({"properties": {"group.protocol": "consumer"}}, "KIP-848"),
    ],
)
def test_what_a_peer_cannot_carry_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(NotTaped, match=message):
        check(replace(TRIAL, program=replace(TRIAL.program, **change)))


@pytest.mark.parametrize(
    "moves",
    [
        (Move(do=MoveDo.BEGIN), Move(do=MoveDo.COMMIT_TRANSACTION)),
        (Move(do=MoveDo.SUBSCRIBE, member=1),),
        (Move(do=MoveDo.ARRIVE_ABORTED, count=3), Move(do=MoveDo.COMMIT_IN_POLL)),
    ],
)
def test_transactions_members_and_calls_at_once_are_carried(moves: tuple[Move, ...]) -> None:
    check(replace(TRIAL, program=replace(TRIAL.program, moves=moves)))


def test_a_race_that_is_seldom_lost_is_given_several_plays() -> None:
    """A refusal disorders librdkafka only where later records are of the same partition, and that one is drawn."""
    plays: list[Tape] = []

    def shows(candidate: Tape) -> bool:
        plays.append(candidate)
        return len(plays) >= 3

    whole = tape(*numbered("OffsetFetch", 1))
    assert cut(whole, shows) == whole
    assert plays == [whole] * 3


def test_a_fault_that_a_faster_peer_meets_at_another_request_is_found_there() -> None:
    def shows(candidate: Tape) -> bool:
        return ("OffsetFetch", 3) in of(candidate, is_script=True)

    whole = tape(*numbered("OffsetFetch", 5)[4:])
    assert of(cut(whole, shows), is_script=True) == [("OffsetFetch", 3)]
    nowhere = cut(whole, lambda _: False)
    assert nowhere == whole, "and if it is nowhere, the tape stays what was recorded"


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
