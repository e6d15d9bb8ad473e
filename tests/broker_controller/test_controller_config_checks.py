"""Values that are wrong, and the reasons in the words of Apache Kafka."""

from __future__ import annotations

import pytest

from broker.controller.broker_configs import broker_config_problem
from broker.controller.config_checks import (
    AnyList,
    Boolean,
    Check,
    Choice,
    Fraction,
    GzipLevel,
    IntegerRange,
    OffsetReset,
)
from broker.kafka_settings import kafka_settings

INT, LONG = IntegerRange(low=0, high=2**31 - 1), IntegerRange(low=-1, high=2**63 - 1)
KNOWN = kafka_settings("broker")


@pytest.mark.parametrize(
    ("check", "value", "reason"),
    [
        (INT, "x", "Not a number of type INT"),
        (INT, "", "Not a number of type INT"),
        (INT, "1_000", "Not a number of type INT"),
        (INT, str(2**31), "Not a number of type INT"),
        (INT, "-1", "Value must be at least 0"),
        (LONG, "9" * 5_000, "Not a number of type LONG"),
        (LONG, "-2", "Value must be at least -1"),
        (IntegerRange(low=1, high=17), "18", "Value must be no more than 17"),
        (GzipLevel(), "0", "Value must be between 1 and 9 or equal to -1"),
        (Fraction(), "x", "Not a number of type DOUBLE"),
        (Fraction(), "nan", "Not a number of type DOUBLE"),
        (Fraction(), "-0.5", "Value must be at least 0"),
        (Boolean(), "maybe", "Expected value to be either true or false"),
        (Choice(allowed=("a", "b")), "c", "String must be one of: a, b"),
        (
            OffsetReset(),
            "by_duration:PT-1H",
            "Invalid value `by_duration:PT-1H` for configuration name. The value must be either 'earliest', 'latest' "
            "or of the format 'by_duration:<PnDTnHnMn.nS>'.",
        ),
    ],
)
def test_reasons_are_in_kafkas_words(check: Check, value: str, reason: str) -> None:
    assert check.problem("name", value) == f"Invalid value {value} for configuration name: {reason}"


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (INT, " +7 "),
        (LONG, "-1"),
        (Boolean(), "TRUE"),
        (OffsetReset(), "by_duration:PT1H"),
        (Fraction(), "1"),
        (AnyList(), ""),
        (AnyList(), " a , a "),
        (GzipLevel(), "-1"),
    ],
)
def test_what_is_fine(check: Check, value: str) -> None:
    assert check.problem("name", value) is None


def test_the_number_is_shown_as_it_was_read() -> None:
    assert Fraction().problem("n", "2") == "Invalid value 2.0 for configuration n: Value must be no more than 1"
    assert INT.problem("n", "-007") == "Invalid value -7 for configuration n: Value must be at least 0"


def test_a_list_with_an_empty_item_is_wrong() -> None:
    for value in (",", "a,,b", "a,"):
        assert AnyList().problem("n", value) == "Configuration 'n' values must not be empty."


def test_a_list_names_the_item_that_is_wrong() -> None:
    problem = Choice(allowed=("a", "b"), several=True).problem("n", "a,c")
    assert problem == "Invalid value c for configuration n: String must be one of: a, b"


def test_a_brokers_setting_that_is_none_is_kept_and_one_that_cannot_change_is_refused() -> None:
    assert broker_config_problem("nonsense", "1", KNOWN) is None
    assert "10000 characters" in (broker_config_problem("nonsense", "1" * 10_001, KNOWN) or "")
    for name in ("node.id", "num.io.threads", "listener.name.external.nonsense"):
        assert broker_config_problem(name, "1", KNOWN) == f"Cannot update these configs dynamically: [{name}]"
