"""Secrets are taken out by what they are called, by what they look like, and by what they are."""

from __future__ import annotations

import json
import shlex
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlog.files.redaction import (
    HIDDEN,
    Redactor,
    has_hidden,
    hidden_arguments,
    hidden_assignment,
    hidden_document,
    hidden_settings,
    hidden_text,
    is_secret,
    secrets_in,
)

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="hunter2!";'

SECRET_NAMES = [
    "sasl.jaas.config", "SASL.JAAS.CONFIG", "listener.name.internal.plain.sasl.jaas.config", "ssl.key.password",
    "ssl.keystore.key", "ssl.keystore.password", "SSL_TRUSTSTORE_PASSWORD", "sasl.password", "sasl_plain_password",
    "my.passphrase", "sasl.oauthbearer.client.secret", "AWS_SECRET_ACCESS_KEY", "api_key", "ApiKey", "x-api-key",
    "basic.auth.user.info", "sasl.oauthbearer.token", "ssl.key.pem", "Authorization", "credentials",
]  # fmt: skip
OPEN_NAMES = [
    "security.protocol", "sasl.mechanism", "acks", "linger.ms", "key_count", "keys", "key_hot_share", "passed",
    "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.credentials.client.id",
    "delegation.token.max.lifetime.ms", "ssl.keystore.location",
    "ssl.truststore.location", "password.encoder.iterations", "partition.assignment.strategy", "client.id",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_secret_setting_is_known_by_its_name_however_it_is_written(name: str) -> None:
    assert is_secret(name)
    assert hidden_settings({name: "hunter2!"}) == {name: HIDDEN}


@pytest.mark.parametrize("name", OPEN_NAMES)
def test_an_open_setting_is_shown(name: str) -> None:
    assert not is_secret(name)
    assert hidden_settings({name: "value"}) == {name: "value"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:hunter2!@127.0.0.1:6379/0", f"redis://{HIDDEN}@127.0.0.1:6379/0"),
        ("redis://:hunter2!@127.0.0.1", f"redis://{HIDDEN}@127.0.0.1"),
        ("rediss://u:hun/ter2!@x@host:1/0", f"rediss://{HIDDEN}@host:1/0"),
        ("http://token-hunter2!@127.0.0.1:8474", f"http://{HIDDEN}@127.0.0.1:8474"),
        ("redis://h/0?password=hunter2!&db=3", f"redis://h/0?password={HIDDEN}&db=3"),
        ("https://h/?sig=hunter2!&retry=true", f"https://h/?sig={HIDDEN}&retry=true"),
        ("sc://host:15002/;token=hunter2!;user_id=me", f"sc://host:15002/;token={HIDDEN};user_id=me"),
        ("http://127.0.0.1:8474", "http://127.0.0.1:8474"),
        ("spark://127.0.0.1:7077", "spark://127.0.0.1:7077"),
    ],
)  # fmt: skip
def test_a_url_loses_its_userinfo_and_what_its_query_says(url: str, shown: str) -> None:
    assert hidden_text(url) == shown
    assert hidden_text(f"no answer at {url}: refused") == f"no answer at {shown}: refused"


@pytest.mark.parametrize(
    "text",
    [
        JAAS,
        f"sasl.jaas.config={JAAS}",
        'KafkaException: sasl.password="hunter2!" is wrong',
        "password='hunter2!'",
        "sasl_plain_password=hunter2!, retries=5",
        "{'ssl.key.password': 'hunter2!', 'acks': '1'}",
        json.dumps({"ssl.key.password": "hunter2!"}),
        "Authorization: Bearer hunter2!hunter2".replace("!", "0"),
        "-----BEGIN PRIVATE KEY-----\nhunter2!\n-----END PRIVATE KEY-----",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\\nhunter2!",
    ],
)
def test_prose_loses_what_has_the_form_of_a_secret(text: str) -> None:
    assert "hunter2" not in hidden_text(text)


def test_a_message_about_a_secret_setting_stays_readable() -> None:
    for message in (
        "suite.yaml:3: properties.ssl.key.password: Input should be a valid string",
        "client confluent: ssl.truststore.password: a PEM file has none",
        "sasl.jaas.config has no password, expected username and password",
    ):
        assert hidden_text(message) == message


def test_arguments_lose_their_secrets_in_one_word_or_two() -> None:
    words = [
        "run", "demo", "--set", f"properties.sasl.jaas.config={JAAS}", f"--set=properties.sasl.jaas.config={JAAS}",
        "--set", "properties={ssl.key.password: hunter2!}", "--toxiproxy", "http://me:hunter2!@127.0.0.1:8474",
        "--spark-master=sc://h:1/;token=hunter2!", "--password", "hunter2!", "--set", "properties.linger.ms=5",
        "--set", 'workload.readers=[{name: a, redis_url: "redis://:hunter2!@h/0"}]',
    ]  # fmt: skip
    shown = hidden_arguments(words)
    assert not [word for word in shown if "hunter2" in word]
    assert len(shown) == len(words)
    assert "properties.linger.ms=5" in shown
    assert shlex.split(shlex.join(shown)) == shown


def test_an_assignment_keeps_its_key() -> None:
    assert hidden_assignment(f"properties.sasl.jaas.config={JAAS}") == f"properties.sasl.jaas.config={HIDDEN}"
    assert hidden_assignment("properties.acks=1") == "properties.acks=1"


def test_a_document_loses_secrets_at_every_depth_and_keeps_the_rest() -> None:
    document = {
        "properties": {"sasl.jaas.config": JAAS, "acks": "all"},
        "vary": {"SSL.KEY.PASSWORD": [{"value": "hunter2!"}]},
        "readers": [{"redis_url": "redis://:hunter2!@h/0", "properties": {"ssl.key.passphrase": "hunter2!"}}],
        "pin": {"api_key": 48151623},
        "counts": [1, 2.5, None, True],
    }
    shown = hidden_document(document)
    assert "hunter2" not in json.dumps(shown)
    assert "48151623" not in json.dumps(shown)
    assert shown["properties"] == {"sasl.jaas.config": HIDDEN, "acks": "all"}
    assert shown["counts"] == [1, 2.5, None, True]
    assert has_hidden(shown)
    assert not has_hidden({"counts": [1, "a"]})


def test_a_redactor_knows_a_secret_again_in_a_sentence_that_does_not_say_what_it_is() -> None:
    redactor = Redactor.of({"sasl.jaas.config": JAAS}, arguments=["--toxiproxy", "http://a:pa%40ssw0rd@h:1"])
    assert redactor.text("login of alice with hunter2! failed") == f"login of alice with {HIDDEN} failed"
    assert "pa%40ssw0rd" not in redactor.text("userinfo pa%40ssw0rd was refused")
    assert "pa@ssw0rd" not in redactor.text("userinfo pa@ssw0rd was refused")
    assert redactor.arguments(["hunter2!"]) == [HIDDEN]
    assert redactor.document({"note": "hunter2!"}) == {"note": HIDDEN}


def test_an_exception_loses_its_secrets_and_so_do_its_causes() -> None:
    cause = KeyError("hunter2!")
    error = ValueError("wrong: hunter2!", 5)
    error.__cause__ = cause
    Redactor(["hunter2!"]).exception(error)
    assert error.args == (f"wrong: {HIDDEN}", 5)
    assert cause.args == (HIDDEN,)


def test_a_short_value_is_hidden_by_its_name_and_does_not_take_figures_apart() -> None:
    redactor = Redactor.of({"ssl.key.password": "1"})
    assert redactor.document({"ssl.key.password": "1", "n": "101"}) == {"ssl.key.password": HIDDEN, "n": "101"}


SECRETS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=6, max_size=30).filter(
    lambda text: text not in HIDDEN and text != text[0] * len(text) and not Redactor([text]).weak
)


@given(SECRETS)
def test_no_secret_survives_in_any_place_that_tells_of_it(secret: str) -> None:
    """Whatever characters it has: what was a setting's value is found again in any later sentence."""
    document = {"properties": {"ssl.key.password": secret}, "note": "n"}
    redactor = Redactor.of(document)
    assert secret in set(secrets_in(document))
    for text in (secret, f"got '{secret}'", json.dumps({"note": secret}), f"http://x/{secret}", repr(secret)):
        assert secret not in redactor.text(text).replace(HIDDEN, "")
    assert secret not in json.dumps(redactor.document({**document, "other": [secret]})).replace(HIDDEN, "")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
@pytest.mark.thorough
def test_hiding_never_fails_and_hides_once(value: object) -> None:
    once = hidden_document(value)
    assert hidden_document(once) == once


@pytest.mark.parametrize("text", ["a" * 300_000, "a." * 150_000, "a://" * 20_000, "password" * 30_000, "'\\" * 150_000])
def test_a_long_text_costs_no_more_than_its_length(text: str) -> None:
    began_s = time.process_time()
    hidden_text(text)
    assert time.process_time() - began_s < 5.0


WEAK = ("kafka", "1234", "client", "client-1", "password123", "Secret", "20261129")


@pytest.mark.parametrize("secret", WEAK)
def test_a_weak_secret_changes_no_data(secret: str) -> None:
    redactor = Redactor.of({"ssl.key.password": secret})
    assert redactor.weak == 1
    assert redactor.encoded == ()
    data = {"engine": secret, "t_us": f"9{secret}9", "names": [secret], "reason": f"broker {secret} ended"}
    assert redactor.document({**data, "ssl.key.password": secret}) == {**data, "ssl.key.password": HIDDEN}
    assert redactor.text(f"waiting for {secret}") == f"waiting for {secret}"
    assert redactor.text(f"ssl.key.password={secret}") == f"ssl.key.password={HIDDEN}"


@pytest.mark.parametrize("secret", WEAK)
def test_a_weak_secret_is_hidden_as_a_word_of_what_others_say(secret: str) -> None:
    redactor = Redactor([secret])
    for text in (f"login with {secret} failed", f"login with '{secret}'.", f"'{secret}', as told", f"wrong={secret}"):
        assert redactor.foreign_text(text) == text.replace(secret, HIDDEN)
    for text in (f"org.apache.{secret}.common", f"/var/{secret}/log", f"x{secret}", f"{secret}y", f"a-{secret}"):
        assert redactor.foreign_text(text) == text
    error = ValueError(f"{secret} is wrong")
    redactor.exception(error)
    assert error.args == (f"{HIDDEN} is wrong",)


@pytest.mark.parametrize("secret", ["alice-secret", "hunter2!", "abcdefghijklmnop", "pl4nted-x-8c1f", "Zx81-Zx81"])
def test_a_secret_that_is_no_ordinary_word_is_hidden_everywhere(secret: str) -> None:
    redactor = Redactor([secret])
    assert redactor.weak == 0
    assert redactor.document({"note": f"x{secret}y"}) == {"note": f"x{HIDDEN}y"}


def test_a_secret_that_is_a_name_in_the_run_is_weak() -> None:
    redactor = Redactor(["sweep-baseline"], names=["Sweep-Baseline-r1"])
    assert redactor.document({"cell_id": "sweep-baseline-r1"}) == {"cell_id": "sweep-baseline-r1"}


def test_the_short_end_of_a_key_is_no_secret_by_itself() -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + "A1b2" * 16 + "\nab==\n-----END PRIVATE KEY-----"
    redactor = Redactor.of({"ssl.keystore.key": key})
    assert redactor.weak == 0
    assert redactor.values_out("A1b2" * 16) == HIDDEN
