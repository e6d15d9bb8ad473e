"""Login configurations as operators write them, and what is said of wrong ones."""

from __future__ import annotations

import pytest

from broker.security.jaas import PLAIN, parse_jaas


def test_an_entry_is_read_as_java_reads_it() -> None:
    text = f'{PLAIN} required\n username="broker"\tpassword="a b;=\\"\\\\" user_alice="s" user_a.b=plain user_x="";'
    entry = parse_jaas(text)
    assert entry.module == PLAIN
    assert entry.options["password"] == 'a b;="\\'
    assert entry.users == {"alice": "s", "a.b": "plain", "x": ""}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "MODULE required"),
        (f'{PLAIN} user_alice="secret";', "expected one of required"),
        (f'{PLAIN} required user_alice="secret"', "expected ;"),
        (f'{PLAIN} required user_alice "secret";', "expected = after the option user_alice"),
        (f'{PLAIN} required user_alice="secret;', "quotation mark"),
        (f"{PLAIN} required user_alice = = ;", "expected a value of user_alice"),
    ],
)
def test_a_wrong_entry_is_told_without_its_secrets(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as raised:
        parse_jaas(text)
    assert "secret" not in str(raised.value)


def test_an_entry_does_not_print_its_options() -> None:
    assert "secret" not in repr(parse_jaas(f'{PLAIN} required user_alice="secret";'))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('M required username="al\\"ice" password="a;b=c";', {"username": 'al"ice', "password": "a;b=c"}),
        ("M REQUIRED username='it''s' ;", None),
        ("M optional\n  a = 'x y' // a comment\n  b=c /* another */ d=\"\";", {"a": "x y", "b": "c", "d": ""}),
        ("M required;", {}),
        ("M required a=b", None),
        ("M required a b;", None),
        ("M required a=;", None),
        ('M required a="b;', None),
        ("M maybe a=b;", None),
        ("M", None),
        ("", None),
        ("M required; N required;", None),
    ],
)
def test_a_jaas_line_is_read_as_kafka_reads_it(text: str, options: dict[str, str] | None) -> None:
    if options is None:
        with pytest.raises(ValueError, match="its form is MODULE required"):
            parse_jaas(text)
    else:
        found = parse_jaas(text)
        assert (found.module, found.options) == ("M", options)
