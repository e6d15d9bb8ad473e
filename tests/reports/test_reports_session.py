"""What each kind of Spark master takes. The job on a standalone cluster and by Connect: tests/benchmarks."""

from __future__ import annotations

import pytest

from reports.read.session import Session, bucket_settings
from reports.read.spark_bounds import timeout_s_of
from reports.read.spark_needs import SparkUnavailableError, is_connect, is_on_this_host, require_what_it_takes


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
