"""TLS and SASL of the reference client over real sockets: who is let in, who is refused, and how a caller learns it."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.client.tls import SEND_BYTES_MAX
from broker.door.clients import Admin, AuthenticationError, ConfigurationError, Consumer, Producer, TimedOutError
from harness.clusters.secured.authority import Authority
from tests.broker_client.tiny_broker import TinyBroker

pytestmark = pytest.mark.slow  # OpenSSL makes the certificates

HERE = ["127.0.0.1", "localhost"]
PASSWORDS = {"alice": 'p"w;1'}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> ssl.SSLContext:
    return server_context(authority.issue("broker", HERE).store)


def server_context(store: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(store)
    return context


def trusting(authority: Authority, **more: str) -> dict[str, str]:
    given = {"security.protocol": "SSL", "ssl.truststore.type": "PEM",
             "ssl.truststore.location": str(authority.certificate)}  # fmt: skip
    return given | {name.replace("_", "."): value for name, value in more.items()}


def as_alice(password: str = PASSWORDS["alice"]) -> dict[str, str]:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    return {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{MODULE} required username="alice" password="{quoted}";'}


def acknowledged(broker: TinyBroker, properties: dict[str, str], values: list[bytes]) -> list[bytes | None]:
    """What the broker got of these, in order."""
    with Producer({"bootstrap.servers": broker.bootstrap, **properties}) as producer:
        futures = [producer.send("t", value) for value in values]
        assert producer.flush(60) == 0
        for future in futures:
            future.get(0)
    return broker.values()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_records_arrive_over_tls_in_every_size(authority: Authority, server: ssl.SSLContext, version: str) -> None:
    values = [b"x" * size for size in (1, 10_000, 3 * SEND_BYTES_MAX, 700_000, 5)]
    properties = trusting(authority, ssl_enabled_protocols=version, batch_size="800000", linger_ms="20")
    with TinyBroker(tls=server) as broker:
        assert acknowledged(broker, properties, values) == values


def test_the_store_may_stand_in_the_settings_and_a_broker_may_ask_for_our_certificate(authority: Authority) -> None:
    context = server_context(authority.issue("mutual", HERE).store)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.certificate)
    own = authority.issue("client").store.read_text()
    key, begin, chain = own.partition("-----BEGIN CERTIFICATE-----")
    inline = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.certificate.read_text(),
        "ssl.keystore.type": "PEM", "ssl.keystore.key": key.replace("\n", "\\n"),
        "ssl.keystore.certificate.chain": begin + chain,
    }  # fmt: skip
    with TinyBroker(tls=context) as broker:
        assert acknowledged(broker, inline, [b"inline"]) == [b"inline"]
        without = trusting(authority)
        with Admin({"bootstrap.servers": broker.bootstrap, **without}) as admin:
            with pytest.raises(AuthenticationError, match="TLS"):
                admin.describe_topics(["t"])


def test_a_certificate_that_is_not_accepted_is_told_at_once_to_every_kind_of_client(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "stranger").issue("broker", HERE)
    with TinyBroker(tls=server_context(stranger.store)) as broker:
        refused_by_all(broker, trusting(authority), "certificate is not accepted")


def test_a_wrong_password_is_told_at_once_and_no_request_was_made(authority: Authority, server: ssl.SSLContext) -> None:
    wrong = {**trusting(authority), **as_alice("another"), "security.protocol": "SASL_SSL"}
    with TinyBroker(tls=server, passwords=PASSWORDS) as broker:
        refused_by_all(broker, wrong, "SASL_AUTHENTICATION_FAILED: Invalid credentials")
        assert broker.asked_unauthenticated == []
    with TinyBroker(passwords=PASSWORDS) as broker:
        other = {**as_alice(), "sasl.mechanism": "SCRAM-SHA-256", "security.protocol": "SASL_PLAINTEXT"}
        refused_by_all(broker, other, "the broker offers PLAIN, and not SCRAM-SHA-256")


def refused_by_all(broker: TinyBroker, properties: dict[str, str], words: str) -> None:
    given = {"bootstrap.servers": broker.bootstrap, **properties}
    began_s = time.monotonic()
    with Admin(given) as admin, pytest.raises(AuthenticationError, match=words):
        admin.describe_topics(["t"])
    consumer = Consumer({**given, "group.id": "g"})
    consumer.subscribe(["t"])
    with pytest.raises(AuthenticationError, match=words):
        while True:
            consumer.poll(1000)
            assert time.monotonic() < began_s + 40
    consumer.close(0)
    producer = Producer({**given, "max.block.ms": "50000"})
    error = producer.send("t", b"never").exception(60)
    assert isinstance(error, AuthenticationError), error
    assert words in str(error)
    assert error.definite
    producer.close(0)
    assert time.monotonic() - began_s < 45, "below max.block.ms and default.api.timeout.ms: nobody waited for a limit"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_name_of_the_broker_is_checked_unless_that_is_switched_off(authority: Authority, host: str) -> None:
    elsewhere = authority.issue("elsewhere", ["elsewhere.example"])
    with TinyBroker(tls=server_context(elsewhere.store)) as broker:
        server = {"bootstrap.servers": broker.bootstrap.replace("127.0.0.1", host)}
        with Admin({**server, **trusting(authority)}) as admin:
            with pytest.raises(AuthenticationError, match="match"):
                admin.describe_topics(["t"])
        with Admin({**server, **trusting(authority, ssl_endpoint_identification_algorithm="")}) as admin:
            assert set(admin.describe_topics(["t"])) == {"t"}


def test_sasl_proves_itself_before_anything_is_asked(authority: Authority, server: ssl.SSLContext) -> None:
    with TinyBroker(passwords=PASSWORDS) as broker:
        plain = {"security.protocol": "SASL_PLAINTEXT", **as_alice()}
        assert acknowledged(broker, plain, [b"1", b"2"]) == [b"1", b"2"]
        assert broker.asked_unauthenticated == []
    with TinyBroker(tls=server, passwords=PASSWORDS) as broker:
        secured = {**trusting(authority), **as_alice(), "security.protocol": "SASL_SSL"}
        assert acknowledged(broker, secured, [b"3"]) == [b"3"]


def test_a_session_is_renewed_on_its_connection_before_it_ends_and_no_request_comes_in_between() -> None:
    values = [str(number).encode() for number in range(200)]
    with TinyBroker(passwords=PASSWORDS, session_ms=40) as broker:
        properties = {"security.protocol": "SASL_PLAINTEXT", **as_alice(), "linger.ms": "0", "retries": "0"}
        given = {"bootstrap.servers": broker.bootstrap, **properties, "enable.idempotence": "false"}
        with Producer(given) as producer:
            futures = []
            deadline_s = time.monotonic() + 60
            while broker.authentications < 6:
                assert time.monotonic() < deadline_s
                futures.append(producer.send("t", values[len(futures) % 200]))
                time.sleep(0.002)
            assert producer.flush(60) == 0
        for future in futures:
            future.get(0)  # without retries: none was lost by a renewal
        assert len(broker.values()) == len(futures)
        assert broker.asked_unauthenticated == []


def test_a_handshake_that_never_ends_costs_its_time_and_no_more(authority: Authority) -> None:
    with silent_listener() as address:
        given = {"bootstrap.servers": address, "socket.connection.setup.timeout.ms": "300",
                 "default.api.timeout.ms": "2000", **trusting(authority)}  # fmt: skip
        spent_s = time.process_time()
        with Admin(given) as admin, pytest.raises(TimedOutError):
            admin.describe_topics(["t"])
        assert time.process_time() - spent_s < 1.0, "it waits for the socket, and does not ask it again and again"


@contextmanager
def silent_listener() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("name", "value"),
    [("ssl.truststore.location", "no-such.pem"), ("ssl.truststore.location", __file__),
     ("ssl.truststore.certificates", "not a certificate")],
)  # fmt: skip
def test_a_store_that_cannot_be_used_is_refused_when_the_client_is_made(name: str, value: str) -> None:
    given = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", "ssl.truststore.type": "PEM", name: value}
    with pytest.raises(ConfigurationError, match=name):
        Admin(given)


def test_a_peer_that_reads_slowly_stops_us_without_a_busy_loop_and_gets_all_bytes_in_order(
    authority: Authority, server: ssl.SSLContext
) -> None:
    """The last case: all of it is encrypted, and nothing but that waits to be written."""
    values = [bytes([number]) * size for number, size in enumerate((900_000, 50_000))]
    for value in values:
        slow_reader(authority, server, value)


def slow_reader(authority: Authority, server: ssl.SSLContext, value: bytes) -> None:
    with TinyBroker(tls=server) as broker:
        broker.receive_buffer(4096)
        properties = {**trusting(authority), "bootstrap.servers": broker.bootstrap, "linger.ms": "0",
                      "send.buffer.bytes": "4096"}  # fmt: skip
        with Producer(properties) as producer:
            producer.partitions_for("t")
            broker.may_read.clear()
            future = producer.send("t", value)
            time.sleep(0.3)  # until it stands; how long that takes decides nothing
            rounds, spent_s = count_rounds(producer, 1.0)
            assert rounds < 200, "it waits until the peer reads"
            assert spent_s < 0.7
            broker.may_read.set()
            assert producer.flush(30) == 0
            future.get(0)
        assert broker.values() == [value]


def count_rounds(producer: Producer, seconds: float) -> tuple[int, float]:
    """How often the sender thread woke up in this time, and the processor time that it took."""
    network = producer._sender.network
    polls, poll = 0, network._poll.poll

    class Counting:
        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

        def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
            nonlocal polls
            polls += 1
            return poll(timeout_ms)

    inner, network._poll = network._poll, Counting()  # type: ignore[assignment]
    began_s = time.process_time()
    time.sleep(seconds)
    spent_s = time.process_time() - began_s
    network._poll = inner
    return polls, spent_s
