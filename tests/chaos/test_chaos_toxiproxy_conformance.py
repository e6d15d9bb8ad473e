"""One suite for the real and the embedded server: both must do what the harness relies on."""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Iterator

import pytest

from chaos.toxiproxy.calls import AlreadyExists, Calls, InvalidRequest, NotFound, Unreachable
from chaos.toxiproxy.client import ToxiproxyClient
from chaos.toxiproxy.states import ProxySpec
from harness.clusters.ports import free_port

pytestmark = pytest.mark.slow  # real processes


@pytest.fixture(params=["embedded", "pumped", pytest.param("real", marks=pytest.mark.toxiproxy)])
def client(request: pytest.FixtureRequest) -> Iterator[ToxiproxyClient]:
    server = request.getfixturevalue(f"{request.param}_server")
    client = server.client()
    yield client
    for name in client.proxies():
        client.delete(name)
    client.close()


def connect(listen: str, *, timeout_s: float = 60) -> socket.socket:
    host, _, port = listen.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=timeout_s)


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        data = connection.recv(65536)
        if not data:
            break
        parts += data
    return bytes(parts)


def assert_same(received: bytes, sent: bytes) -> None:
    """Says where they part. pytest's own comparison of megabytes takes more than a quarter of an hour."""
    if received != sent:
        same = next((at for at, (one, other) in enumerate(zip(received, sent, strict=False)) if one != other), None)
        where = f"byte {same} differs" if same is not None else "all of them right"
        pytest.fail(f"received {len(received)} of {len(sent)} bytes, {where}")


def round_trip_ms(connection: socket.socket, data: bytes = b"x") -> float:
    start = time.monotonic()
    connection.sendall(data)
    assert receive_exactly(connection, len(data)) == data
    return (time.monotonic() - start) * 1000


def quickest_ms(connection: socket.socket, data: bytes = b"x", *, below_ms: float) -> float:
    """Round trips until one took less than that, for 30 s at most: a busy host delays some of them, but not all."""
    deadline = time.monotonic() + 30
    quickest = round_trip_ms(connection, data)
    while quickest >= below_ms and time.monotonic() < deadline:
        quickest = min(quickest, round_trip_ms(connection, data))
    return quickest


def receive_end(connection: socket.socket) -> bool:
    """True if the connection ends without a byte, by FIN or RST."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def proxy(client, echo_upstream):
    return client.create(ProxySpec(name="p", upstream=echo_upstream.address))


def test_created_proxy_is_listed_and_passes_bytes(client, proxy, echo_upstream):
    assert client.proxies()["p"] == proxy
    assert (proxy.upstream, proxy.is_enabled, proxy.toxics) == (echo_upstream.address, True, ())
    with connect(proxy.listen) as connection:
        data = bytes(range(256)) * 8192  # 2 MiB: more than any socket buffer on the way
        threading.Thread(target=connection.sendall, args=(data,)).start()
        assert_same(receive_exactly(connection, len(data)), data)
    assert echo_upstream.errors == []


def test_creating_twice_conflicts_and_unknown_names_are_not_found(client, proxy):
    with pytest.raises(AlreadyExists):
        client.create(ProxySpec(name="p", upstream="127.0.0.1:1"))
    with pytest.raises(NotFound):
        client.proxy("other")
    with pytest.raises(NotFound):
        client.delete("other")
    with pytest.raises(NotFound):
        client.toxic("p", "other")
    with pytest.raises(NotFound):
        client.remove_toxic("p", "other")


def test_version_is_known(client, request):
    assert client.version().startswith(("2.", "git"))  # "git" is what a server built by `go install` says


def test_label_names_the_version(request, embedded_server):
    assert embedded_server.label == "embedded toxiproxy"


@pytest.mark.toxiproxy
def test_version_of_a_server_built_by_go_is_read_from_its_build_information(real_server):
    assert real_server.label.startswith("toxiproxy 2.")


def test_disabled_proxy_refuses_and_ends_its_connections(client, proxy):
    connection = connect(proxy.listen)
    round_trip_ms(connection)
    client.disable("p")
    with pytest.raises(ConnectionRefusedError):
        connect(proxy.listen)
    with connection, pytest.raises((ConnectionResetError, EOFError)):
        if not connection.recv(1):
            raise EOFError
    client.enable("p")
    with connect(proxy.listen) as again:
        round_trip_ms(again)


def test_a_call_after_a_long_rest_does_not_meet_the_end_of_its_connection(monkeypatch):
    """Answers one call on each connection, then ends it as the next one comes: what a server's idle limit may do."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    listener = socket.create_server(("127.0.0.1", 0))

    def serve_once(connection):
        with connection:
            connection.recv(65536)
            connection.sendall(answer)
            connection.recv(65536)

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve_once, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    calls = Calls(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_ms=5_000)
    try:
        monkeypatch.setattr("chaos.toxiproxy.calls.REUSE_S_MAX", 600.0)  # however long the next call takes to come
        assert calls.call("POST", "/reset").json() == {}
        with pytest.raises(Unreachable):  # it may have changed something, so it is not sent again
            calls.call("POST", "/reset")
        monkeypatch.setattr("chaos.toxiproxy.calls.REUSE_S_MAX", 0.0)
        assert calls.call("POST", "/reset").json() == {}
        assert calls.call("POST", "/reset").json() == {}
    finally:
        calls.close()
        listener.close()


def test_down_restores_what_was_before(client, proxy):
    with client.down("p"):
        assert not client.proxy("p").is_enabled
    assert client.proxy("p").is_enabled
    client.disable("p")
    with client.down("p"):
        pass
    assert not client.proxy("p").is_enabled


def test_deleted_proxy_is_gone(client, proxy):
    client.delete("p")
    assert client.proxies() == {}
    with pytest.raises(ConnectionRefusedError):
        connect(proxy.listen)


def test_upstream_can_be_moved(client, proxy, upstream_factory):
    other = upstream_factory(lambda connection: connection.sendall(b"other"))
    assert client.update("p", upstream=other.address).upstream == other.address
    with connect(client.proxy("p").listen) as connection:
        assert receive_exactly(connection, 5) == b"other"


def test_populate_creates_and_leaves_equal_ones_alone(client, echo_upstream):
    specs = [
        ProxySpec(name=f"p{i}", upstream=echo_upstream.address, listen=f"127.0.0.1:{free_port()}") for i in range(3)
    ]
    client.populate(specs)
    connection = connect(specs[0].listen)
    round_trip_ms(connection)
    states = client.populate(specs)
    assert sorted(states) == ["p0", "p1", "p2"]
    with connection:
        round_trip_ms(connection)


def test_reset_enables_and_removes_toxics(client, proxy):
    client.add_toxic("p", "latency", {"latency": 5})
    client.disable("p")
    client.reset()
    assert client.proxy("p").is_enabled
    assert client.toxics("p") == {}


def test_upstream_that_refuses_looks_like_accept_and_close(client):
    state = client.create(ProxySpec(name="q", upstream=f"127.0.0.1:{free_port()}"))
    with connect(state.listen) as connection:
        assert receive_end(connection)


def test_latency_delays_both_streams_and_can_be_changed_and_removed(client, proxy):
    with connect(proxy.listen) as connection:
        assert quickest_ms(connection, below_ms=50) < 50
        client.add_toxic("p", "latency", {"latency": 100})
        client.add_toxic("p", "latency", {"latency": 60}, stream="upstream")
        assert 155 < quickest_ms(connection, below_ms=300) < 300
        client.update_toxic("p", "latency_downstream", {"latency": 10})
        assert 65 < quickest_ms(connection, below_ms=150) < 150
        client.remove_toxic("p", "latency_downstream")
        client.remove_toxic("p", "latency_upstream")
        assert quickest_ms(connection, below_ms=50) < 50


def test_jitter_spreads_latency(client, proxy):
    client.add_toxic("p", "latency", {"latency": 40, "jitter": 30})
    with connect(proxy.listen) as connection:
        times = [round_trip_ms(connection) for _ in range(30)]
        times.append(quickest_ms(connection, below_ms=max(40, min(times))))
    assert 8 < min(times) < 40 < max(times)
    assert statistics.mean(times) > 25


def test_latency_keeps_order_and_loses_nothing(client, proxy):
    client.add_toxic("p", "latency", {"latency": 20, "jitter": 20})
    data = b"".join(i.to_bytes(4, "big") for i in range(100_000))
    with connect(proxy.listen, timeout_s=60) as connection:
        threading.Thread(target=connection.sendall, args=(data,)).start()
        assert_same(receive_exactly(connection, len(data)), data)


def test_bandwidth_limits_the_rate(client, proxy):
    client.add_toxic("p", "bandwidth", {"rate": 200})
    with connect(proxy.listen, timeout_s=60) as connection:
        assert 350 < quickest_ms(connection, b"x" * 100_000, below_ms=1000) < 1000


def test_bandwidth_zero_stalls_without_loss(client, proxy):
    with connect(proxy.listen) as connection:
        client.add_toxic("p", "bandwidth", {"rate": 0}, name="stall")
        connection.sendall(b"held")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        client.remove_toxic("p", "stall")
        connection.settimeout(60)
        assert receive_exactly(connection, 4) == b"held"
        round_trip_ms(connection)


def test_slow_close_delays_the_end(client, upstream_factory):
    upstream = upstream_factory(lambda connection: connection.sendall(b"bye"))
    state = client.create(ProxySpec(name="q", upstream=upstream.address))
    client.add_toxic("q", "slow_close", {"delay": 300})
    start = time.monotonic()  # before the upstream is called, which ends at once
    with connect(state.listen) as connection:
        assert receive_exactly(connection, 100) == b"bye"
        assert 0.25 < time.monotonic() - start < 20


def test_timeout_drops_data_and_closes(client, proxy):
    client.add_toxic("p", "timeout", {"timeout": 200}, stream="upstream")
    start = time.monotonic()  # the time runs from the beginning of the connection
    with connect(proxy.listen) as connection:
        connection.sendall(b"lost")
        assert receive_end(connection)
        assert 0.15 < time.monotonic() - start < 20


def test_timeout_zero_holds_until_its_removal_closes(client, proxy):
    with connect(proxy.listen) as connection:
        round_trip_ms(connection)
        client.add_toxic("p", "timeout", {"timeout": 0})
        connection.sendall(b"lost")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        client.remove_toxic("p", "timeout_downstream")
        connection.settimeout(60)
        assert receive_end(connection)


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_a_reset_ends_what_timeout_zero_has_held(client, proxy, stream):
    with connect(proxy.listen) as connection:
        round_trip_ms(connection)
        client.add_toxic("p", "timeout", {"timeout": 0}, stream=stream)
        connection.sendall(b"lost")
        client.reset()
        assert receive_end(connection)


@pytest.mark.parametrize("server_name", ["embedded", "pumped"])
@pytest.mark.parametrize("ends", ["remove", "reset"])
@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_a_client_that_is_connected_when_timeout_zero_goes_is_ended_although_the_proxy_still_dials(
    request, echo_upstream, server_name, ends, stream
):
    """It stayed open for ever. The original has the same gap, but it is shorter."""
    client = request.getfixturevalue(f"{server_name}_server").client()
    proxy = client.create(ProxySpec(name="dials", upstream=echo_upstream.address))
    try:
        for _ in range(10):
            client.add_toxic("dials", "timeout", {"timeout": 0}, stream=stream)
            with connect(proxy.listen) as connection:
                client.remove_toxic("dials", f"timeout_{stream}") if ends == "remove" else client.reset()
                assert receive_end(connection)
        with connect(proxy.listen) as connection:
            round_trip_ms(connection)
    finally:
        client.delete("dials")
        client.close()


def test_reset_peer_sends_rst(client, proxy):
    client.add_toxic("p", "reset_peer", {"timeout": 0})
    with connect(proxy.listen) as connection, pytest.raises(ConnectionResetError):
        connection.sendall(b"x")  # the reset may have come already
        connection.recv(1)


def test_slicer_cuts_into_pieces_and_keeps_the_bytes(client, proxy):
    client.add_toxic("p", "slicer", {"average_size": 100, "size_variation": 20, "delay": 2000})
    pieces = []
    deadline = time.monotonic() + 30
    with connect(proxy.listen) as connection:
        while len(pieces) < 3 and time.monotonic() < deadline:  # a reader that comes late finds several as one
            pieces = []
            connection.sendall(b"abcdefghij" * 100)
            while sum(map(len, pieces)) < 1000:
                pieces.append(connection.recv(65536))
            assert b"".join(pieces) == b"abcdefghij" * 100
    assert len(pieces) >= 3


def test_limit_data_closes_after_so_many_bytes(client, proxy):
    client.add_toxic("p", "limit_data", {"bytes": 100})
    with connect(proxy.listen) as connection:
        connection.sendall(b"x" * 500)
        try:
            assert receive_exactly(connection, 500) == b"x" * 100
        except ConnectionResetError:
            pytest.fail("the 100 allowed bytes must arrive before the end")


def test_toxicity_zero_and_one_take_none_and_all(client, proxy):
    client.add_toxic("p", "latency", {"latency": 200}, toxicity=0.0)
    with connect(proxy.listen) as connection:
        assert quickest_ms(connection, below_ms=100) < 100


def test_toxicity_takes_a_share_of_the_connections(client, proxy):
    client.add_toxic("p", "latency", {"latency": 60}, toxicity=0.5)
    slow = 0
    for _ in range(24):
        with connect(proxy.listen) as connection:
            slow += min(round_trip_ms(connection) for _ in range(3)) > 50  # a busy host delays some, but not all
    assert 2 <= slow <= 22


def test_misspelt_attribute_is_refused_before_it_is_sent(client, proxy):
    with pytest.raises(InvalidRequest, match="did you mean 'latency'"):
        client.add_toxic("p", "latency", {"latancy": 100})
    assert client.toxics("p") == {}


def test_toxics_added_under_load_lose_nothing(client, proxy):
    """Chains change while bytes flow through them."""
    data = bytes(i % 251 for i in range(3_000_000))
    with connect(proxy.listen, timeout_s=60) as connection:
        threading.Thread(target=connection.sendall, args=(data,)).start()
        received = bytearray()
        client.add_toxic("p", "bandwidth", {"rate": 4000}, stream="upstream")  # so that the changes come in between
        changing = threading.Thread(target=change_toxics, args=(client,))
        changing.start()
        while len(received) < len(data):
            chunk = connection.recv(16384)
            assert chunk, f"connection ended after {len(received)} bytes"
            received += chunk
        changing.join()
        assert bytes(received) == data


def change_toxics(client):
    client.add_toxic("p", "latency", {"latency": 5})
    client.add_toxic("p", "slicer", {"average_size": 5000, "size_variation": 10})
    client.update_toxic("p", "latency_downstream", {"latency": 15})
    client.remove_toxic("p", "latency_downstream")
    client.remove_toxic("p", "slicer_downstream")


def test_an_update_keeps_the_toxicity_or_sets_it_also_to_zero(client, echo_upstream):
    client.create(ProxySpec(name="p", upstream=echo_upstream.address))
    client.add_toxic("p", "latency", {"latency": 5}, toxicity=0.5)
    for given, expected in ((None, 0.5), (0.0, 0.0), (None, 0.0), (1.0, 1.0)):
        client.update_toxic("p", "latency_downstream", {"latency": 15}, toxicity=given)
        assert client.toxic("p", "latency_downstream").toxicity == expected


def test_two_clients_in_one_process_do_not_mix(client, embedded_server, echo_upstream):
    other = ToxiproxyClient(embedded_server.url)
    client.create(ProxySpec(name="only-here", upstream=echo_upstream.address))
    is_same = other.url == client.url
    assert ("only-here" in other.proxies()) == is_same
    other.close()
