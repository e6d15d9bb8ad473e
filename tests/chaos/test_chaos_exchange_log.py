"""The exchange log: what its lines say about each exchange, whatever the API, and where it ends."""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.wire.errors import ErrorCode
from chaos.toxiproxy.calls import InvalidRequest, NotFound
from chaos.toxiproxy.kafka.apis import API_KEYS, SELECTORS
from chaos.toxiproxy.kafka.exchange_log import ExchangeLog, Watch
from chaos.toxiproxy.lookup import start_embedded
from chaos.toxiproxy.states import ProxySpec
from chaos.toxiproxy.toxic import Toxic
from runlog.records.codec import RecordError
from runlog.records.exchange import ExchangeOutcome, ExchangesStopped, KafkaExchange, read_exchanges
from tests.chaos import kafka_frames as kf
from tests.chaos.conftest import Upstream
from tests.chaos.kafka_samples import CLIENT_ID, VERSIONS, response_frame, sample_response
from tests.chaos.kafka_wire import Wire, request, response, toxic

REBALANCE = 27


class Log:
    """An exchange log in a file, and taps that write it."""

    def __init__(self, path: Path) -> None:
        self.path, self.log = path, ExchangeLog(path)

    def wire(self, *toxics: Toxic, watch: Watch | None = None) -> Wire:
        wire = Wire(list(toxics))
        wire.settings.exchange_log, wire.settings.watch = self.log, watch or Watch()
        return wire

    def records(self) -> list[KafkaExchange | ExchangesStopped]:
        assert not self.log.file.problem_after(60)
        return list(read_exchanges(self.path))

    def exchanges(self) -> list[KafkaExchange]:
        return [record for record in self.records() if isinstance(record, KafkaExchange)]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "exchanges.jsonl")
    yield log
    log.log.close()


def test_a_line_says_what_was_asked_and_what_came_of_it(log: Log) -> None:
    wire = log.wire()
    before_ns = time.monotonic_ns()
    wire.send(request(7))
    wire.answer(response(7))
    [line] = log.exchanges()
    assert before_ns <= line.mono_ns <= line.ended_ns <= time.monotonic_ns()
    assert (line.proxy, line.connection, line.client_id) == ("p", 1, CLIENT_ID)
    assert (line.api, line.api_version, line.correlation_id) == ("Heartbeat", 4, 7)
    assert (line.request_bytes, line.response_bytes) == (len(request(7)), len(response(7)))
    assert line.groups == ("group_id-0",)
    assert (line.outcome, line.is_forwarded, line.error_codes, line.toxics) == ("delivered", True, (), ())
    assert (line.request, line.response) == (None, None)


@pytest.mark.parametrize("api", sorted(API_KEYS))
def test_every_api_has_a_line_with_what_it_names(log: Log, api: str) -> None:
    version = {"SaslHandshake": 1}.get(api) or max(number for each, _, number in VERSIONS if each == api)
    wire = log.wire()
    wire.send(request(1, api, version))
    wire.answer(response(1, api, version))
    [line] = log.exchanges()
    assert (line.api, line.outcome, line.error_codes) == (api, "delivered", ())
    if api != "FindCoordinator":  # its keys are of one kind: the sample has another kind
        assert bool(line.groups) is ("group" in SELECTORS[api])
        assert bool(line.transactional_ids) is ("transactional_id" in SELECTORS[api])
    assert bool(line.partitions) is ("topic" in SELECTORS[api]) or api == "Produce"  # the sample has no batches


def test_the_outcome_and_the_toxic_are_told(log: Log) -> None:
    cases = [
        (toxic("kafka_refuse_request", error_code=REBALANCE), "refused", False, (REBALANCE,)),
        (toxic("kafka_edit_response", error_code=REBALANCE), "replaced", True, (REBALANCE,)),
        (toxic("kafka_edit_response", throttle_ms=5), "altered", True, ()),
        (toxic("kafka_close_connection", when="after"), "dropped", True, ()),
        (toxic("kafka_close_connection"), "unanswered", False, None),
        (toxic("kafka_silence"), "unanswered", False, None),
        (toxic("kafka_silence", when="after"), "dropped", True, ()),
        (toxic("kafka_delay_response", delay_ms=5), "delivered", True, ()),
        (toxic("kafka_cut_frame", frame="response", at_byte=9), "dropped", True, ()),
    ]
    for acting, _, is_answered, _ in cases:
        wire = log.wire(acting)
        wire.send(request(1))
        if is_answered:
            wire.answer(response(1))
        wire.pass_ms(10)
        wire.tap.closed()
    found = [(line.outcome.value, line.is_forwarded, line.error_codes, line.toxics) for line in log.exchanges()]
    assert found == [(outcome, is_forwarded, codes, ("t",)) for _, outcome, is_forwarded, codes in cases]


def test_the_codes_of_all_entries_are_told_each_once(log: Log) -> None:
    wire = log.wire(toxic("kafka_edit_response", api="Produce", partition=2, error_code=6))
    wire.send(kf.produce_frame(9, 1, partitions=(0, 1, 2)))
    wire.answer(kf.produce_response_frame(9, 1, {0: (0, 5), 1: (7, -1), 2: (0, 9)}))
    [line] = log.exchanges()
    assert line.error_codes == (6, 7)
    share_fetch = sample_response(78, 2)
    topic = share_fetch.responses[0]
    parts = (replace(topic.partitions[0], acknowledge_error_code=ErrorCode.invalid_record_state), topic.partitions[1])
    wire.send(request(2, "ShareFetch", 2))
    answer = response_frame(78, 2, replace(share_fetch, responses=(replace(topic, partitions=parts),)))
    wire.answer(answer[:4] + (2).to_bytes(4, "big") + answer[8:])
    assert log.exchanges()[-1].error_codes == (int(ErrorCode.invalid_record_state),)


def test_a_toxic_that_could_not_act_is_not_named(log: Log) -> None:
    wire = log.wire(toxic("kafka_edit_response", api="Fetch", topic="other", error_code=6))
    wire.send(request(1, "Fetch", 12))
    wire.answer(response(1, "Fetch", 12))
    assert [line.toxics for line in log.exchanges()] == [()]


def test_only_the_clients_that_were_asked_for_have_lines(log: Log) -> None:
    for client_ids, lines in ((frozenset({"other"}), 0), (frozenset({CLIENT_ID, "other"}), 1)):
        wire = log.wire(watch=Watch(client_ids=client_ids))
        wire.send(request(1))
        wire.answer(response(1))
        assert len(log.exchanges()) == lines


def test_a_proxy_that_was_not_asked_reads_nothing(log: Log) -> None:
    wire = log.wire()
    wire.settings.watch = None
    assert wire.tap.passes_unread()
    wire.send(request(1))
    wire.answer(response(1))
    assert log.exchanges() == []


def test_frames_are_in_the_lines_if_they_are_asked_for_and_short_enough(log: Log) -> None:
    for size_bytes in (len(request(1)), len(request(1)) - 1):
        wire = log.wire(watch=Watch(frame_bytes_max=size_bytes))
        wire.send(request(1))
        wire.answer(response(1))
    with_frames, without = log.exchanges()
    assert b64decode(with_frames.request or "") == request(1)
    assert b64decode(with_frames.response or "") == response(1)
    assert without.request is None


def test_the_log_ends_at_its_size_and_says_so(log: Log) -> None:
    watch = Watch(bytes_max=2_000)
    wire = log.wire(watch=watch)
    for number in range(1, 100):
        wire.send(request(number))
        wire.answer(response(number))
    *lines, last = log.records()
    assert isinstance(last, ExchangesStopped)
    assert (last.proxy, last.cause) == ("p", watch.cause)
    assert "2000 bytes" in last.cause
    assert len(lines) == watch.lines > 1
    assert watch.bytes_written <= 2_000


def test_what_a_request_names_is_bounded(log: Log) -> None:
    wire = log.wire()
    wire.send(kf.produce_frame(9, 1, partitions=tuple(range(1_000))))
    wire.tap.closed()
    [line] = log.exchanges()
    assert (len(line.partitions), line.partition_count) == (32, 1_000)
    assert line.partitions[0] == (kf.TOPIC, 0)


def test_an_api_that_nobody_knows_has_a_line(log: Log) -> None:
    wire = log.wire()
    frame = b"\0\0\0\x0e" + (999).to_bytes(2, "big") + b"\0\1" + b"\0\0\0\1" + b"\0\4name"
    wire.send(frame)
    wire.tap.closed()
    [line] = log.exchanges()
    assert (line.api, line.client_id, line.outcome) == ("ApiKey 999", "name", ExchangeOutcome.UNANSWERED)


def test_an_incomplete_last_line_is_not_read_and_nonsense_is_told(tmp_path: Path) -> None:
    path = tmp_path / "exchanges.jsonl"
    path.write_bytes(b'{"stopped_ns":1,"proxy":"p","cause":"c"}\n{"stopped_ns":2,"pro')
    assert [record.cause for record in read_exchanges(path) if isinstance(record, ExchangesStopped)] == ["c"]
    path.write_bytes(b'{"mono_ns":"soon"}\n')
    with pytest.raises(RecordError):
        list(read_exchanges(path))


@pytest.mark.slow
def test_a_server_logs_the_exchanges_of_the_proxy_that_is_asked(tmp_path: Path, upstream_factory) -> None:
    fake = kf.FakeKafka()
    upstream: Upstream = upstream_factory(fake.serve)
    path = tmp_path / "exchanges.jsonl"
    server = start_embedded(exchange_log=path, log_path=tmp_path / "log.txt")
    client = server.client()
    try:
        client.create(ProxySpec(name="a", upstream=upstream.address))
        with pytest.raises(NotFound):
            client.exchanges_stopped("a")
        for wrong in ({"bytes_max": 0}, {"frame_bytes_max": -1}):
            with pytest.raises(InvalidRequest, match=r"expected \d"):
                client.watch_exchanges("a", **wrong)
        client.watch_exchanges("a", client_ids=["c1"])
        assert client.exchanges_stopped("a") == ""
        with kf.connected(client.proxy("a").listen) as connection:
            connection.sendall(kf.metadata_frame(1) + kf.produce_frame(9, 2))
            assert kf.read_frame(connection)
            assert kf.read_frame(connection)
            client.unwatch_exchanges("a")
            connection.sendall(kf.metadata_frame(3))
            assert kf.read_frame(connection)
        assert client.exchange_log_problem() == ""
        lines = [record for record in read_exchanges(path) if isinstance(record, KafkaExchange)]
        assert [(line.api, line.correlation_id) for line in lines] == [("Metadata", 1), ("Produce", 2)]
    finally:
        client.close()
        server.stop()
    assert "Traceback" not in (tmp_path / "log.txt").read_text()


@pytest.mark.slow
def test_a_server_without_an_exchange_log_refuses_to_write_one(tmp_path: Path, upstream_factory) -> None:
    server = start_embedded(log_path=tmp_path / "log.txt")
    client = server.client()
    try:
        client.create(ProxySpec(name="a", upstream=upstream_factory(kf.FakeKafka().serve).address))
        with pytest.raises(InvalidRequest, match="--exchange-log"):
            client.watch_exchanges("a")
    finally:
        client.close()
        server.stop()


@pytest.mark.slow
def test_a_log_that_was_moved_away_is_complete_and_a_new_one_begins(tmp_path: Path, upstream_factory) -> None:
    fake = kf.FakeKafka()
    upstream: Upstream = upstream_factory(fake.serve)
    path, moved = tmp_path / "exchanges.jsonl", tmp_path / "exchanges.jsonl.0"
    server = start_embedded(exchange_log=path, log_path=tmp_path / "log.txt")
    client = server.client()
    try:
        client.create(ProxySpec(name="a", upstream=upstream.address))
        client.watch_exchanges("a", bytes_max=500)  # room for one line
        with kf.connected(client.proxy("a").listen) as connection:
            for number in (1, 2, 3):
                connection.sendall(kf.metadata_frame(number))
                assert kf.read_frame(connection)
            assert client.exchanges_stopped("a")
            path.rename(moved)
            client.reopen_exchange_log()
            assert client.exchanges_stopped("a") == ""
            connection.sendall(kf.metadata_frame(4))
            assert kf.read_frame(connection)
        assert client.exchange_log_problem() == ""
        before, after = (
            [getattr(each, "correlation_id", "stopped") for each in read_exchanges(each)] for each in (moved, path)
        )
        assert (before[0], before[-1], after) == (1, "stopped", [4])
    finally:
        client.close()
        server.stop()
