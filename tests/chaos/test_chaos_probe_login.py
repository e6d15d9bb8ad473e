"""A probe proves who it is before it measures, and whoever does not let it in did not answer."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.security.sasl_client import Credentials
from chaos.faults.probe_login import log_in
from chaos.faults.probes import Door, probe_link
from chaos.ports.security import ProbeAccess
from harness.clusters.secured.authority import Authority
from tests.broker_client.tiny_broker import TinyBroker

TIMEOUT_MS = 30_000
LOAD = Credentials(mechanism="PLAIN", username="load", password="right")


def framed(body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), 2) + body


def served(*answers: bytes) -> Callable[[], None]:
    """Log in as LOAD where each request gets the next answer, and the connection then ends."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs:
            for answer in answers:
                theirs.recv(1000)
                theirs.sendall(answer)
            theirs.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):  # it need not have read all answers
                while theirs.recv(1000):
                    pass

    def run() -> None:
        thread = threading.Thread(target=serve)
        thread.start()
        with ours:
            ours.settimeout(TIMEOUT_MS / 1000)
            try:
                log_in(ours, LOAD)
            finally:
                ours.close()
                thread.join()

    return run


ACCEPTED = framed(struct.pack(">hi", 0, 0))
LET_IN = framed(struct.pack(">hhi", 0, -1, 0))


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ([ACCEPTED, framed(struct.pack(">hh4si", 58, 4, b"nope", 0))], "refused with error code 58"),
        ([framed(struct.pack(">hi", 33, 0))], "refused with error code 33"),
        ([struct.pack(">ii", 2 << 20, 2)], "an answer of 2097152 bytes"),
        ([struct.pack(">ii", 3, 2)], "an answer of 3 bytes"),
        ([framed(b"")], "PLAIN: unpack_from"),
        ([ACCEPTED], "closed before the answer"),
    ],
)
def test_whoever_does_not_let_a_probe_in_is_a_connection_that_fails(answers: list[bytes], problem: str) -> None:
    with pytest.raises(OSError, match=problem):
        served(*answers)()


def test_a_probe_is_let_in_by_two_answers() -> None:
    served(ACCEPTED, LET_IN)()


@pytest.mark.slow
def test_a_probe_logs_in_where_there_are_passwords() -> None:
    with TinyBroker(passwords={"load": "right"}) as broker:
        wrong = Credentials(mechanism="PLAIN", username="load", password="wrong")
        outcomes = {
            who.password: probe_link(
                Door(address=broker.bootstrap, access=ProbeAccess(credentials=who)), timeout_ms=TIMEOUT_MS
            ).outcome
            for who in (LOAD, wrong)
        }
        assert outcomes["right"] == "answered"
        assert outcomes["wrong"] in ("closed", "reset")


@pytest.mark.slow
def test_a_probe_shows_a_certificate_where_a_broker_wants_one(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("broker", ["127.0.0.1"]).store)
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    with TinyBroker(tls=context) as broker:

        def outcome(certificate_file: str) -> str:
            access = ProbeAccess(is_tls=True, certificate_file=certificate_file)
            return probe_link(Door(address=broker.bootstrap, access=access), timeout_ms=TIMEOUT_MS).outcome

        assert outcome("") in ("closed", "reset")
        assert outcome(str(authority.issue("load").store)) == "answered"
