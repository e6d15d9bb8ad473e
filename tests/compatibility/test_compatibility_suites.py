"""How clients' own tests are run and judged: without a client, and without a broker."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.compatibility.suites import kafka_python
from tests.compatibility.suites.docker_stand_in import BrokerCommands
from tests.compatibility.suites.go import run_go_test
from tests.compatibility.suites.librdkafka import declared_in, outcomes_of, parts_of
from tests.compatibility.suites.suite import HEAD_BYTES, TAIL_BYTES, run_test


def run(script: str, directory: Path, timeout_s: float = 120.0) -> tuple[int | None, str]:
    return run_test([sys.executable, "-c", script], {}, directory, directory / "test.log", timeout_s)


@pytest.mark.slow
def test_what_prints_without_end_keeps_its_begin_and_its_end(tmp_path: Path) -> None:
    code, printed = run(f"print('begin' + 'x' * {HEAD_BYTES + 4 * TAIL_BYTES} + 'end'); raise SystemExit(3)", tmp_path)
    assert code == 3
    assert (printed[:5], printed.strip()[-3:]) == ("begin", "end")
    assert len(printed) < HEAD_BYTES + 2 * TAIL_BYTES


@pytest.mark.slow
def test_a_test_that_does_not_end_is_killed_with_what_it_started(tmp_path: Path) -> None:
    child = "import time; time.sleep(600)"
    script = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]); print('on', flush=True); {child}"
    )
    for timeout_s in (2.0, 20.0, 100.0):  # a busy host may need more than the first to start both
        begin = time.monotonic()
        code, printed = run(script, tmp_path, timeout_s)
        assert time.monotonic() - begin < timeout_s + 300  # the child holds the pipe open: it must be gone as well
        if printed:
            break
    assert (code, printed) == (None, "on\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prints", "state", "reason"),
    [
        ("--- PASS: TestIt (0.1s)", "passed", ""),
        ("--- SKIP: TestIt (0.1s)\n    it_test.go:7: needs more", "skipped", "needs more"),
        ("    it_test.go:7: wrong\n        \texpected 1\n--- FAIL: TestIt (0.1s)", "failed", "wrong expected 1"),
        ("panic: test timed out", "failed", "panic: test timed out"),
        ("--- PASS: TestOther (0.1s)", "failed", "--- PASS: TestOther (0.1s)"),
    ],
)
def test_a_go_test_is_judged_by_its_own_line(tmp_path: Path, prints: str, state: str, reason: str) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!{sys.executable}\nprint({prints!r})\n")
    program.chmod(0o755)
    outcome = run_go_test(program, "TestIt", tmp_path, {}, timeout_s=120)
    assert (outcome.state, outcome.reason.strip()) == (state, reason)


def test_librdkafka_tests_that_ran_nothing_or_ended_the_program_are_no_passes() -> None:
    printed = """\x1b[31m### Test "0011_batch (part:629)" failed at 0011-batch.c:718:part() at Sun: ###
Test assertion failed: "10 == 100":
### Test "<MAIN>" failed at test.c:1950:test_wait_exit() at Sun: ###
|\x1b[32m <MAIN>                                   |     PASSED |   0.206s \x1b[0m|
|\x1b[32m 0001_multiobj                            |     PASSED |   4.206s \x1b[0m|
|\x1b[32m 0089_interval                            |     PASSED |   0.000s \x1b[0m|
|\x1b[36m 0097_ssl                                 |    SKIPPED |   0.000s \x1b[0m|\x1b[36m wants SSL\x1b[0m
|\x1b[31m 0100_wrong                               |     FAILED |   1.000s \x1b[0m|\x1b[31m it broke\x1b[0m
"""
    assert {name: (each.state, each.reason) for name, each in outcomes_of(printed).items()} == {
        "0001_multiobj": ("passed", ""),
        "0089_interval": ("skipped", "none of its parts ran"),
        "0097_ssl": ("skipped", "wants SSL"),
        "0100_wrong": ("failed", "it broke"),
        "0011_batch": ("failed", '0011-batch.c:718: Test assertion failed: "10 == 100":'),
    }


def test_what_passed_before_librdkafkas_program_aborted_has_passed() -> None:
    """A test that fails and leaves threads behind ends the program before the summary."""
    printed = """\x1b[36m[0045_update  / 13.501s] \x1b[32m============= Test 0045_update PASSED =============\x1b[0m
\x1b[31m### Test "0045_regex (do_test:704: Regex)" failed at 0045-update.c:97:await() at Sat Nov 28 00:57:12 2026: ###
Test assertion failed: "2 == 10"
\x1b[36m[0045_many         / 44.276s] \x1b[32m================= Test 0045_many PASSED =================\x1b[0m
\x1b[31m### Test "<MAIN>" failed at test.c:1950:test_wait_exit() at Sat Nov 28 00:57:58 2026: ###
"""
    assert {name: each.state for name, each in outcomes_of(printed).items()} == {
        "0045_update": "passed", "0045_regex": "failed", "0045_many": "passed",
    }  # fmt: skip


def test_of_librdkafka_those_are_run_that_ask_a_broker() -> None:
    table = """struct test tests[] = {
    {.name = "<MAIN>", .flags = TEST_F_LOCAL},
    _TEST(0001_plain, 0),
    _TEST(0002_local, TEST_F_LOCAL),
    _TEST(0003_made, 0, TEST_BRKVER(0, 9, 0, 0), .scenario = "noautocreate"),
    _TEST(0004_mocked, 0),
    _TEST(0005_mock, 0),
    _TEST(0006_known, TEST_F_KNOWN_ISSUE, .extra = "text"),
    _TEST(8000_by_hand, TEST_F_MANUAL),
    {NULL}};"""
    assert [(each.name, each.scenario) for each in declared_in(table)] == [
        ("0001_plain", "default"), ("0003_made", "noautocreate"), ("0004_mocked", "default"),
        ("0006_known", "default"),
    ]  # fmt: skip


def test_a_long_test_of_librdkafka_is_run_part_by_part() -> None:
    text = """static void
do_test_Made(int x) {
        SUB_TEST_QUICK();
}

static void do_test_helper(int x) {
}

static void do_test_Other(void) {
        SUB_TEST("%d", 1);
}
"""
    assert [(each.name, each.part) for each in parts_of("0081_admin", text)] == [
        ("0081_admin Made", "do_test_Made"), ("0081_admin Other", "do_test_Other")
    ]  # fmt: skip


def test_tests_of_kafka_python_that_cannot_be_cleared_up_after_have_failed() -> None:
    printed = """test/integration/test_a.py::test_one PASSED    [ 20%]
test/integration/test_a.py::test_two[a-1] FAILED    [ 40%]
test/integration/test_a.py::test_three SKIPPED (too old)    [ 60%]
test/integration/test_a.py::test_four PASSED    [ 80%]
test/integration/test_a.py::test_four ERROR    [ 80%]
FAILED test/integration/test_a.py::test_two[a-1] - assert 1 == 2
ERROR test/integration/test_a.py::test_four - left threads
"""
    found = kafka_python.outcomes_of(printed)
    assert {name.split("::")[1]: (each.state, each.reason) for name, each in found.items()} == {
        "test_one": ("passed", ""), "test_two[a-1]": ("failed", "assert 1 == 2"),
        "test_three": ("skipped", "too old"), "test_four": ("failed", "left threads"),
    }  # fmt: skip


@pytest.mark.slow
def test_tests_that_ask_docker_stop_and_start_our_brokers(tmp_path: Path) -> None:
    said: list[tuple[str, int]] = []
    running = {1: None, 2: None}

    def terminate(broker: int, _: float) -> int:
        said.append(("stop", broker))
        del running[broker]
        return 0

    cluster = SimpleNamespace(
        processes=running, start=lambda broker: said.append(("start", broker)), terminate=terminate,
        stderr=lambda broker: f"log of {broker}",
    )  # fmt: skip
    world: Any = SimpleNamespace(cluster=cluster)
    with BrokerCommands(world, tmp_path) as commands:

        def docker(*arguments: str) -> tuple[int, str]:
            command = [str(commands.programs / "docker"), *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            return done.returncode, done.stdout.strip()

        assert docker("compose", "stop", "kafka-2") == (0, "stop kafka-2")
        assert docker("compose", "start", "kafka-2") == (0, "start kafka-2")
        assert docker("compose", "logs", "--since", "2026-11-22T00:00:00Z", "kafka-1") == (0, "log of 1")
        code, text = docker("compose", "exec", "kafka-1", "sh")
        assert (code, "only compose stop" in text) == (1, True)
    assert said == [("stop", 2), ("start", 2)]
