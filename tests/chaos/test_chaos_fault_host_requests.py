"""A record of requests on a fault host: only the run's topics, whole, and what it misses it says.

The proxy server is the embedded one. The broker behind it is a fake that answers Produce and Metadata.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import resource
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.fault_host import request_record
from chaos.fault_host.host import Refused
from chaos.fault_host.permits import parse_permits
from chaos.fault_host.proxies import ProxyFaults, ToxicWanted
from chaos.fault_host.proxy_servers import ProxyServers
from chaos.fault_host.request_record import RequestRecord
from chaos.fault_host.site import NotDone
from harness.clusters.ports import free_port
from tests.chaos.conftest import Upstream

sys.path.insert(0, str(Path(__file__).parent))
import kafka_frames as kf

pytestmark = pytest.mark.slow  # real processes
TOPIC = "harness-t"


class Host:
    def __init__(self, directory: Path, upstream: str) -> None:
        self.ports = {name: free_port() for name in ("clients", "plain")}
        permits = parse_permits(
            f"proxies_outlive_worker: false\nproxies:\n"
            f"  clients: {{listen: '127.0.0.1:{self.ports['clients']}', upstream: '{upstream}', carries: [client->1], "
            f"allow: [cut, kafka_drop_response], requests: true}}\n"
            f"  plain: {{listen: '127.0.0.1:{self.ports['plain']}', upstream: '{upstream}', carries: [client->2], "
            f"allow: [cut]}}\n"
        )
        self.said: list[str] = []
        self._anew = 0
        self.servers = ProxyServers(permits.proxies, directory, "here", binary=None)
        self.faults = ProxyFaults(permits, self.servers, say=self.said.append)
        self.directory = directory
        self._permits = permits.proxies
        self.faults.open()
        self.record = self.recording()

    def recording(self) -> RequestRecord:
        """As a worker has it that has just begun."""
        found = RequestRecord(self._permits, self.servers, self.directory, "here", say=self.said.append)
        found.open()
        return found

    def begin_anew(self) -> None:
        """All links are whole, and nothing was recorded or said."""
        self.record.forget()
        self._anew += 1
        self.faults.begin_run(f"anew-{self._anew}")
        self.record = self.recording()
        self.said.clear()

    def crc(self, number: int) -> int:
        """Of its own in each test: a batch that was sent before would be one more attempt, which is written down."""
        return 100 * self._anew + number

    def send(self, *topics: str, name: str = "clients", first: int = 1) -> None:
        with socket.create_connection(("127.0.0.1", self.ports[name]), 60) as connection:
            for number, topic in enumerate(topics, start=first):
                connection.sendall(kf.produce_frame(9, number, crc=self.crc(number), topic_name=topic))
                assert kf.read_frame(connection)
        self.servers.of("clients").request_log_problem()  # waits until the lines are in the file

    def close(self) -> None:
        self.record.forget()
        self.servers.close(ends=True)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    upstream = Upstream(kf.FakeKafka().serve)
    found = Host(tmp_path_factory.mktemp("host"), upstream.address)
    yield found
    found.close()
    upstream.close()


@pytest.fixture
def host(shared: Host) -> Host:
    shared.begin_anew()
    return shared


def lines_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def test_only_requests_to_the_runs_topics_through_proxies_that_may_read_are_recorded(host: Host) -> None:
    host.send(TOPIC)  # before
    host.record.begin([TOPIC])
    host.send(TOPIC, "orders", TOPIC)
    host.send(TOPIC, name="plain")
    host.record.step()
    first = host.record.piece(0)
    assert first.sha256 == ""
    end = host.record.end()
    whole = host.record.piece(0)
    assert [(line["topic"], line["proxy"], line["crc"]) for line in lines_of(whole.data)] == [
        (TOPIC, "clients", host.crc(1)), (TOPIC, "clients", host.crc(3)),
    ]  # fmt: skip
    assert end.sha256 == whole.sha256 == hashlib.sha256(whole.data).hexdigest()
    assert end.size_bytes == len(whole.data)
    assert end.problem == ""
    assert host.record.piece(end.size_bytes).data == b""
    assert host.record.end() == end, "to end it twice does no harm"
    host.send(TOPIC)
    host.record.step()
    assert host.record.piece(0) == whole, "it is over"
    segment = host.directory / "here.requests.seg"
    assert segment.stat().st_mode & 0o777 == 0o600
    host.record.forget()
    assert not segment.exists()
    with pytest.raises(NotDone, match="no requests are recorded: the worker was ended and started again"):
        host.record.piece(0)


def test_a_record_of_somebody_elses_topic_is_refused(host: Host) -> None:
    for topic in ("orders", "__consumer_offsets", "harness", "harness-../x"):
        with pytest.raises(Refused, match="it is no topic of a run"):
            host.record.begin([TOPIC, topic])
    with pytest.raises(NotDone, match="no requests are recorded"):
        host.record.end()


def test_another_record_takes_the_place_of_the_one_before(host: Host) -> None:
    host.record.begin([TOPIC])
    host.send(TOPIC)
    host.record.begin(["harness-u"])
    host.send(TOPIC, "harness-u")
    host.record.end()
    assert [line["topic"] for line in lines_of(host.record.piece(0).data)] == ["harness-u"]


def test_a_topic_that_is_named_by_its_id_gets_its_name_and_one_without_is_a_hole(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.record.begin([TOPIC])
    known, foreign = "0" * 31 + "1", "0" * 31 + "2"
    host.record._ids = {known: TOPIC}
    host.record._are_names_known = True
    monkeypatch.setattr(RequestRecord, "_learn_names", lambda self: None)  # the fake does not know ids
    host.send(known, foreign)
    host.record.step()
    assert [line["topic"] for line in lines_of(host.record.piece(0).data)] == [TOPIC]
    host.record._ids[foreign] = "harness-late"  # told meanwhile
    assert host.record.end().problem == ""
    assert [line["topic"] for line in lines_of(host.record.piece(0).data)] == [TOPIC, "harness-late"]
    host.record.begin([TOPIC])
    host.record._are_names_known = False
    host.send(foreign)
    assert "clients name topics by their ids" in host.record.end().problem


def test_a_server_that_was_started_anew_has_not_seen_what_the_one_before_saw(host: Host) -> None:
    host.record.begin([TOPIC])
    server = host.servers._all[True]
    assert server._process is not None
    server._process.kill()
    server._process.wait(60)
    host.faults.step()
    assert host.servers.reads_requests()
    host.record.step()
    assert host.record.end().problem == "the proxy server that saw the requests ended by itself"


@pytest.mark.parametrize("limit", ["SEGMENT_BYTES_MAX", "WIRE_LOG_BYTES_MAX"])
def test_a_record_that_grows_too_large_says_so_and_ends(
    host: Host, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(request_record, limit, 1)
    host.record.begin([TOPIC])
    host.send(TOPIC)
    host.record.step()
    before = host.servers.wire_log.stat().st_size
    host.send(TOPIC, first=2)
    assert host.servers.wire_log.stat().st_size == before, "nothing more is written"
    assert "it is larger than" in host.record.end().problem


def test_a_harness_that_is_gone_leaves_no_record_behind(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.record.begin([TOPIC])
    host.send(TOPIC)
    host.record.step()
    assert host.servers.wire_log.stat().st_size > 0
    monkeypatch.setattr(request_record, "SILENT_S", -1.0)
    host.record.step()
    assert "the harness was silent for" in host.said[-1]
    host.send(TOPIC, first=2)
    assert host.servers.wire_log.stat().st_size == 0
    with pytest.raises(NotDone, match="no requests are recorded"):
        host.record.end()


def test_what_a_killed_worker_was_recording_is_ended_by_the_next_one(host: Host) -> None:
    host.record.begin([TOPIC])
    host.send(TOPIC)
    host.recording()
    host.send(TOPIC, first=2)
    assert host.servers.wire_log.stat().st_size == 0
    assert not (host.directory / "here.requests.seg").exists()


def test_a_kafka_toxic_that_the_list_allows_acts_and_tells_how_often(host: Host) -> None:
    host.faults.begin_run("run-1")
    attributes: dict[str, int | str] = {"api": "Produce", "count": 1}
    wanted = ToxicWanted(name="drop", type="kafka_drop_response", stream="downstream", attributes=attributes)
    host.faults.act("toxic_add", "clients", toxic=wanted)
    with socket.create_connection(("127.0.0.1", host.ports["clients"]), 60) as connection:
        connection.sendall(kf.produce_frame(9, 1, crc=1))
        assert kf.read_frame(connection) == b""
    state = host.faults.act("proxy_state", "clients").state
    assert state is not None
    assert state.toxics[0].counters["acted"] == 1
    refused = ToxicWanted(name="hide", type="kafka_hide_topic", stream="downstream", attributes={})
    with pytest.raises(Refused, match=r"kafka_hide_topic .* this host's list allows cut, kafka_drop_response"):
        host.faults.act("toxic_add", "clients", toxic=refused)
    with pytest.raises(Refused, match="this host's list allows cut for it"):
        host.faults.act("toxic_add", "plain", toxic=wanted)


def test_a_wire_log_that_nobody_asks_for_does_not_grow(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_record, "_IDLE_BYTES_MAX", 10)
    wanted = ToxicWanted(name="drop", type="kafka_drop_response", stream="downstream", attributes={"skip": 9})
    host.faults.begin_run("run-1")
    host.faults.act("toxic_add", "clients", toxic=wanted)  # a proxy with a toxic logs without a record
    host.send(TOPIC)
    assert host.servers.wire_log.stat().st_size > 10
    host.record.step()
    assert host.servers.wire_log.stat().st_size == 0


def test_a_disk_that_takes_no_lines_is_told_and_the_next_record_begins_anew(host: Host) -> None:
    """A limit on the size of files stands for the full disk: it needs no rights, and the same calls fail."""
    pid = host.servers.identity_of_reader
    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    host.record.begin([TOPIC])
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    host.send(TOPIC)
    host.send(TOPIC, first=2)
    assert "the proxy server stopped writing down requests: [Errno 27] File too large" in host.record.piece(0).problem
    assert host.record.end().problem
    assert len([line for line in host.said if "stopped writing down" in line]) == 1, "told once"
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    host.record.begin([TOPIC])
    host.send(TOPIC, first=3)
    whole = host.record.end()
    assert (whole.problem, len(lines_of(host.record.piece(0).data))) == ("", 1)


def test_lines_that_the_disk_of_the_record_does_not_take_are_missing_whoever_asks(host: Host) -> None:
    host.record.begin([TOPIC])
    host.send(TOPIC)
    segment = host.directory / "here.requests.seg"
    segment.unlink()
    segment.symlink_to("/dev/full")
    with contextlib.suppress(OSError):
        host.record.piece(0)
    segment.unlink()
    segment.touch()  # there is room again
    host.send(TOPIC, first=2)
    end = host.record.end()
    assert [line["crc"] for line in lines_of(host.record.piece(0).data)] == [host.crc(2)]
    assert "it could not be written" in end.problem, "the first line is missing"
