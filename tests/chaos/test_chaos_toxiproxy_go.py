"""Go's JSON decoder and Go's addresses, as the embedded server speaks them. Each text was seen from the original."""

from __future__ import annotations

import asyncio
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


@given(JSON, st.data())
def test_a_value_that_is_cut_is_an_unexpected_end_and_never_another_error(value: object, data: st.DataObject) -> None:
    text = json.dumps([value]).encode()
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    with pytest.raises(GoJsonError, match=r"^unexpected EOF$"):
        decode(cut)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    said = ""
    try:
        decode(data)
    except GoJsonError as error:
        said = str(error)
    assert said in ("", "EOF", "unexpected EOF") or said.startswith("invalid character '")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "EOF"),
        (b" \n", "EOF"),
        (b"nul", "unexpected EOF"),
        (b"nulx", "invalid character 'x' in literal null (expecting 'l')"),
        (b"{]", "invalid character ']' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 2}', "invalid character '2' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"\x00", r"invalid character '\x00' looking for beginning of value"),
        (b"\xc3\xa9", "invalid character 'Ã' looking for beginning of value"),
        (b'"a\nb"', r"invalid character '\n' in string literal"),
        (b'"\\q"', "invalid character 'q' in string escape code"),
        (b'"\\u12g4"', r"invalid character 'g' in \u hexadecimal character escape"),
        (b"-x", "invalid character 'x' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1e+x", "invalid character 'x' in exponent of numeric literal"),
        (b"'", r"invalid character '\'' looking for beginning of value"),
        (b"[" * 100_000, "exceeded max depth"),
    ],
)
def test_errors_of_syntax(body: bytes, text: str) -> None:
    with pytest.raises(GoJsonError) as caught:
        decode(body)
    assert str(caught.value) == text


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
