"""Every place that takes a secret gets a different one. Then all files that are left and all output are searched.

These are whole runs, started as a user does: an external cluster with a client configuration, members in processes of
their own, a Toxiproxy server by URL. Then a user's own client tells its secrets wherever it can, and fails.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from chaos.toxiproxy.lookup import RunningServer, start_embedded
from harness.cli.load.confirm import read_recommended
from harness.clusters.base import ClusterKey
from harness.clusters.broker_process import spawn
from harness.clusters.factory import build_cluster
from harness.clusters.process_cluster import ProcessCluster
from harness.errors import ExitCode, UsageError
from harness.run.cells.members import MemberProcesses
from harness.run.directory.secret_removal import scrub
from harness.suite import load_suite
from runlog.files.redaction import HIDDEN, Redactor
from runlog.streams.inventory import check_files
from tests.harness.harness_process import REPOSITORY, family
from tests.harness.test_harness_members import COPYING, NOBODY, context_of, planned
from tests.patience import communicate

SECRETS: Final = {
    name: f"pl4nted-{name}-8c1f"
    for name in (
        "set", "setword", "suite", "upper", "reader", "redis", "query", "config", "passphrase", "environment",
        "toxiproxy", "cluster", "description",
    )
}  # fmt: skip
JAAS: Final = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{}";'


def found_in(text: str | bytes, secrets: Mapping[str, str] = SECRETS) -> list[str]:
    data = text.encode(errors="surrogateescape") if isinstance(text, str) else text
    return [name for name, secret in secrets.items() if secret.encode() in data]


def files_with_secrets(directory: Path) -> dict[str, list[str]]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files, f"nothing in {directory}"
    return {str(path.relative_to(directory)): found for path in files if (found := found_in(path.read_bytes()))}


def open_to_others(directory: Path) -> list[str]:
    """Files and directories that somebody else may read, by their own modes alone."""
    paths = [directory, *directory.rglob("*")]
    return [f"{stat.S_IMODE(path.lstat().st_mode):o} {path}" for path in paths if path.lstat().st_mode & 0o077]


class CommandLines(threading.Thread):
    """Looks at the command lines of a family of processes until told to stop; keeps those with a secret in them."""

    def __init__(self, state_home: Path) -> None:
        super().__init__(daemon=True)
        self._state_home, self._stop_asked = state_home, threading.Event()
        self.looked, self.found, self.pids = 0, set[str](), set[int]()

    def run(self) -> None:
        while not self._stop_asked.is_set():
            commands = family(self._state_home)
            self.pids |= set(commands)
            self.looked += 1
            self.found |= {command for command in commands.values() if found_in(command)}
            self._stop_asked.wait(0.05)

    def finish(self) -> None:
        self._stop_asked.set()
        self.join()


def harness(tmp_path: Path, *arguments: str, extra_path: Path | None = None) -> tuple[int, str, CommandLines]:
    """Exit code, stdout and stderr together, and the command lines that were seen once the program ran."""
    state_home = tmp_path / "state"
    path = os.pathsep.join(str(part) for part in (REPOSITORY, extra_path) if part)
    environment = {
        **os.environ, "XDG_STATE_HOME": str(state_home), "PYTHONPATH": path, "KAFKA_PASSWORD": SECRETS["environment"],
    }  # fmt: skip
    lines = CommandLines(state_home)
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert process.stdout is not None
    first = process.stdout.readline()  # the program is past its first lines, which hide what the command line says
    lines.start()
    try:
        said, _ = communicate(process, "the end of the harness")
    finally:
        process.kill()
        lines.finish()
    return process.returncode, first + said, lines


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    key = ClusterKey(engine="reference", proxied=False, brokers=1, settings=())
    running = build_cluster(key, tmp_path_factory.mktemp("strangers"), proxy_choice="embedded", lease=None, seed=1)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def toxiproxy() -> Iterator[RunningServer]:
    server = start_embedded()
    try:
        yield server
    finally:
        server.stop()


SUITE: Final = f"""
name: planted
description: see https://me:{SECRETS["description"]}@docs.example/
cluster: {{brokers: 1, settings: {{ssl.keystore.password: {SECRETS["cluster"]}}}}}
topic: {{partitions: 1, replication_factor: 1, config: {{min.insync.replicas: 1}}}}
client: confluent
properties: {{ssl.key.password: {SECRETS["suite"]}}}
workload:
  rate_per_s: 200
  record_size_bytes: 100
  warmup_ms: 100
  measure_ms: 700
  drain_ms: 5000
  readers:
    - name: tail
      redis_url: "redis://user:{SECRETS["redis"]}@127.0.0.1:6379/0?password={SECRETS["query"]}"
    - name: app
      mode: group
      own_processes: true
      properties: {{ssl.key.password: {SECRETS["reader"]}}}
sweep:
  baseline: {{acks: all, linger.ms: 5}}
  vary: {{}}
  proxied: true
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
def test_no_secret_is_left_in_a_run_or_told_wherever_it_was_given(
    strangers: ProcessCluster, toxiproxy: RunningServer, tmp_path: Path
) -> None:
    (tmp_path / "planted.yaml").write_text(SUITE)
    config = tmp_path / "client.properties"
    config.write_text(f"security.protocol=PLAINTEXT\nsasl.jaas.config={JAAS.format(SECRETS['config'])}\n")
    code, said, lines = harness(
        tmp_path, "run", "planted.yaml", "--yes", "--cluster", "external",
        "--bootstrap-server", strangers.bootstrap_servers,
        "--client-config", str(config), "--run-dir", str(tmp_path / "good"), "--no-certify",
        "--artifacts", str(tmp_path / "kept"),
        "--toxiproxy", toxiproxy.url.replace("://", f"://me:{SECRETS['toxiproxy']}@"),
        "--set", f"properties.sasl.jaas.config={JAAS.format(SECRETS['set'])}",
    )  # fmt: skip
    assert code in (ExitCode.PASS, ExitCode.FAIL, ExitCode.INCONCLUSIVE), said  # the verdict is not the matter here
    good = tmp_path / "good"
    assert (good / "report.html").is_file(), said
    assert "caught_up" in (good / "cells" / "sweep-baseline" / "cell.json").read_text(), "the members had their part"
    assert found_in(said) == []
    assert files_with_secrets(good) == {}
    assert files_with_secrets(tmp_path / "kept") == {}
    assert lines.looked > 10
    assert len(lines.pids) > 3, "the load, the members and the analysis were looked at"
    assert lines.found == set()
    assert open_to_others(good) == []
    assert open_to_others(tmp_path / "state") == []
    assert HIDDEN in (good / "manifest.json").read_text()


WEAK: Final = ("kafka", "1234", "client")
STRONG: Final = "pl4nted-strong-8c1f"
WEAK_SUITE: Final = f"""
name: weak
cluster: {{brokers: 1}}
topic: {{partitions: 1, replication_factor: 1, config: {{min.insync.replicas: 1}}}}
client: confluent
properties: {{ssl.key.password: kafka}}
workload:
  rate_per_s: 200
  record_size_bytes: 100
  warmup_ms: 100
  measure_ms: 700
  drain_ms: 5000
  readers: [{{name: tail, redis_url: "redis://user:1234@127.0.0.1:6379/0?password={STRONG}"}}]
sweep: {{baseline: {{acks: all, linger.ms: 5}}, vary: {{}}, repetitions: 1}}
"""


@pytest.mark.slow
def test_weak_secrets_leave_the_evidence_whole_and_a_strong_one_is_nowhere(
    strangers: ProcessCluster, tmp_path: Path
) -> None:
    (tmp_path / "weak.yaml").write_text(WEAK_SUITE)
    config = tmp_path / "client.properties"
    config.write_text(f"security.protocol=PLAINTEXT\nsasl.jaas.config={JAAS.format('client')}\n")
    code, said, _ = harness(
        tmp_path, "run", "weak.yaml", "--yes", "--cluster", "external",
        "--bootstrap-server", strangers.bootstrap_servers,
        "--client-config", str(config), "--run-dir", str(tmp_path / "run"), "--no-certify", "--no-report",
    )  # fmt: skip
    assert code == ExitCode.PASS, said
    assert "3 of the passwords and tokens of this run are ordinary words or short" in said
    run_dir = tmp_path / "run"
    cells = [path.parent for path in run_dir.glob("cells/*/cell.json")]
    assert cells
    for cell in cells:
        document = json.loads((cell / "cell.json").read_text())
        assert document["client"] == "confluent"
        assert document["outcome"]["status"] == "done"
        assert check_files(run_dir, cell.name, document["files"]).problems == ()
    manifest = json.loads((run_dir / "manifest.json").read_text())
    assert manifest["suite_document"]["properties"]["ssl.key.password"] == HIDDEN
    assert "user:1234" not in (run_dir / "manifest.json").read_text()
    assert [path for path in run_dir.rglob("*") if path.is_file() and STRONG.encode() in path.read_bytes()] == []
    assert STRONG not in said


def test_data_of_a_run_is_the_same_byte_for_byte_with_weak_secrets(tmp_path: Path) -> None:
    line = '{"t_us": 12345, "kind": "kafka", "client": "client-1", "text": "the client of kafka said 1234"}\n'
    files = {f"cells/c1/{name}.jsonl": line for name in ("cluster", "faults", "history", "stats", "wire")}
    files |= {"manifest.json": line, "cells/c1/cell.json": line, "results/cells.csv": "client,kafka,1234\n"}
    logs = {"load.stderr.log": "org.apache.kafka: login of client with 1234 failed\n", "b.properties": "a=kafka\n"}
    for name, text in (files | logs).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "strong.jsonl").write_text(f'{{"text": "{STRONG}"}}\n')
    scrub(tmp_path, Redactor([*WEAK, STRONG]))
    assert {name: (tmp_path / name).read_text() for name in files} == files
    assert (tmp_path / "load.stderr.log").read_text() == f"org.apache.kafka: login of {HIDDEN} with {HIDDEN} failed\n"
    assert (tmp_path / "b.properties").read_text() == f"a={HIDDEN}\n"
    assert (tmp_path / "strong.jsonl").read_text() == f'{{"text": "{HIDDEN}"}}\n'


TALKER: Final = '''
"""A client that tells its passphrase to everybody, and fails over it."""
import os, sys
from workloads.clients.protocol import ClientError

def make_producer(setup, sink):
    secret = setup.properties["my.passphrase"]
    print("stdout", secret)
    print("stderr", secret, file=sys.stderr)
    os.write(2, f"as a library writes: {secret}\\n".encode())
    raise ClientError(f"login failed for key {secret}: {dict(setup.properties)}")

def make_consumer(setup):
    return make_producer(setup, None)
'''


@pytest.mark.slow
def test_a_client_that_tells_its_secret_everywhere_is_not_passed_on(strangers: ProcessCluster, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    information = packages / "talker-1.0.dist-info"
    information.mkdir(parents=True)
    (packages / "talker.py").write_text(TALKER)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: talker\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[kafka_harness.clients]\ntalker = talker\n")
    suite = tmp_path / "talker.yaml"
    text = SUITE.partition("  readers:")[0].replace("client: confluent", "client: talker")
    text = text.replace(f"ssl.key.password: {SECRETS['suite']}", f"my.passphrase: {SECRETS['passphrase']}")
    suite.write_text(text + "sweep: {baseline: {acks: all}, vary: {}}\n")
    run_dir = tmp_path / "run"
    code, said, lines = harness(
        tmp_path, "run", str(suite), "--yes", "--cluster", "external",
        "--bootstrap-server", strangers.bootstrap_servers,
        "--run-dir", str(run_dir), "--no-certify", "--no-report",
        "--set", f"properties.SSL.KEY.PASSWORD={SECRETS['upper']}",
        f"--set=properties.sasl.password={SECRETS['setword']}",
        extra_path=packages,
    )  # fmt: skip
    assert code != ExitCode.PASS, said
    assert HIDDEN in said
    assert found_in(said) == []
    assert files_with_secrets(run_dir) == {}
    assert lines.found == set()


@pytest.mark.slow
def test_members_are_told_how_to_get_in_and_their_specs_on_disk_are_not(tmp_path: Path) -> None:
    """What `--client-config` says, for the consumer and for the copier's producer."""
    access = {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": JAAS.format(SECRETS["config"])}
    cell = planned("consumer-kill", "confluent", COPYING)
    cell = replace(cell, workload=cell.workload)
    context = replace(context_of(tmp_path), redactor=Redactor.of(access))
    members = MemberProcesses(cell, context, NOBODY, access)
    specs = {name: member.spec for name, member in members._members.items()}
    assert specs["copier-0"].producer_properties["sasl.jaas.config"] == access["sasl.jaas.config"]
    assert all(spec.properties["sasl.jaas.config"] == access["sasl.jaas.config"] for spec in specs.values())
    members._directory.mkdir(parents=True)
    process = members._spawn("copier-0")
    try:
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert found_in(command) == []
        assert files_with_secrets(members._directory) == {}
    finally:
        process.kill_and_wait()


@pytest.mark.slow
def test_what_is_given_by_stdin_arrives_whole_and_stands_on_no_command_line(tmp_path: Path) -> None:
    content = (SECRETS["set"] * 10_000).encode()
    program = "import sys; print(len(open('/dev/stdin').read()), len(sys.stdin.read()))"
    process = spawn("reader", [sys.executable, "-c", program], stderr_path=tmp_path / "said", stdin=content)
    assert process.wait(30)
    assert (tmp_path / "said").read_text().split() == [str(len(content))] * 2


def test_logs_of_other_programs_are_scrubbed_and_links_are_not_followed(tmp_path: Path) -> None:
    run_dir, outside = tmp_path / "run", tmp_path / "outside.log"
    run_dir.mkdir()
    outside.write_text(SECRETS["set"])
    (run_dir / "link.log").symlink_to(outside)
    (run_dir / "load.stderr.log").write_bytes(b"\xff login with " + SECRETS["set"].encode() + b" failed\n" * 3)
    (run_dir / "quiet.log").write_text("nothing\n")
    assert scrub(run_dir, Redactor([SECRETS["set"]])) == [run_dir / "load.stderr.log"]
    assert (run_dir / "load.stderr.log").read_bytes() == b"\xff login with (not shown)" + b" failed\n" * 3
    assert outside.read_text() == SECRETS["set"]
    assert sorted(path.name for path in run_dir.iterdir()) == ["link.log", "load.stderr.log", "quiet.log"]


def test_a_message_about_a_wrong_setting_does_not_repeat_a_secret(tmp_path: Path) -> None:
    suite = tmp_path / "wrong.yaml"
    suite.write_text(SUITE)
    for override in (
        f"properties.sasl.jaas.config=[{SECRETS['set']}]",
        f"properties.ssl.key.password.deeper={SECRETS['set']}",
        f"sasl.password={SECRETS['set']}",
        f'properties.sasl.password="{SECRETS["set"]}',
        f"workload.readers.0.redis_url=http://x:{SECRETS['set']}@h",
        f"sweep.vary={{ssl.key.password: [{SECRETS['set']}]}}",
    ):
        with pytest.raises(UsageError) as caught:
            load_suite(str(suite), [override])
        assert found_in(str(caught.value)) == [], override


def test_a_sweep_of_a_run_whose_secret_was_taken_out_is_not_confirmed_with_what_stands_there(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "manifest.json").write_text(
        '{"suite_document": {"name": "s", "properties": {"ssl.key.password": "(not shown)"}, "sweep": {}}}'
    )
    (tmp_path / "results" / "sweep.json").write_text('{"recommendation": {"cell_id": "sweep-baseline-r1"}}')
    with pytest.raises(UsageError, match="no run directory keeps"):
        read_recommended(tmp_path, 4)
