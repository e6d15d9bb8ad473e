"""A wrong suite is refused with file, line, what was expected and got, and the nearest right key; --set reads well."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.suite import Suite, builtin_suites, load_suite
from harness.suite_source import apply_overrides, parse_override, parse_source, validate

GOOD = """\
name: mine
workload:
  rate_per_s: 100
sweep:
  baseline:
    batch.size: 16384
    enable.idempotence: true
  vary:
    linger.ms: [0, 50]
    acks:
      - value: 1
        with: {enable.idempotence: false}
        because: needs acks=all
"""


def message_of(text: str, *overrides: str) -> str:
    source = parse_source(text, "mine.yaml")
    with pytest.raises(UsageError) as caught:
        apply_overrides(source, overrides)
        validate(source, Suite)
    return str(caught.value)


def suite_of(text: str, *overrides: str) -> Suite:
    source = parse_source(text, "mine.yaml")
    apply_overrides(source, overrides)
    return validate(source, Suite)


def test_a_good_suite_is_read_with_kafka_spellings() -> None:
    suite = suite_of(GOOD)
    assert suite.sweep is not None
    assert suite.sweep.baseline == {"batch.size": "16384", "enable.idempotence": "true"}
    assert [variant.value for variant in suite.sweep.vary["linger.ms"]] == ["0", "50"]
    assert suite.sweep.vary["acks"][0].with_ == {"enable.idempotence": "false"}


def test_a_misspelt_key_names_file_line_and_the_nearest_key() -> None:
    message = message_of(GOOD.replace("rate_per_s", "rate_per_sec"))
    assert "mine.yaml:3: workload.rate_per_sec: no such key; did you mean 'rate_per_s'?" in message


def test_a_misspelt_key_at_the_top() -> None:
    assert "mine.yaml:4: sweeep: no such key; did you mean 'sweep'?" in message_of(GOOD.replace("sweep:", "sweeep:"))


def test_a_misspelt_key_inside_a_list_names_its_line() -> None:
    message = message_of(GOOD.replace("because", "becuase"))
    assert "mine.yaml:13: sweep.vary.acks.0.becuase: no such key; did you mean 'because'?" in message


def test_a_wrong_value_says_what_was_expected_and_got() -> None:
    message = message_of(GOOD.replace("rate_per_s: 100", "rate_per_s: fast"))
    assert "mine.yaml:3: workload.rate_per_s: " in message
    assert "expected a number" in message
    assert "got 'fast'" in message


def test_a_missing_key_names_the_place_that_lacks_it() -> None:
    assert "mine.yaml:4: sweep.baseline: this key is required" in message_of(
        "name: a\nworkload:\n  rate_per_s: 1\nsweep:\n  vary: {}\n"
    )


def test_all_problems_are_listed_at_once() -> None:
    message = message_of(GOOD.replace("name: mine", "name: mine\nbogus: 1\nother: 2"))
    assert len(message.splitlines()) == 2


def test_bad_yaml_names_the_line() -> None:
    with pytest.raises(UsageError, match=r"mine\.yaml:2: not YAML"):
        parse_source("name: a\n  b: : c\n", "mine.yaml")


def test_a_duplicate_key_is_refused() -> None:
    with pytest.raises(UsageError, match=r"mine\.yaml:2"):
        parse_source("name: a\nname: b\n", "mine.yaml")


def test_a_suite_without_cells_is_refused() -> None:
    assert "has no cell" in message_of("name: a\nworkload: {rate_per_s: 1}\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=5", ("a.b", 5)),
        ("a=1.5", ("a", 1.5)),
        ("a=true", ("a", True)),
        ("a=no", ("a", "no")),
        ("a='5'", ("a", "5")),
        ("a=[1, x]", ("a", [1, "x"])),
        ("a=", ("a", "")),
        ("a=b=c", ("a", "b=c")),
    ],
)
def test_override_values_are_yaml(text: str, expected: tuple[str, object]) -> None:
    assert parse_override(text) == expected


@pytest.mark.parametrize("text", ["nothing", "=5", " =5"])
def test_an_override_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected key=value"):
        parse_override(text)


def test_overrides_reach_dotted_kafka_names() -> None:
    suite = suite_of(
        GOOD,
        "workload.rate_per_s=7",
        "sweep.baseline.batch.size=99",
        "sweep.baseline.linger.ms=3",
        "topic.config.min.insync.replicas=1",
        "cluster.settings.num.io.threads=4",
        "sweep.vary.acks.0.because=why not",
    )
    assert suite.workload.rate_per_s == 7
    assert suite.sweep is not None
    assert suite.sweep.baseline["batch.size"] == "99"
    assert suite.sweep.baseline["linger.ms"] == "3"
    assert suite.topic.config == {"min.insync.replicas": "1"}
    assert suite.cluster.settings == {"num.io.threads": "4"}
    assert suite.sweep.vary["acks"][0].because == "why not"


def test_a_wrong_override_is_named_as_such() -> None:
    assert "--set workload.rte_per_s=1: workload.rte_per_s: no such key; did you mean 'rate_per_s'?" in message_of(
        GOOD, "workload.rte_per_s=1"
    )


def test_an_override_through_a_scalar_or_a_missing_item_is_refused() -> None:
    assert "is 'mine', not a mapping" in message_of(GOOD, "name.x=1")
    assert "is a list of 1; expected an index, got '7'" in message_of(GOOD, "sweep.vary.acks.7.because=x")


def test_every_builtin_suite_is_valid() -> None:
    assert {"demo", "smoke"} <= set(builtin_suites())
    for name in builtin_suites():
        assert load_suite(name).name == name


def test_an_unknown_suite_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'demo'"):
        load_suite("demmo")


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load_suite(str(tmp_path / "none.yaml"))
