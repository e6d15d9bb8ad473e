"""Names of cipher suites: each is OpenSSL's suite of the same number, and what is chosen decides about the versions."""

from __future__ import annotations

import ssl

import pytest

from broker.security.cipher_suites import OF_TLS_1_2, OF_TLS_1_3, choose_suites

BOTH = ("TLSv1.2", "TLSv1.3")
# Numbers of IANA's registry, by its names.
NUMBERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": 0xC02C, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": 0xC030,
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": 0xC02B, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": 0xC02F,
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCA9, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCA8,
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCAA, "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": 0x9F,
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": 0x9E, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": 0xC024,
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": 0xC028, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": 0xC023,
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": 0xC027, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": 0x6B,
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256": 0x67, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": 0xC00A,
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": 0xC014, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": 0xC009,
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": 0xC013, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA": 0x39,
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA": 0x33, "TLS_RSA_WITH_AES_256_GCM_SHA384": 0x9D,
    "TLS_RSA_WITH_AES_128_GCM_SHA256": 0x9C, "TLS_RSA_WITH_AES_256_CBC_SHA256": 0x3D,
    "TLS_RSA_WITH_AES_128_CBC_SHA256": 0x3C, "TLS_RSA_WITH_AES_256_CBC_SHA": 0x35, "TLS_RSA_WITH_AES_128_CBC_SHA": 0x2F,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OF_TLS_1_2))
def test_a_name_is_the_suite_of_its_number(name: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(f"{OF_TLS_1_2[name]}:@SECLEVEL=0")
    (found,) = [each["id"] & 0xFFFF for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert found == NUMBERS[name]


def test_every_number_of_the_table_is_known() -> None:
    assert set(OF_TLS_1_2) == set(NUMBERS)


def test_tls_1_3_has_three_suites() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert {each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.3"} == set(OF_TLS_1_3)


def test_versions_without_a_suite_are_not_spoken() -> None:
    older = ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]
    found = choose_suites(older, BOTH)
    assert (found.openssl, found.versions) == (
        "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256",
        ("TLSv1.2",),
    )
    found = choose_suites(OF_TLS_1_3, BOTH)
    assert (found.openssl, found.versions) == ("", ("TLSv1.3",))
    assert choose_suites([*older, *OF_TLS_1_3], BOTH).versions == BOTH


@pytest.mark.parametrize(
    ("names", "versions", "told"),
    [(["TLS_NULL_WITH_NULL_NULL"], BOTH, "no suite that is known"), (["ECDHE-RSA-AES256-GCM-SHA384"], BOTH, "IANA"),
     (["TLS_AES_128_GCM_SHA256"], BOTH, "TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256 too"),
     (["TLS_AES_128_GCM_SHA256"], ("TLSv1.2",), "none of them is of TLSv1.2"),
     (["TLS_RSA_WITH_AES_128_CBC_SHA"], ("TLSv1.3",), "none of them is of TLSv1.3")],
)  # fmt: skip
def test_what_cannot_be_had_is_told(names: list[str], versions: tuple[str, ...], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        choose_suites(names, versions)
