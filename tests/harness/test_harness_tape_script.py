"""`harness.tape`: the text of a tape, and what its scripted peer answers to which request."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from broker.wire.messages import build, request_type, response_type
from broker.wire.records import encode_batch
from chaos.toxiproxy.kafka.apis import API_KEYS
from harness.explore.trial.model import Do as MoveDo
from harness.explore.trial.model import Move
from harness.tape.fields import error_codes, from_plain, renamed, to_plain
from harness.tape.model import BYTES_MAX, FRAMES_MAX, Do, Frame, from_text, to_text
from harness.tape.partitions import OUT_OF_ORDER, Partitions
from harness.tape.script import Answer, Script, nodes_of
from harness.tape.state import Address
from harness.tape.transactions import PRODUCER_ID
from tests.harness.tapes import CLOSED, REFUSED, TRIAL, tape

HERE = {1: Address(host="127.0.0.1", port=4711)}


def ask(script: Script, api: str, version: int, **fields: Any) -> Any:
    """The decoded message that a request gets; None if nothing is sent."""
    request = build(request_type(API_KEYS[api], version), fields)
    frame = script.take(api, request)
    assert frame is not None, api
    answer = script.answer(frame, request)
    return None if answer.message is None else from_plain(response_type(API_KEYS[api], version), answer.message)


# --- the text ---------------------------------------------------------------------------------------------------------


def test_a_tape_is_read_back_as_it_was_written_and_its_first_line_is_the_command_that_plays_it() -> None:
    made = tape(REFUSED)
    text = to_text(made, name="stands-still.tape", client="--client confluent==2.4.0")
    assert from_text(text) == made
    assert text.splitlines()[0] == "# harness tape play stands-still.tape --client confluent==2.4.0"


@pytest.mark.parametrize(
    ("line", "wrong", "message"),
    [
        (0, "{}", "line 3: tape: None, this version reads 1 and 2"),
        (0, '{"tape": 1}', "line 3: client is missing"),
        (1, "[]", "line 4: expected an object"),
        (1, "{", "line 4: no JSON"),
        (1, '{"api": "Metdata", "version": 1, "do": "answer"}', "line 4: there is no API 'Metdata'"),
        (1, '{"api": "Metadata", "version": 1, "do": "answr"}', "line 4: 'answr' is not a valid Do"),
        (1, '{"api": "Metadata", "version": 1}', "line 4: do is missing"),
        (1, '{"api": "Metadata", "version": 1, "do": "answer", "msg": {}}', "line 4: .*msg"),
        (2, '{"api": "ApiVersions", "version": 1, "do": "answer"}', "line 5: a second frame for the same request"),
    ],
)
def test_what_is_no_tape_is_told_with_its_line(line: int, wrong: str, message: str) -> None:
    lines = to_text(tape(REFUSED), name="t", client="c").splitlines()
    lines[2 + line] = wrong
    with pytest.raises(ValueError, match=message):
        from_text("\n".join(lines))


def test_a_tape_is_bounded() -> None:
    text = to_text(tape(REFUSED), name="t", client="c")
    frame = json.dumps({"api": "Heartbeat", "version": 1, "do": "answer"})
    many = [frame.replace('"do"', f'"request": {number}, "do"') for number in range(FRAMES_MAX)]
    with pytest.raises(ValueError, match=f"at most {FRAMES_MAX}"):
        from_text(text + "\n".join(many))
    with pytest.raises(ValueError, match="at most 65,536"):
        from_text(text + "#" * BYTES_MAX)


@pytest.mark.parametrize("frame", tape(REFUSED).frames, ids=lambda frame: f"{frame.api}-{frame.request}")
def test_messages_become_json_and_come_back(frame: Frame) -> None:
    kind = response_type(API_KEYS[frame.api], frame.version)
    message = from_plain(kind, json.loads(json.dumps(frame.message)))
    assert from_plain(kind, json.loads(json.dumps(to_plain(message)))) == message


def test_error_codes_are_found_and_names_replaced_wherever_they_stand() -> None:
    plain = {"error_code": 0, "groups": [{"group_id": "explore-1-group", "error_code": 16}]}
    assert list(error_codes(plain)) == [16]
    assert renamed(plain, {"explore-1": "tape"})["groups"][0]["group_id"] == "tape-group"


# --- the script -------------------------------------------------------------------------------------------------------


def offset_fetch(script: Script) -> Any:
    topics = [{"name": "tape", "partition_indexes": (0, 1)}]
    return ask(script, "OffsetFetch", 9, groups=[{"group_id": "tape-group", "topics": topics}])


def test_a_frame_for_one_request_is_sent_to_that_one_and_no_other() -> None:
    script = Script(tape(REFUSED), HERE)
    assert not script.is_spent(0)
    assert [int(offset_fetch(script).groups[0].error_code) for _ in range(3)] == [16, 0, 0]
    assert script.is_spent(0)
    assert script.met == 1


def test_the_healthy_twin_never_sends_it() -> None:
    script = Script(tape(REFUSED).healthy, HERE)
    assert int(offset_fetch(script).groups[0].error_code) == 0
    assert script.is_spent(0)


def test_a_connection_ends_where_the_tape_says_so() -> None:
    script = Script(tape(CLOSED), HERE)
    frame = script.take("OffsetFetch")
    assert frame is not None
    assert script.answer(frame, None).do is Do.CLOSE


def test_what_was_committed_is_what_is_fetched_also_when_the_answer_said_an_error() -> None:
    topics = [{"name": "tape", "partitions": [{"partition_index": 1, "committed_offset": 4}]}]
    refused = {"topics": [{"name": "tape", "partitions": [{"partition_index": 1, "error_code": 7}]}]}
    for is_after_work, committed in ((True, 4), (False, -1)):
        own = Frame(api="OffsetCommit", version=8, request=1, is_after_work=is_after_work, message=refused)
        script = Script(tape(own), HERE)
        answer = ask(script, "OffsetCommit", 8, group_id="tape-group", topics=topics)
        assert int(answer.topics[0].partitions[0].error_code) == 7
        assert [part.committed_offset for part in offset_fetch(script).groups[0].topics[0].partitions] == [
            -1,
            committed,
        ]


def test_brokers_are_where_the_peer_is() -> None:
    script = Script(tape(), HERE)
    metadata = ask(script, "Metadata", 12, topics=None)
    assert [(each.host, each.port) for each in metadata.brokers] == [("127.0.0.1", 4711)]
    coordinator = ask(script, "FindCoordinator", 2, key="tape-group", key_type=0)
    assert (coordinator.host, coordinator.port) == ("127.0.0.1", 4711)


def test_a_topic_that_the_tape_does_not_have_is_unknown() -> None:
    topics = [{"name": "tape", "topic_id": None}, {"name": "other", "topic_id": None}]
    found = ask(Script(tape(), HERE), "Metadata", 12, topics=topics)
    assert [(topic.name, int(topic.error_code)) for topic in found.topics] == [("tape", 0), ("other", 3)]


def test_no_newer_version_is_offered_than_was_recorded() -> None:
    found = ask(Script(tape(), HERE), "ApiVersions", 3)
    newest = {each.api_key: each.max_version for each in found.api_keys}
    assert (newest[API_KEYS["OffsetFetch"]], newest[API_KEYS["JoinGroup"]]) == (9, 5)


def test_a_member_leads_with_its_own_subscription_and_gets_its_own_assignment() -> None:
    script = Script(tape(), HERE)
    joined = ask(
        script,
        "JoinGroup",
        5,
        group_id="tape-group",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"topics"}],
    )
    assert joined.leader == joined.member_id == joined.members[0].member_id
    assert (joined.protocol_name, joined.members[0].metadata, joined.generation_id) == ("range", b"topics", 1)
    assignments = [{"member_id": joined.member_id, "assignment": b"all"}]
    synced = ask(script, "SyncGroup", 3, member_id=joined.member_id, generation_id=1, assignments=assignments)
    assert synced.assignment == b"all"


def fetched(script: Script, offset: int, bytes_max: int = 1 << 20) -> Any:
    parts = [{"partition": 1, "fetch_offset": offset, "partition_max_bytes": bytes_max}]
    return ask(script, "Fetch", 12, topics=[{"topic": "tape", "partitions": parts}]).responses[0].partitions[0]


def test_records_come_from_the_offset_that_is_asked_for() -> None:
    script = Script(tape(), HERE)
    part = fetched(script, 3)
    assert (part.high_watermark, int.from_bytes(part.records[:8], "big")) == (5, 3)
    assert len(fetched(script, 0, bytes_max=1).records) * 5 == len(fetched(script, 0).records), "at least one batch"
    assert not fetched(script, 5).records
    assert int(fetched(script, 6).error_code) == 1
    script.state.partitions.write_others(2)
    assert fetched(script, 5).records


def test_what_follows_from_the_request_needs_no_frame_and_anything_else_is_told() -> None:
    script = Script(tape(), HERE)
    assert int(ask(script, "Heartbeat", 3, group_id="tape-group", generation_id=1, member_id="m").error_code) == 25
    assert script.take("DescribeCluster") is None
    assert dict(script.missing) == {"DescribeCluster": 1}


# --- errors that are made from the request ----------------------------------------------------------------------------

STORAGE_ERROR, TIMED_OUT, UNKNOWN_MEMBER = 56, 7, 25
STORAGE = Frame(api="Produce", version=9, request=2, do=Do.ERROR, code=STORAGE_ERROR)


def plain_batch() -> bytes:
    return encode_batch([b"v"], timestamps_ms=0)


def produce(script: Script, *partitions: int, acks: int = -1) -> list[tuple[int, int]]:
    data = [{"index": one, "records": plain_batch()} for one in partitions]
    found = ask(script, "Produce", 9, acks=acks, topic_data=[{"name": "tape", "partition_data": data}])
    return [(each.index, int(each.error_code)) for each in found.responses[0].partition_responses]


def with_produce(*frames: Frame) -> Script:
    made = tape(Frame(api="Produce", version=9), *frames)
    return Script(made, HERE)


def test_an_error_names_the_partitions_of_the_request_that_it_answers() -> None:
    """The frame of a cluster names those of a request there. A client that is told of another partition than it asked
    for takes that for a broken broker."""
    script = with_produce(STORAGE)
    assert [produce(script, 0), produce(script, 1, 0), produce(script, 1)] == [
        [(0, 0)],
        [(1, STORAGE_ERROR), (0, STORAGE_ERROR)],
        [(1, 0)],
    ]
    assert script.state.partitions.ends == {0: 6, 1: 6}, "five are there before, and what was refused is not"


def test_an_error_after_the_work_says_that_it_was_not_done_although_it_was() -> None:
    script = with_produce(Frame(api="Produce", version=9, request=1, do=Do.ERROR, code=TIMED_OUT, is_after_work=True))
    assert produce(script, 0) == [(0, TIMED_OUT)]
    assert script.state.partitions.ends[0] == 6


def test_an_error_that_took_its_time_is_late() -> None:
    """librdkafka changes the order of what it was given while a refusal is awaited. A peer that refused at once never
    showed it."""
    late = replace(STORAGE, request=1, late_ms=200)
    request = build(request_type(API_KEYS["Produce"], 9), {"topic_data": []})
    answer = with_produce(late).answer(late, request)
    assert (answer.do, answer.late_ms, answer.message is not None) == (Do.LATE, 200, True)


def test_an_error_waits_for_a_request_that_a_broker_could_answer_so() -> None:
    """No broker says NOT_ENOUGH_REPLICAS to who waits for no replica."""
    script = with_produce(Frame(api="Produce", version=9, request=1, do=Do.ERROR, code=19))
    assert [produce(script, 0, acks=1), produce(script, 0)] == [[(0, 0)], [(0, 19)]]
    assert script.is_spent(0)


def test_an_error_of_metadata_still_names_the_brokers() -> None:
    script = Script(tape(Frame(api="Metadata", version=12, request=1, do=Do.ERROR, code=5)), HERE)
    found = ask(script, "Metadata", 12, topics=[{"name": "tape", "topic_id": UUID(int=0)}])
    assert [(each.node_id, each.port) for each in found.brokers] == [(1, 4711)]
    assert {int(part.error_code) for part in found.topics[0].partitions} == {5}


def test_what_lasts_meets_each_request_until_its_time_is_over_however_many_there_are() -> None:
    """A peer answers faster than a cluster. A fixed number of refusals was over before the client's bug showed."""
    script = with_produce(replace(STORAGE, lasting_ms=4_000))
    codes = []
    for now_ms in (0, 100, 200, 4_099, 4_100):
        request = build(
            request_type(API_KEYS["Produce"], 9),
            {"acks": -1, "topic_data": [{"name": "tape", "partition_data": [{"index": 0}]}]},
        )
        frame = script.take("Produce", request, now_ms)
        assert frame is not None
        message = script.answer(frame, request, now_ms).message
        assert message is not None
        codes.append(message["responses"][0]["partition_responses"][0].get("error_code", 0))
        assert script.is_disturbing(now_ms) is (100 <= now_ms < 4_100)
    assert codes == [0, STORAGE_ERROR, STORAGE_ERROR, STORAGE_ERROR, 0]
    assert (script.met, script.is_spent(4_100)) == (3, True)


@pytest.mark.parametrize("is_after_work", [False, True])
def test_a_silence_ends_when_it_did_and_then_the_request_is_answered(is_after_work: bool) -> None:
    """On a cluster the answer comes at last, to a connection that the client may have given up by then."""
    silent = Frame(api="Produce", version=9, request=1, do=Do.SILENCE, late_ms=4_000, is_after_work=is_after_work)
    script = with_produce(silent)
    request = build(
        request_type(API_KEYS["Produce"], 9),
        {"acks": -1, "topic_data": [{"name": "tape", "partition_data": [{"index": 0, "records": plain_batch()}]}]},
    )
    frame = script.take("Produce", request, 1_000)
    assert frame is not None
    answer = script.answer(frame, request, 1_000)
    assert (answer.do, answer.late_ms, answer.message is None) == (Do.SILENCE, 4_000, not is_after_work)
    assert script.state.partitions.ends[0] == 5 + is_after_work
    assert [script.is_disturbing(now_ms) for now_ms in (4_999, 5_000)] == [True, False]
    healed = script.answer(script.healthy(frame), request, 5_000)
    assert healed.message is not None
    assert healed.message["responses"][0]["partition_responses"][0]["error_code"] == 0


# --- several members, several brokers ---------------------------------------------------------------------------------


def test_a_join_has_no_answer_as_long_as_another_member_is_waited_for() -> None:
    trial = replace(TRIAL, program=replace(TRIAL.program, moves=(Move(do=MoveDo.SUBSCRIBE, member=1),)))
    script = Script(replace(tape(), trial=trial), HERE)
    protocols = [{"name": "range", "metadata": b"m"}]

    def join(member_id: str) -> Answer:
        fields = {"group_id": "g", "protocol_type": "consumer", "member_id": member_id, "protocols": protocols,
                  "session_timeout": timedelta(seconds=6), "rebalance_timeout": timedelta(seconds=60)}  # fmt: skip
        request = build(request_type(API_KEYS["JoinGroup"], 5), fields)
        frame = script.take("JoinGroup", request, 0)
        assert frame is not None
        return script.answer(frame, request, 0)

    first = join("").message
    assert first is not None
    second = join("")
    assert second.message is None
    assert second.later is not None
    assert second.later.ask(0) is None
    join(first["member_id"])
    found = second.later.ask(0)
    assert found is not None
    assert (found["error_code"], found["leader"]) == (0, first["member_id"])


def test_each_broker_of_the_cluster_that_was_recorded_has_an_address_of_its_own() -> None:
    brokers = [{"node_id": node, "host": "broker.example", "port": 9092} for node in (1, 2)]
    metadata = next(frame for frame in tape().frames if frame.api == "Metadata")
    made = replace(tape(), frames=(replace(metadata, message={**metadata.message, "brokers": brokers}),))
    assert nodes_of(made) == (1, 2)
    script = Script(made, {node: Address(host="127.0.0.1", port=4710 + node) for node in (1, 2)})
    found = ask(script, "Metadata", 12, topics=None)
    assert [(each.node_id, each.host, each.port) for each in found.brokers] == [
        (1, "127.0.0.1", 4711),
        (2, "127.0.0.1", 4712),
    ]


# --- what a producer sends --------------------------------------------------------------------------------------------


def batch(sequence: int, *values: bytes) -> bytes:
    return encode_batch(
        list(values), timestamps_ms=0, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence
    )


def test_a_batch_of_an_idempotent_producer_is_appended_once() -> None:
    partitions = Partitions(1, 0)
    assert partitions.append(0, batch(0, b"a", b"b")) == (0, 0)
    assert partitions.append(0, batch(2, b"c")) == (0, 2)
    assert partitions.append(0, batch(0, b"a", b"b")) == (0, 0)
    assert partitions.append(0, batch(7, b"x")) == (OUT_OF_ORDER, -1)
    assert [(one.offset, one.value) for one in partitions.logged()] == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_without_idempotence_a_repetition_is_there_twice() -> None:
    partitions = Partitions(1, 0)
    plain = encode_batch([b"a"], timestamps_ms=0)
    assert [partitions.append(0, plain) for _ in range(2)] == [(0, 0), (0, 1)]
    assert partitions.ends == {0: 2}
    assert int.from_bytes(partitions.fetch(0, 1, 1 << 20)[:8], "big") == 1
