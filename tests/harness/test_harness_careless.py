"""What a careless user writes is told before anything starts: what, where, expected and got; and no run begins."""

from __future__ import annotations

from pathlib import Path

import pytest

import chaos
from harness.cli.load import run as run_command
from harness.cli.main import execute
from harness.errors import ExitCode, UsageError
from harness.plan import build_plan
from harness.sasl_without_effect import check_mechanism
from harness.scenarios import cases_of
from harness.suite import Suite, TopicSpec, load_suite
from reports.read.errors import UsageProblem
from reports.read.spark_needs import require_what_it_takes

WORKLOAD = "workload: {rate_per_s: 1000, record_size_bytes: 100, warmup_ms: 1000, measure_ms: 3000, drain_ms: 1000}\n"
SWEEP = "sweep: {baseline: {linger.ms: 5}, vary: {linger.ms: [0]}}\n"


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def began(*_: object) -> None:
        raise AssertionError("a run was begun")

    monkeypatch.setattr(run_command, "_run_one", began)
    monkeypatch.chdir(tmp_path)


def suite(text: str) -> str:
    Path("x.yaml").write_text("name: x\n" + text)
    return "x.yaml"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (WORKLOAD.replace("3000", "10s") + SWEEP, "x.yaml:2: workload.measure_ms: "),
        (WORKLOAD.replace("3000", "10s") + SWEEP, "(the unit stands in the name of the key: 10000), got '10s'"),
        (WORKLOAD.replace("100,", "1KB,") + SWEEP, "the name of the key: 1024), got '1KB'"),
        (WORKLOAD.replace("1000", "5k", 1) + SWEEP, "the name of the key: 5000), got '5k'"),
        (WORKLOAD + SWEEP.replace("[0]", "[]"), "x.yaml:3: sweep: linger.ms is varied over no value"),
        (WORKLOAD + "chaos: [{scenario: leader-los}]\n", "x.yaml:3: chaos.0: no scenario 'leader-los'; did you mean"),
        (
            WORKLOAD + "chaos:\n  - {scenario: leader-loss, cases: [acks-2]}\n",
            "x.yaml:4: chaos.0: scenario leader-loss has",
        ),
        (
            "topic: {replication_factor: 1, config: {min.insync.replicas: 2}}\n" + WORKLOAD + SWEEP,
            "x.yaml:2: topic: min.insync.replicas is 2, expected at most replication_factor, which is 1",
        ),
        (
            "topic: {replication_factor: 1, config: {min.insync.replicas: 2}}\n" + WORKLOAD + SWEEP,
            "no record would ever be acknowledged",
        ),
    ],
)
@pytest.mark.parametrize("command", [["run", "--dry-run"], ["validate"]])
def test_a_wrong_suite_is_told_with_its_line(
    text: str, told: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute([command[0], suite(text), *command[1:]]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert told in said
    assert "Traceback" not in said
    assert not Path("runs").exists()


def test_without_acks_all_fewer_replicas_are_no_mistake() -> None:
    no_quorum = SWEEP.replace("linger.ms: 5", "acks: 1, enable.idempotence: false")
    assert (
        execute(["run", suite("topic: {replication_factor: 1}\n" + WORKLOAD + no_quorum), "--dry-run"]) == ExitCode.PASS
    )


def test_a_scenario_of_the_command_line_has_no_line_in_a_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["chaos", "leader-los", "--dry-run"]) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith("harness: no scenario 'leader-los'; did you mean 'leader-loss'?")


@pytest.mark.parametrize("words", [["run", "smoke"], ["bench"], ["chaos", "leader-loss"], ["report", "run"]])
def test_artifacts_that_cannot_be_kept_are_told_before_a_run(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path("file").absolute()
    file.touch()
    for place in ("file", "file/below"):
        assert execute([*words, "--artifacts", place]) == ExitCode.USAGE
        assert f"--artifacts {place}: {file} is a file, expected a directory" in capsys.readouterr().err


def test_the_second_directory_of_a_report_is_looked_at_before_the_first_is_analysed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "manifest.json").write_text("{}")
    Path("file").touch()
    for other, why in (("gone", "it does not exist"), ("file", "it is a file")):
        assert execute(["report", "good", other]) == ExitCode.USAGE
        assert f"{other} is no run directory: {why}" in capsys.readouterr().err


def test_what_is_no_spark_master_is_told_before_the_load() -> None:
    with pytest.raises(UsageProblem, match=r"'nonsense': expected local\[N\], spark://HOST:PORT"):
        require_what_it_takes("nonsense")


def test_a_range_is_no_empty_list() -> None:
    text = SWEEP.replace("[0]", "{from: 0, to: 9}").replace("vary", "design: latin-hypercube, vary")
    assert load_suite(suite(WORKLOAD + text)).sweep is not None
    with pytest.raises(UsageError):
        load_suite(suite(WORKLOAD + SWEEP.replace("[0]", "[]")))


@pytest.mark.parametrize(("replicas", "wanted"), [(1, "1"), (2, "2"), (3, "2")])
def test_what_must_be_in_sync_by_default_never_exceeds_the_replicas(replicas: int, wanted: str) -> None:
    """A topic with one replica could not be written with acks=all otherwise."""
    assert TopicSpec(replication_factor=replicas).config == {"min.insync.replicas": wanted}


VARIED = SWEEP.replace("linger.ms: [0]", "{0}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            WORKLOAD + VARIED.replace("{0}", "cluster.security: [ssl, tls]"),
            "x.yaml:3: sweep.vary.cluster.security:",
        ),
        (
            WORKLOAD + VARIED.replace("{0}", "cluster.brokers: [1, 3]"),
            "x.yaml:3: sweep.vary.cluster.brokers: no",
        ),
        (
            WORKLOAD + VARIED.replace("{0}", "workload.measure: [1]"),
            "x.yaml:3: sweep.vary.workload.measure: no",
        ),
        (
            WORKLOAD + VARIED.replace("{0}", "security.protocol: [PLAINTEXT, SSL]"),
            "x.yaml:3: security.protocol is no setting of the load here: cluster.security secures a cluster ",
        ),
        (
            "properties: {sasl.mechanism: PLAIN}\n" + WORKLOAD + SWEEP,
            "x.yaml:2: sasl.mechanism is no setting of the load here",
        ),
        (
            "cluster: {sasl: {mechanism: SCRAM-SHA-256}}\n" + WORKLOAD + SWEEP,
            "x.yaml:2: cluster.sasl.mechanism: has no effect, because no cell speaks SASL: set cluster.security ",
        ),
        (
            WORKLOAD + VARIED.replace("{0}", "cluster.sasl.mechanism: [SCRAM-SHA-256]"),
            "x.yaml:3: sweep.vary.cluster.sasl.mechanism: has no effect, because no cell speaks SASL",
        ),
        (
            "cluster: {security: SASL_SSL}\n" + WORKLOAD + SWEEP,
            "or 'sasl_ssl', got 'SASL_SSL'; did you mean 'sasl_ssl'?\n",
        ),
    ],
)
@pytest.mark.parametrize("command", [["run", "--dry-run"], ["validate"]])
def test_what_is_wrong_with_security_is_told_with_its_line(
    text: str, told: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute([command[0], suite(text), *command[1:]]) == ExitCode.USAGE
    assert told in capsys.readouterr().err


STORE = "ssl.truststore.location: /etc/ca.pem"
MADE_UP = "is no setting of a cluster that the harness starts, and which makes up what its clients need: "


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            f"properties: {{{STORE}}}\n" + WORKLOAD,
            f"x.yaml:2: ssl.truststore.location {MADE_UP}cluster.security=ssl or",
        ),
        (
            "properties: {ssl.keystore.key: hunter2}\n" + WORKLOAD,
            f"x.yaml:2: ssl.keystore.key {MADE_UP}cluster.ssl.client.auth=required gives clients certificates, and ",
        ),
        (
            'properties: {sasl.jaas.config: "x required password=hunter2;"}\nclient: confluent\n' + WORKLOAD,
            f"x.yaml:2: sasl.jaas.config {MADE_UP}cluster.sasl.mechanism says how clients log in, and --client-config ",
        ),
        (
            "cluster: {security: ssl}\n"
            + WORKLOAD.replace("}", f", readers: [{{name: r, properties: {{{STORE}}}}}]}}"),
            f"x.yaml:3: ssl.truststore.location {MADE_UP}",
        ),
        (
            "properties: {ssl.enabled.protocols: TLSv1.2}\n" + WORKLOAD,
            "x.yaml:2: ssl.enabled.protocols has no effect, because no cell speaks TLS: cluster.security=ssl or sasl_",
        ),
    ],
)
@pytest.mark.parametrize("command", [["run", "--dry-run"], ["validate"]])
def test_who_a_client_is_and_whom_it_trusts_is_no_setting_of_a_cluster_of_ours(
    text: str, told: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute([command[0], suite(text + SWEEP), *command[1:]]) == ExitCode.USAGE
    shown = capsys.readouterr().err
    assert told in shown
    assert "hunter2" not in shown


def test_how_tls_is_spoken_is_a_setting_where_some_cell_speaks_it() -> None:
    text = WORKLOAD + VARIED.replace("{0}", "ssl.enabled.protocols: [TLSv1.2]")
    assert execute(["run", suite(text), "--dry-run", "--set", "cluster.security=ssl"]) == ExitCode.PASS
    assert execute(["validate", suite("cluster: {security: sasl_ssl}\n" + text)]) == ExitCode.PASS


def test_a_scenario_of_ones_own_has_no_passwords_for_a_cluster_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(chaos.__file__).with_name("scenarios").joinpath("leader-kill.yaml").read_text()
    Path("own.yaml").write_text(text.replace("properties: {", f"properties: {{{STORE}, ", 1))
    told = f"ssl.truststore.location {MADE_UP}"
    for command in (["validate", "own.yaml"], ["chaos", "own.yaml", "--dry-run"]):
        assert execute(command) == ExitCode.USAGE
        assert told in capsys.readouterr().err
    cluster = ["--cluster", "external", "--bootstrap-server", "127.0.0.1:1"]
    execute(["chaos", "own.yaml", "--dry-run", *cluster])
    assert told not in capsys.readouterr().err


FOR_EXTERNAL = "engines: [external]\n"
EXTERNAL = ["--cluster", "external", "--bootstrap-server", "127.0.0.1:1"]
FULL = (
    f"properties: {{{STORE}, ssl.truststore.type: PEM, ssl.keystore.location: /etc/me.pem, ssl.keystore.type: PEM, "
    "ssl.cipher.suites: TLS_AES_128_GCM_SHA256}\nclient: confluent\n"
)


def test_a_suite_for_a_cluster_of_ones_own_has_settings_of_a_client_there(capsys: pytest.CaptureFixture[str]) -> None:
    """`validate` knows no cluster but what the suite says of it: it refused what `run` took."""
    path = suite(FOR_EXTERNAL + FULL + WORKLOAD + SWEEP)
    assert execute(["validate", path]) == ExitCode.PASS
    assert execute(["run", path, "--dry-run", *EXTERNAL]) == ExitCode.ENVIRONMENT, (
        "it is right, and nobody answers there"
    )
    shown = capsys.readouterr()
    assert "x.yaml: ok, suite with" in shown.out
    assert "one-cluster" not in shown.err, "nobody can start that cluster anew"


def test_without_saying_so_a_suite_is_told_how_to_say_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["validate", suite(FULL + WORKLOAD + SWEEP)]) == ExitCode.USAGE
    assert "only for a cluster of yours says so by `engines: [external]`" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("engines", "arguments", "told"),
    [
        (
            "[external]", [],
            "x.yaml:2: engines: the suite x is for --cluster external, and this command is for --cluster reference: "
            "give --cluster external --bootstrap-server HOST:PORT",
        ),
        (
            "[external]", ["--cluster", "kafka"],
            "x.yaml:2: engines: the suite x is for --cluster external, and this command is for --cluster kafka: give "
            "--cluster external --bootstrap-server HOST:PORT",
        ),
        (
            "[reference, docker, kafka]", EXTERNAL,
            "x.yaml:2: engines: the suite x is for --cluster reference, --cluster docker or --cluster kafka, and this "
            "command is for --cluster external: give --cluster kafka",
        ),
    ],
)  # fmt: skip
def test_a_suite_is_refused_on_a_cluster_that_it_is_not_for(
    engines: str, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = suite(f"engines: {engines}\n" + WORKLOAD + SWEEP)
    assert execute(["run", path, "--dry-run", *arguments]) == ExitCode.USAGE
    assert told in " ".join(capsys.readouterr().err.split())


def test_a_suite_for_both_kinds_of_cluster_must_be_right_on_both(capsys: pytest.CaptureFixture[str]) -> None:
    path = suite("engines: [kafka, external]\n" + FULL + WORKLOAD + SWEEP)
    assert execute(["validate", path]) == ExitCode.USAGE
    assert MADE_UP in capsys.readouterr().err


@pytest.mark.parametrize("command", [["validate"], ["run", "--dry-run", *EXTERNAL]])
def test_a_suite_for_a_cluster_of_ones_own_cannot_secure_it(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = suite(FOR_EXTERNAL + "cluster: {security: ssl}\n" + WORKLOAD + SWEEP)
    assert execute([command[0], path, *command[1:]]) == ExitCode.USAGE
    assert "cluster.security" in capsys.readouterr().err


def test_an_unknown_cluster_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["validate", suite("engines: [extern]\n" + WORKLOAD + SWEEP)]) == ExitCode.USAGE
    assert "did you mean 'external'?" in " ".join(capsys.readouterr().err.split())


def test_a_mechanism_that_some_cell_speaks_is_no_mistake() -> None:
    mechanism = "cluster.sasl.mechanism=SCRAM-SHA-256"
    assert execute(["run", "smoke", "--dry-run", "--set", mechanism]) == ExitCode.USAGE
    assert execute(["run", "smoke", "--dry-run", "--set", mechanism, "--set", "cluster.security=sasl_ssl"]) == 0
    assert execute(["chaos", "passwords-guessed", "--dry-run", "--set", mechanism]) == ExitCode.PASS
    without = suite("cluster: {security: sasl_ssl, sasl: {mechanism: PLAIN}}\n" + WORKLOAD + SWEEP)
    assert execute(["run", without, "--dry-run", "--set", "cluster.security=plaintext"]) == ExitCode.PASS


def test_a_suite_of_a_runs_record_has_every_default_in_it_and_can_be_confirmed() -> None:
    written = load_suite(suite(WORKLOAD + SWEEP))
    recorded = Suite.model_validate(written.model_dump(mode="json", by_alias=True))
    cells = build_plan(recorded, cases_of, seed=1, client="reference", sweep_client="reference")
    check_mechanism(recorded, cells)


def test_keys_that_do_not_fit_together_are_told_with_the_option_that_changed_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It was `workloads/suites/demo.yaml:1: (document)`, a file that the user never saw."""
    assert execute(["chaos", "leader-loss", "--dry-run", "--set", "cluster.brokers=2"]) == ExitCode.USAGE
    assert capsys.readouterr().err == (
        "harness: --set cluster.brokers=2: topic.replication_factor is 3, expected at most cluster.brokers, "
        "which is 2\n"
    )
    assert execute(["validate", suite("topic: {replication_factor: 4}\n" + WORKLOAD + SWEEP)]) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith("harness: x.yaml:1: topic.replication_factor is 4")


def test_options_of_load_hosts_are_told_before_anybody_waits(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["load-keys", "keys"]) == ExitCode.PASS
    hosts = ["--load-hosts", "3", "--load-key", "keys/master.key"]
    run = ["run", suite(WORKLOAD + SWEEP), "--dry-run"]
    for arguments, told in (
        ([*run, "--load-listen", "0.0.0.0:5557"], "--load-listen needs --load-hosts N"),
        ([*run, *hosts[:2], "--load-key", "keys"], "--load-key: keys: is a directory, expected a file"),
        (
            [*run, *hosts[:2], "--load-key", "none.key"],
            "--load-key: none.key: cannot be read: No such file",
        ),
        (["worker", "--master", "x:1", "--key", "keys/worker.key", "--spool", "x.yaml"], "--spool x.yaml: "),
        (["worker", "--master", "x:1", "--key", "keys/worker.key", "--spool", "/proc/x"], "--spool /proc/x: "),
        (["load-keys", "/proc/no-keys"], "/proc/no-keys: No such file or directory"),
        (["load-keys", "x.yaml"], "x.yaml: File exists"),
    ):
        assert execute(arguments) == ExitCode.USAGE, arguments
        said = capsys.readouterr().err
        assert told in said
        assert "Errno" not in said


def test_load_hosts_without_a_share_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["load-keys", "keys"]) == ExitCode.PASS
    arguments = ["--dry-run", "--load-hosts", "3", "--load-key", "keys/master.key"]
    assert execute(["run", suite(WORKLOAD + SWEEP), *arguments]) == ExitCode.PASS
    assert "a cell with 1 producer uses only 1 of 3 load hosts: set workload.producers to 3" in capsys.readouterr().err
    assert execute(["run", "x.yaml", *arguments, "--set", "workload.producers=3"]) == ExitCode.PASS
    assert "load hosts:" not in capsys.readouterr().err
    away = ["--load-listen", "0.0.0.0:5557"]
    assert execute(["run", "x.yaml", *arguments, *away]) == ExitCode.PASS
    assert "on loopback: only load hosts on this machine reach them" in capsys.readouterr().err
    external = ["--cluster", "external", "--bootstrap-server", "127.0.0.1:9"]
    assert execute(["run", "x.yaml", *arguments, *away, *external]) == ExitCode.ENVIRONMENT, "nobody answers there"
    assert "on loopback" not in capsys.readouterr().err


def test_one_cell_is_no_cells(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["chaos", "returning-follower", "--dry-run"]) == ExitCode.PASS
    assert capsys.readouterr().out.startswith("suite chaos: 1 cell, cluster ")


def test_a_fault_that_does_not_exist_is_answered_with_those_of_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["list", "faults", "certificates"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "there is no such fault; expected one of certificate_expired, certificate_rotated\n" in said


@pytest.mark.parametrize(("rate", "meant"), [("5k", "5000"), ("1.5k/s", "1500"), ("2M", "2000000")])
def test_a_rate_with_a_unit_is_answered_with_the_number(
    rate: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["bench", "--rate", rate, "--dry-run"]) == ExitCode.USAGE
    assert f"--rate {rate}: expected records a second, or max; did you mean {meant}?" in capsys.readouterr().err
