"""Proxies of fault hosts before Apache Kafka: three native nodes, a proxy for each ordered pair and for clients.

A node finds its peers by names, which its own hosts file leads to its own proxies, as an operator's /etc/hosts does.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cluster_security import ClusterSecurity
from tests.harness.load_workers import PASS_OR_INCONCLUSIVE, Workers, harness, said
from tests.harness.test_harness_host_links import Operator, check_verdicts
from tests.harness.test_harness_host_records import check_predictions, suite_of

pytestmark = [
    pytest.mark.slow, pytest.mark.long, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(2_400),
]  # fmt: skip
SETTINGS = {
    "replica.lag.time.max.ms": "10000",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
}


def test_links_of_apache_kafka_are_cut_and_its_requests_recorded_by_fault_hosts(tmp_path: Path) -> None:
    operator = Operator(tmp_path, engine="kafka", requests=True, settings=SETTINGS)
    suite = suite_of(tmp_path, "leader-loss", "response-lost", "request-refused", "isolated-leader")
    run_dir = tmp_path / "run"
    try:
        workers = Workers(tmp_path, "a", "b", keys=operator.workers.keys)
        try:
            done = harness(
                tmp_path,
                [
                    "run", str(suite), "--no-certify", "--yes", "--cluster", "external", "--bootstrap-server",
                    operator.strangers.bootstrap_servers, "--direct-bootstrap-server",
                    operator.strangers.direct_bootstrap_servers, "--run-dir", str(run_dir), *operator.workers.options,
                    *workers.options[:4],
                ],
            )  # fmt: skip
        finally:
            workers.close()
        assert done.returncode in PASS_OR_INCONCLUSIVE, said(done)
    finally:
        operator.close()
    check_predictions(run_dir)


def test_links_of_apache_kafka_with_tls_are_cut_by_fault_hosts(tmp_path: Path) -> None:
    """TLS passes through the proxies between brokers. Clients go through proxies of the harness, which end it."""
    operator = Operator(tmp_path, engine="kafka", settings=SETTINGS, security=ClusterSecurity(protocol="ssl"))
    run_dir = tmp_path / "run"
    try:
        done = harness(
            tmp_path,
            [
                "chaos", "leader-loss", "--yes", "--cluster", "external", "--bootstrap-server",
                operator.strangers.bootstrap_servers, "--client-config", str(operator.strangers.client_config),
                "--run-dir", str(run_dir), *operator.workers.options,
            ],
        )  # fmt: skip
        assert done.returncode == 0, said(done)
    finally:
        operator.close()
    check_verdicts(run_dir, lost={"leader-loss"})
    for path in (run_dir / "cells").glob("*/faults.jsonl"):
        cuts = [line for line in map(json.loads, path.read_text().splitlines()) if line["kind"] == "link_cut"]
        assert [line["phase"] for line in cuts] == ["applied", "proved", "healed"]
        assert all(link.startswith("internal-") for link in cuts[0]["resolved"])
