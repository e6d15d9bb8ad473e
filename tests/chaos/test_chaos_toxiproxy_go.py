"""Bodies read as Go's JSON decoder reads them, and Go's addresses. The texts were seen from the original."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.toxiproxy.go_json import (
    GoJsonError,
    Number,
    as_flag,
    as_float32,
    as_text,
    as_whole,
    decode,
    plain,
    unmarshal,
)
from chaos.toxiproxy.listen_address import ListenAddress, ListenAddressError, bind, resolve, split

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(10**18), 10**18) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def without_nulls(value: object) -> object:
    """A null leaves a field as it is, so decoded objects have none."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@given(JSON)
def test_it_decodes_what_python_encodes(value: object) -> None:
    assert plain(decode(json.dumps(value).encode())) == without_nulls(value)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    with contextlib.suppress(GoJsonError):
        plain(decode(data))


@pytest.mark.parametrize(
    "body", [b"", b" \n", b"nul", b"nulx", b"{]", b'{"a" 1}', b"[1 2]", b"\x00", b'"a\nb"', b"-x", b"NaN", b"'",
             b"[" * 100_000, b"[" * 300 + b"]" * 300]
)  # fmt: skip
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(GoJsonError):
        decode(body)


def test_the_first_value_counts_and_half_of_a_pair_is_replaced() -> None:
    assert plain(decode(b' {"a": "\\ud800", "\\ud800": 1} trailing')) == {"a": "\ufffd", "\ufffd": 1}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"[]", "json: cannot unmarshal array into Go value of type pkg.Thing"),
        (b'{"name": 5}', "json: cannot unmarshal number into Go struct field Thing.name of type string"),
        (b'{"NAME": {}}', "json: cannot unmarshal object into Go struct field Thing.name of type string"),
        (b'{"on": "yes"}', "json: cannot unmarshal string into Go struct field Thing.on of type bool"),
        (b'{"size": 3.0}', "json: cannot unmarshal number 3.0 into Go struct field Thing.size of type int64"),
        (b'{"size": true, "name": 1}', "json: cannot unmarshal bool into Go struct field Thing.size of type int64"),
        (b'{"share": 1e39}', "json: cannot unmarshal number 1e39 into Go struct field Thing.share of type float32"),
    ],
)
def test_errors_of_type(body: bytes, text: str) -> None:
    known = {"name": as_text, "on": as_flag, "size": as_whole("int64"), "share": as_float32}
    with pytest.raises(GoJsonError) as caught:
        unmarshal(decode(body), known, type_name="pkg.Thing", struct_name="Thing")
    assert str(caught.value) == text


def test_a_float_has_the_digits_of_32_bits() -> None:
    assert [as_float32(Number(text)) for text in ("0.1", "0.3333333333", "1", "1e-9")] == [0.1, 0.33333334, 1.0, 1e-9]


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("nowhere", "address nowhere: missing port in address"),
        ("127.0.0.1:1:2", "address 127.0.0.1:1:2: too many colons in address"),
        ("[::1", "address [::1: missing ']' in address"),
        ("[::1]", "address [::1]: missing port in address"),
        ("[::1]x:80", "address [::1]x:80: missing port in address"),
        ("[::1]:80:90", "address [::1]:80:90: too many colons in address"),
        ("127.0.0.1:80]", "address 127.0.0.1:80]: unexpected ']' in address"),
        ("127.0.0.1:99999", "address 99999: invalid port"),
        ("127.0.0.1:-1", "address -1: invalid port"),
        ("127.0.0.1:port", "lookup tcp/port: unknown port"),
    ],
)
def test_what_is_no_address(address: str, text: str) -> None:
    with pytest.raises(ListenAddressError) as caught:
        asyncio.run(resolve(address))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("address", "resolved"),
    [
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("127.0.0.1:", "127.0.0.1:0"),
        ("[::1]:80", "[::1]:80"),
        (":80", ":80"),
        ("", ":0"),
    ],
)
def test_addresses_as_they_are_compared(address: str, resolved: str) -> None:
    assert str(asyncio.run(resolve(address))) == resolved


@given(st.text(max_size=20))
def test_any_text_is_split_or_refused(text: str) -> None:
    try:
        host, service = split(text)
    except ListenAddressError:
        return
    assert text == "" or (text.endswith(f":{service}") and host in text)


def test_an_empty_host_is_all_addresses_of_both_families() -> None:
    """Bound only, nobody can connect."""
    with bind(ListenAddress(host="", port=0)) as listener:
        if socket.has_dualstack_ipv6():
            assert listener.getsockname()[0] == "::"
            assert listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 0
        else:
            assert listener.getsockname()[0] == "0.0.0.0"
