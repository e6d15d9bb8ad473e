"""One way to read host:port; every place that takes an address takes IPv6."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client.core.config import parse_producer
from broker.node.settings.values import parse_address as broker_address
from broker.wire.addresses import AddressError, format_address, parse_address
from chaos.toxiproxy.inputs import split_address
from harness.clusters.base import Address
from harness.clusters.external import parse_bootstrap
from harness.errors import UsageError

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9092", "127.0.0.1", 9092),
        ("kafka-1.example:9092", "kafka-1.example", 9092),
        ("[::1]:9092", "::1", 9092),
        ("[2001:db8::1]:1", "2001:db8::1", 1),
        ("[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
        (" [::ffff:1.2.3.4]:65535 ", "::ffff:1.2.3.4", 65535),
    ],
)
def test_an_address_is_read_and_written_again(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)
    assert format_address(host, port) == text.strip()
    assert broker_address(text.strip()).host == host
    assert split_address("listen", text.strip()) == (host, port)
    assert parse_bootstrap(text) == (Address(host=host, port=port),)
    assert str(Address(host=host, port=port)) == text.strip()
    assert parse_producer({"bootstrap.servers": text.strip()}).bootstrap_servers == (text.strip(),)


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":", "::1", "::1:9092", "[::1]", "[::1]9092", "[::1:9092", "host:0", "host:65536",
             "host:9x", "host:-1", "a b:1", "u@h:1", "http://h:1", "[host]:1", "host:１"],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_what_was_got(text: str) -> None:
    with pytest.raises(AddressError, match=re.escape(repr(text))):
        parse_address(text)
    with pytest.raises(UsageError, match="--bootstrap-server"):
        parse_bootstrap(text)


def test_a_bare_ipv6_address_is_answered_with_brackets() -> None:
    with pytest.raises(AddressError, match=r"in brackets: \[::1\]:PORT"):
        parse_address("::1")


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        host, port = parse_address(text)
    except AddressError:
        return
    assert 0 < port <= 65_535
    assert parse_address(format_address(host, port)) == (host, port)


def test_nobody_takes_addresses_apart_by_himself() -> None:
    """Each place that did split at the last colon was a place that forgot the brackets."""
    own = re.compile(r"r?(partition|split)\(\":\"")
    allowed = {
        "broker/wire/addresses.py",
        "reports/read/spark_needs.py",  # reports know nothing of the broker
        "chaos/toxiproxy/listen_address.py",  # Go's syntax
    }  # fmt: skip
    found = set()
    for package in ("harness", "chaos", "workloads", "reports", "broker", "runlog"):
        for path in (REPOSITORY / package).rglob("*.py"):
            for line in path.read_text(encoding="utf-8").splitlines():
                if own.search(line) and re.search(r"\b(host|port|address|server)\b", line):
                    found.add(str(path.relative_to(REPOSITORY)))
    assert found <= allowed, found - allowed
