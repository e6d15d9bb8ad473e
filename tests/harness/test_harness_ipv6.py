"""Brokers, proxies, load, faults and report where every address of the cluster is an IPv6 one."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from harness.cli.main import execute
from harness.clusters.base import ClusterKey
from harness.clusters.factory import build_layout
from harness.clusters.ports import PortAllocator, is_free
from harness.errors import ExitCode
from tests.harness.harness_process import REPOSITORY, write_suite
from tests.patience import run_command


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this host has no ::1")


def test_no_address_of_the_layout_is_of_another_family(tmp_path: Path) -> None:
    key = ClusterKey(engine="reference", proxied=True, brokers=3, settings=(), host="::1", journal_appends=True)
    layout = build_layout(key, tmp_path, PortAllocator("127.0.0.1"))
    for node in layout.nodes:
        assert (node.direct.host, node.advertised.host) == ("::1", "::1")
        assert "127.0.0.1" not in "".join(node.files.values())
    assert {link.listen.host for link in layout.links} | {link.upstream.host for link in layout.links} == {"::1"}


@needs_ipv6
def test_a_port_that_is_taken_on_ipv6_is_not_free() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        assert not is_free("::1", taken.getsockname()[1])


@pytest.mark.parametrize("engine", ["kafka", "docker"])
def test_only_the_reference_cluster_listens_elsewhere(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", "smoke", "--cluster", engine, "--set", "cluster.host=::1", "--dry-run"]) == ExitCode.USAGE
    assert f"cluster.host ::1 is for --cluster reference, not for {engine}" in capsys.readouterr().err


@pytest.mark.long
@needs_ipv6
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(("client", "toxiproxy"), [("reference", "auto"), ("confluent", "embedded")])
def test_a_suite_with_faults_and_its_report_on_ipv6(tmp_path: Path, client: str, toxiproxy: str) -> None:
    run_dir = tmp_path / "run"
    done = run_command(
        [sys.executable, "-m", "harness", "run", str(write_suite(tmp_path)), "--set", "cluster.host=::1",
         "--client", client, "--toxiproxy", toxiproxy, "--run-dir", str(run_dir)],
        cwd=REPOSITORY,
    )  # fmt: skip
    told = done.stderr[-3000:] + done.stdout[-1000:]
    # On a busy host a follower may fall behind at the very end, which makes so short a cell inconclusive.
    assert done.returncode in (ExitCode.PASS, ExitCode.INCONCLUSIVE), told
    assert "chaos-short-only: done" in told, told
    assert (run_dir / "report.html").is_file()
    brokers = [path.read_text() for path in run_dir.rglob("server.properties")]
    assert len(brokers) >= 3
    assert [text for text in brokers if "127.0.0.1" in text or "[::1]" not in text] == []
    faults = [json.loads(line) for path in run_dir.rglob("faults.jsonl") for line in path.read_text().splitlines()]
    assert {fault["phase"] for fault in faults} == {"applied", "proved", "healed"}
    verdicts = json.loads((run_dir / "results" / "verdicts.json").read_text())
    assert {check["name"]: check["result"] for check in verdicts["cells"][0]["checks"]}["sends accepted"] == "pass"
