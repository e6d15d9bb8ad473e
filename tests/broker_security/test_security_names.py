"""Subjects as Java prints them; mapping rules by the examples of Kafka's documentation."""

from __future__ import annotations

import time

import pytest

from broker.security.distinguished_names import rfc2253
from broker.security.mapping_rules import NoRuleError, PrincipalMapper

# Of https://kafka.apache.org/documentation/#security_authz_ssl
DOCUMENTED = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,"
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("cn=WebUser.7,ou=Other", "webuser.7"),
        ("UID=none", "UID=none"),
    ],
)
def test_kafkas_documented_rules_give_its_documented_names(subject: str, name: str) -> None:
    assert PrincipalMapper(DOCUMENTED).name_of(subject) == name


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", "CN=a,OU=b"),
        (" RULE:^CN=(.*),OU=(.*)$/$2-$1/U , DEFAULT ", "B-A"),
        ("RULE:^CN=x.*$/x/,RULE:.*/all/", "all"),
        ("RULE:^CN=(.*),OU=.*$/$1@$4/", "a@$4"),
        ("RULE:^CN=(.*),OU=.*$/$12/", "a2"),
        (r"RULE:^CN=(.*),OU=.*$/$1\/x\$/", "a/x$"),
    ],
)
def test_a_rule_replaces_as_java_does(rules: str, name: str) -> None:
    assert PrincipalMapper(rules).name_of("CN=a,OU=b") == name


def test_without_a_fitting_rule_there_is_no_name() -> None:
    with pytest.raises(NoRuleError, match="CN=a"):
        PrincipalMapper("RULE:^CN=b$/b/").name_of("CN=a")


@pytest.mark.parametrize(
    "rules", ["RULE:^CN=(.*)$/$1", "RULES:x/y/", "DEFAULT DEFAULT", "RULE:a/b/X", "RULE:(/b/", "CN=a"]
)
def test_rules_that_are_none_are_told(rules: str) -> None:
    with pytest.raises(ValueError, match=r"expected DEFAULT|pattern"):
        PrincipalMapper(rules)


def test_a_subject_cannot_keep_a_pattern_busy() -> None:
    began = time.process_time()
    with pytest.raises(NoRuleError):
        PrincipalMapper("RULE:^CN=(a+)+$/$1/").name_of("CN=" + "a" * 5_000 + "!")
    assert time.process_time() - began < 1.0


def test_a_subject_is_written_as_java_writes_it() -> None:
    subject = (
        (("countryName", "US"),),
        (("organizationName", "Example, Inc."),),
        (("organizationalUnitName", "Users"), ("userId", "7")),
        (("commonName", ' #alice+"bob" '),),
    )
    assert rfc2253(subject) == r"CN=\ #alice\+\"bob\"\ ,OU=Users+UID=7,O=Example\, Inc.,C=US"


def test_an_attribute_without_a_short_name_is_its_identifier_and_its_bytes() -> None:
    subject = ((("commonName", "a"),), (("emailAddress", "a@b.c"),), (("2.5.4.65", "x" * 200),))
    email = "1.2.840.113549.1.9.1=#1605" + b"a@b.c".hex()
    assert rfc2253(subject) == f"2.5.4.65=#0c81c8{'78' * 200},{email},CN=a"
