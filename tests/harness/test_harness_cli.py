"""The command line: each exit code, data on stdout and problems on stderr, and what it prints of verdicts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness import VERSION
from harness.cli.load.chaos_suites import chaos_suite
from harness.cli.main import execute
from harness.cli.planning.fitting import fitting
from harness.errors import ExitCode
from harness.plan import build_plan
from harness.run.directory.reproduce import reproduce_command
from harness.run.directory.run_directory import create_run_directory
from harness.run.report.reporting import exit_code_of, print_verdicts
from harness.scenarios import cases_of
from harness.suite import load_suite
from runlog.records.codec import from_document, to_json
from runlog.records.verdicts import VerdictsRecord
from workloads.clients import check_properties
from workloads.clients.protocol import PropertyError

SUITE = "name: mine\nworkload: {rate_per_s: 10}\nsweep: {baseline: {acks: all}, vary: {linger.ms: [1]}}\n"


@pytest.fixture
def suite_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(SUITE)
    return path


def test_a_valid_suite_is_ok(suite_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["validate", str(suite_file), "demo", "leader-loss"]) == ExitCode.PASS
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{suite_file}: ok, suite with 2 cells"
    assert out[2] == "leader-loss: ok, scenario with 2 cases"


def test_a_wrong_suite_is_a_usage_error_on_stderr(suite_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite_file.write_text(SUITE.replace("rate_per_s", "rate"))
    assert execute(["validate", str(suite_file)]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{suite_file}:2: workload.rate: no such key" in captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "no-such-suite"],
        ["run", "demo", "--cluster", "kafak", "--dry-run"],
        ["run", "demo", "--client", "nobody", "--dry-run"],
        ["run", "demo", "--cluster", "external", "--dry-run"],
        ["run", "demo", "--bootstrap-server", "localhost:9092", "--dry-run"],
        ["run", "demo", "--set", "nonsense", "--dry-run"],
        ["run", "--no-such-option"],
        ["run"],
        ["nothing"],
        ["list", "nothing"],
        ["schema", "nothing"],
        ["report", "/no/such/run"],
        ["chaos", "leader-los", "--dry-run"],
        ["chaos", "leader-loss", "--case", "acks-2", "--dry-run"],
        ["cluster", "up", "--cluster", "external"],
        ["cluster", "up", "--name", "../x"],
    ],
)
def test_usage_errors_exit_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(arguments) == ExitCode.USAGE
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "dmeo"], "no suite 'dmeo'; did you mean 'demo'?"),
        (["run", "demo", "--cluster", "kafak"], "--cluster kafak: no such cluster; did you mean 'kafka'?"),
        (["run", "demo", "--client", "conflunt"], "client 'conflunt': no such client; did you mean 'confluent'?"),
        (["run", "demo", "--toxiproxy", "embeded"], "expected auto, embedded or a URL like http://127.0.0.1:8474; did"),
        (["run", "demo", "--toxiproxy", "localhost:1"], "did you mean 'http://localhost:1'?"),
        (
            ["run", "demo", "--set", "workload.rate_per_sec=5"],
            "workload.rate_per_sec: no such key; did you mean 'rate_per_s'?",
        ),
        (
            ["run", "demo", "--set", "sweep.baseline.linger.mss=5"],
            "unknown property 'linger.mss', nearest is 'linger.ms'",
        ),
        (["chaos", "leader-los"], "no scenario 'leader-los'; did you mean 'leader-loss'?"),
        (["chaos", "leader-loss", "--case", "acks-al"], "no case 'acks-al'; did you mean 'acks-all'?"),
        (
            ["chaos", "leader-loss", "request-refused", "--case", "acks-1"],
            "of several scenarios, name cells: --cell chaos-leader-loss-acks-1",
        ),
        (
            ["run", "demo", "--allow", "/no/such/file"],
            "--allow /no/such/file: no such file: there is no directory /no/such",
        ),
        (["list", "suits"], "list suits: nothing of that name to list; did you mean 'suites'?"),
        (["schema", "suit"], "schema suit: no such schema; did you mean 'suite'?"),
        (["report", "/no/such/run"], "/no/such/run is no run directory: it does not exist"),
        (["confirm", "/no/such/run"], "/no/such/run is no run directory: it does not exist"),
        (["cluster", "up", "--cluster", "docker"], "docker compose up -d"),
        (["cluster", "up", "--cluster", "refrence"], "--cluster refrence: no such cluster; did you mean 'reference'?"),
    ],
)
@pytest.mark.thorough
def test_a_wrong_word_is_answered_with_the_nearest_right_one(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = arguments[0] in ("run", "chaos")
    assert execute([*arguments, "--dry-run"] if plans else arguments) == ExitCode.USAGE
    assert told in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named_with_the_nearest_that_is(
    suite_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = suite_file.with_name("mien.yaml")
    assert execute(["validate", str(wrong)]) == ExitCode.USAGE
    assert f"{wrong}: no such file in {suite_file.parent}; did you mean 'mine.yaml'?" in capsys.readouterr().err
    assert execute(["validate", f"{suite_file.parent}/"]) == ExitCode.USAGE
    assert "is a directory, expected a file" in capsys.readouterr().err


def test_a_client_config_is_read_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["run", "smoke", "--cluster", "external", "--bootstrap-server", "localhost:9092", "--dry-run"]
    path = tmp_path / "client.properties"
    assert execute([*at, "--client-config", str(path)]) == ExitCode.USAGE
    assert f"--client-config {path}: no such file" in capsys.readouterr().err
    path.write_text("security.protocol SSL\n")
    assert execute([*at, "--client-config", str(path)]) == ExitCode.USAGE
    assert f"{path}:1: expected name=value" in capsys.readouterr().err


@pytest.mark.thorough
def test_an_external_cluster_gets_what_works_from_the_clients_side(capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--cluster", "external", "--bootstrap-server", "localhost:9092", "--dry-run"]
    assert execute(["chaos", *at]) == ExitCode.ENVIRONMENT, "nobody answers there"
    shown = capsys.readouterr()
    assert "FAIL     cluster: --bootstrap-server: nobody can be reached" in " ".join(shown.out.split("\n"))
    assert "chaos-response-lost-idempotence-off" in shown.out
    assert "chaos-request-refused-in-flight-5" in shown.out
    (left_out,) = [line for line in shown.err.splitlines() if "(needs a cluster that the harness starts" in line]
    for needs_our_own in ("disk-failure", "power-loss-all", "starved-leader"):
        assert f"chaos-{needs_our_own}-" not in shown.out
        assert f" {needs_our_own}," in left_out
    (for_fault_hosts,) = [line for line in shown.err.splitlines() if "(needs --fault-hosts" in line]
    # On processes of brokers, or on links between them.
    for acts_on_hosts in ("coordinator-kill", "leader-loss", "leader-loss-paused", "ring-and-bridge", "zombie-leader"):
        assert f"chaos-{acts_on_hosts}" not in shown.out
        assert f" {acts_on_hosts}" in for_fault_hosts
    assert execute(["chaos", "leader-loss", *at]) == ExitCode.USAGE
    assert execute(["run", "demo", *at, "--set", "chaos=[]"]) == ExitCode.ENVIRONMENT
    assert "without effect on an external cluster: cluster.settings" in capsys.readouterr().err
    assert execute(["run", "demo", "--client-config", "x.properties", "--dry-run"]) == ExitCode.USAGE


def test_dry_run_prints_the_plan_in_order_and_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", "demo", "--dry-run", "--seed", "3"]) == ExitCode.PASS
    lines = capsys.readouterr().out.splitlines()
    suite = load_suite("demo")
    cells = build_plan(suite, cases_of, seed=3, client=suite.client)
    assert [line.split()[1] for line in lines[1:-2]] == [cell.cell_id for cell in cells]
    assert "seed 3" in lines[0]
    assert lines[-2].startswith("about ")
    assert lines[-1] == "cells that a busy host spoils are not repeated: they are marked", "the demo waits for no host"


def test_the_demo_has_the_seven_chaos_cells(capsys: pytest.CaptureFixture[str]) -> None:
    cells = build_plan(load_suite("demo"), cases_of, seed=7, client="reference")
    expect = {cell.cell_id: cell.record.expect for cell in cells if cell.kind == "chaos"}
    records = [cell.record for cell in cells if cell.kind == "chaos"]
    assert all(record.about and record.source and record.note for record in records), "told in the report"
    damaged = {
        cell_id: [name for name, what in to_json(damage).items() if what == "predicted"]
        for cell_id, damage in expect.items()
    }
    assert damaged == {
        "chaos-leader-loss-acks-1": ["lost"],
        "chaos-leader-loss-acks-all": [],
        "chaos-response-lost-idempotence-off": ["duplicated"],
        "chaos-response-lost-idempotence-on": [],
        "chaos-request-refused-in-flight-5": ["reordered"],
        "chaos-request-refused-in-flight-1": [],
        "chaos-request-refused-in-flight-5-idempotent": [],
    }


def test_chaos_takes_cases_by_name() -> None:
    suite = chaos_suite(["leader-loss"], ["acks-all"], [])
    assert [cell.cell_id for cell in build_plan(suite, cases_of, seed=1, client="x")] == ["chaos-leader-loss-acks-all"]


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["scenarios", "suites", "faults", "clients", "clusters"])
def test_list_prints_rows_and_json(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["list", what]) == ExitCode.PASS
    text = capsys.readouterr().out
    assert execute(["list", what, "--json"]) == ExitCode.PASS
    rows = json.loads(capsys.readouterr().out)
    assert rows
    assert all(row["name"] in text for row in rows)


def test_schema_is_json_schema_of_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["schema"]) == ExitCode.PASS
    schema = json.loads(capsys.readouterr().out)
    assert {"name", "workload", "sweep", "chaos"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False
    assert execute(["schema", "runlog"]) == ExitCode.PASS
    assert set(json.loads(capsys.readouterr().out)["streams"]) == {
        "send",
        "recv",
        "log",
        "batches",
        "copies",
        "uncommitted",
        "audit",
    }


@pytest.mark.slow
def test_a_run_directory_is_never_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old").write_text("precious")
    assert execute(["run", "smoke", "--run-dir", str(tmp_path)]) == ExitCode.USAGE
    assert "not empty" in capsys.readouterr().err
    first, second = (create_run_directory(tmp_path / "runs", "x") for _ in range(2))
    assert first != second


def test_a_bug_of_ours_exits_with_5(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(_names: object) -> int:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("harness.cli.suites.inspect.validate_files", broken)
    assert execute(["validate", "demo"]) == ExitCode.HARNESS_ERROR
    assert "ZeroDivisionError: a bug" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["--version"]) == ExitCode.PASS
    assert capsys.readouterr().out.strip() == VERSION


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ({"exit_code": 0}, ExitCode.PASS),
        ({"exit_code": 1}, ExitCode.FAIL),
        ({"exit_code": 4}, ExitCode.INCONCLUSIVE),
        ({"exit_code": 77}, ExitCode.HARNESS_ERROR),
        ({}, ExitCode.HARNESS_ERROR),
    ],
)
def test_the_verdict_decides_the_exit_code(verdicts: dict[str, int], code: ExitCode) -> None:
    assert exit_code_of(from_document(VerdictsRecord, verdicts)) == code


def test_the_last_line_is_the_reports_path(capsys: pytest.CaptureFixture[str]) -> None:
    cell = {
        "cell_id": "chaos-x", "verdict": "fail", "reasons": ["lost 2"], "throughput_records_per_s": 1234.5,
        "latency_us": {"corrected": {"p50": 1500, "p99": 9000}, "uncorrected": {"p99": 8000}},
        "lost": 412, "duplicated": 0, "reordered": 0,
        "predicted": {"lost": {"predicted": 410, "observed": 412, "only_predicted": 0, "only_observed": 2}},
    }  # fmt: skip
    print_verdicts(from_document(VerdictsRecord, {"cells": [cell], "verdict": "fail"}), Path("/runs/a/report.html"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "/runs/a/report.html"
    row = next(line for line in lines if line.startswith("chaos-x "))
    assert row.split() == ["chaos-x", "fail", "1,234", "1.5", "9.0", "8.0", "412", "0", "0", "410", "!=", "412", "lost"]
    assert "chaos-x: lost 2" in lines


def test_damage_that_any_number_is_allowed_of_is_not_set_against_a_prediction(
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = {"predicted": 0, "observed": 226, "only_predicted": 0, "only_observed": 226, "expected": "any"}
    cell = {"cell_id": "chaos-x", "verdict": "pass", "reordered": 226, "predicted": {"reordered": counts}}
    print_verdicts(from_document(VerdictsRecord, {"cells": [cell], "verdict": "pass"}), Path("/runs/a/report.html"))
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("chaos-x "))
    assert row.endswith("  226 reordered (allowed)")
    assert "!=" not in row


def test_the_command_can_be_repeated_with_the_same_seed() -> None:
    assert reproduce_command(["run", "demo"], 7) == "harness run demo --seed 7"
    assert reproduce_command(["run", "demo", "--seed", "3"], 3) == "harness run demo --seed 3"
    assert reproduce_command(["run", "a b.yaml", "--seed=3"], 3) == "harness run 'a b.yaml' --seed=3"


def test_a_sweep_that_its_client_cannot_run_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert execute(["run", "smoke", "--client", "aiokafka", "--dry-run"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "smoke.yaml:29: client aiokafka cannot set max.in.flight.requests.per.connection" in said
    one = "sweep.baseline.max.in.flight.requests.per.connection=1"
    assert execute(["run", "smoke", "--client", "aiokafka", "--set", one, "--dry-run"]) == ExitCode.PASS


@pytest.mark.parametrize("client", ["reference", "confluent", "aiokafka", "kafka_python"])
def test_every_python_client_tells_what_it_cannot_set_without_a_cluster(client: str) -> None:
    check_properties(client, {"acks": "all", "linger.ms": "5"})
    with pytest.raises(PropertyError, match=r"linger\.mss"):
        check_properties(client, {"linger.mss": "5"})


def test_scenarios_that_a_client_cannot_run_are_left_out_by_reason(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["slow-connect", "truncation-seen", "consumer-kill"]
    assert execute(["chaos", *wanted, "--client", "aiokafka", "--dry-run"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("left out")]
    setup = "socket.connection.setup.timeout.ms: the library has no such setting"
    assert lines == [
        f"left out: slow-connect (client aiokafka cannot set {setup})",
        "left out: truncation-seen (needs --client reference or confluent or java)",
    ]
    assert execute(["chaos", "slow-connect", "--client", "aiokafka", "--dry-run"]) == ExitCode.USAGE
    assert "nothing is left to run: slow-connect (client aiokafka" in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.parametrize("cluster", ["reference", "kafka"])
def test_the_default_client_is_left_out_of_no_scenario(capsys: pytest.CaptureFixture[str], cluster: str) -> None:
    assert execute(["chaos", "--cluster", cluster, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "chaos-copy-loop-bounces " in said.out
    assert not [line for line in said.err.splitlines() if "client" in line]


def test_a_client_without_a_setting_runs_a_scenario_with_the_nearest_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert execute(["chaos", "leader-moved", "request-refused", "--client", "aiokafka", "--dry-run"]) == 0
    said = capsys.readouterr()
    change = "client aiokafka: max.in.flight.requests.per.connection is 1 instead of 5, no delivery.timeout.ms, it"
    changed = [line for line in said.err.splitlines() if line.startswith("changed")]
    assert changed == [
        f"changed: leader-moved, request-refused ({change} never gives up)",
        f"changed: leader-moved ({change} gives up after request.timeout.ms)",
        "changed: request-refused (client aiokafka: no delivery.timeout.ms, it gives up after request.timeout.ms)",
    ]
    assert "chaos-leader-moved-plain " in said.out
    # The case that is about overtaking keeps its five in flight, and this client cannot have them.
    assert "chaos-request-refused-in-flight-5 " not in said.out
    assert "left out: request-refused (client aiokafka cannot set max.in.flight" in said.err
    assert execute(["chaos", "leader-moved", "--client", "confluent", "--dry-run"]) == 0
    assert "changed" not in capsys.readouterr().err


def test_a_cell_with_other_settings_than_its_scenario_says_so_on_its_page() -> None:
    suite = chaos_suite(["leader-moved"], ["idempotent"], [])
    (cell,) = fitting(build_plan(suite, cases_of, seed=1, client="aiokafka"), "reference")
    assert "delivery.timeout.ms" not in cell.properties
    assert cell.properties["max.in.flight.requests.per.connection"] == "1"
    assert cell.record.note.endswith("1 instead of 5, no delivery.timeout.ms, it never gives up.")


@pytest.mark.slow
@pytest.mark.thorough
def test_a_command_starts_without_what_only_the_analysis_needs() -> None:
    """pandas alone takes a third of a second of every command, and a run does not use it."""
    command = [sys.executable, "-X", "importtime", "-m", "harness", "run", "demo", "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == ExitCode.PASS, done.stderr[-2000:]
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "harness.run.orchestrator" in imported
    assert not imported & {"pandas", "pyspark", "altair", "jinja2"}
