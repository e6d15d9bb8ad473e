"""What each kind of Spark master takes. The job on a standalone cluster and by Connect: tests/benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import execute
from harness.errors import ExitCode
from reports.read.errors import UsageProblem
from reports.read.session import Session, bucket_settings, session_settings
from reports.read.spark_bounds import timeout_s_of
from reports.read.spark_needs import (
    SparkUnavailableError,
    is_connect,
    is_on_this_host,
    parse_conf,
    require_what_it_takes,
)


def test_without_grpc_the_way_to_get_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(SparkUnavailableError, match=r"sc://h:1: .*pip install 'grpcio.*grpc"):
        require_what_it_takes("sc://h:1")
    with pytest.raises(SparkUnavailableError), Session(master="sc://h:1", small=True):
        raise AssertionError("a session without its client library")


@pytest.mark.parametrize("master", ["spark://h:1", "sc://h:1", "yarn", "k8s://https://h:1"])
def test_a_server_has_less_time_to_start_than_this_host(master: str) -> None:
    for local in ("local", "local[2]", "local[*]"):
        assert timeout_s_of(master) < timeout_s_of(local)


def test_a_connect_server_is_known_by_its_scheme() -> None:
    assert is_connect("sc://127.0.0.1:15002")
    assert not is_connect("spark://127.0.0.1:7077")


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077", "spark://localhost:7077"])
def test_a_driver_keeps_to_loopback_where_its_executors_are(master: str) -> None:
    assert is_on_this_host(master)


def test_a_driver_whose_executors_are_on_other_hosts_does_not_keep_to_loopback() -> None:
    assert not is_on_this_host("spark://10.0.0.7:7077")
    assert not is_on_this_host("spark://127.0.0.1:7077,spark-2:7077")


def test_a_bucket_is_read_at_the_server_where_the_store_is_and_no_secret_is_a_setting() -> None:
    own = bucket_settings("http://10.0.0.1:9000", "us-east-1")
    assert own["spark.hadoop.fs.s3a.endpoint"] == "http://10.0.0.1:9000"
    assert own["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert own["spark.hadoop.fs.s3a.endpoint.region"] == "us-east-1"
    amazons = bucket_settings("https://s3.eu-central-1.amazonaws.com", "")
    assert set(amazons) == {"spark.hadoop.fs.s3a.aws.credentials.provider"}
    assert not [name for name in own | amazons if "key" in name or "secret" in name]


PLANNING = ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions", "spark.sql.autoBroadcastJoinThreshold")


@pytest.mark.parametrize("small", [True, False])
def test_how_joins_and_shuffles_are_planned_is_ours_on_this_host_and_the_masters_own_elsewhere(small: bool) -> None:
    """AQE off, four shuffle partitions and no automatic broadcast went to every cluster, and no option changed it."""
    here = session_settings(master="local[2]", small=small, scratch="/tmp/s")
    assert [here[name] for name in PLANNING] == ["false", "2" if small else "4", "-1"]
    for master in ("spark://10.0.0.7:7077", "spark://127.0.0.1:7077", "sc://10.0.0.7:15002", "yarn", "k8s://https://a"):
        assert not set(PLANNING) & set(session_settings(master=master, small=small, scratch="/tmp/s")), master


def test_a_setting_of_the_user_is_read_as_spark_submit_reads_it() -> None:
    assert parse_conf(["spark.sql.shuffle.partitions=400", "spark.executor.extraJavaOptions=-Da=b -Dc=d"]) == {
        "spark.sql.shuffle.partitions": "400", "spark.executor.extraJavaOptions": "-Da=b -Dc=d",
    }  # fmt: skip
    for wrong in ("spark.sql.shuffle.partitions", "shuffle.partitions=4", "=4", ""):
        with pytest.raises(UsageProblem, match=r"expected spark\.NAME=VALUE"):
            parse_conf([wrong])


@pytest.mark.parametrize(
    "command",
    [["report", "x"], ["compare", "x", "y"], ["run", "demo"], ["chaos", "leader-loss"], ["bench"]],
    ids=lambda each: each[0],
)
def test_every_command_that_analyses_takes_settings_and_refuses_wrong_ones(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute([*command, "--spark-conf", "nonsense"]) == ExitCode.USAGE
    assert "--spark-conf 'nonsense': expected spark.NAME=VALUE" in capsys.readouterr().err
