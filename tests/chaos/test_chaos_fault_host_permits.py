"""Permits: what an operator can write, what is refused, and whose file is trusted."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from chaos.fault_host.permits import BROKER_ACTIONS, PermitsError, parse_permits, read_permits
from chaos.fault_host.proxy_permits import breakage_of
from chaos.faults import FAULTS
from chaos.faults.base import FaultSpec

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "load-hosts.md"
GOOD = """
lost_after: 5s
brokers:
  1:
    process: {pid_file: /run/kafka.pid, command_has: kafka.Kafka, user: kafka}
    allow: [kill, terminate, pause]
    start: [/opt/kafka/bin/kafka-server-start.sh, -daemon, /etc/kafka/server.properties]
    log_dirs: [/var/lib/kafka]
    paused_at_most: 30s
  2:
    process:
      pid_command: [/usr/bin/systemctl, show, --property=MainPID, --value, kafka.service]
      command_has: kafka.Kafka
    allow: [pause]
"""


def test_the_example_of_the_guide_is_one_that_is_read() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    example = re.search(r'```yaml title="permits.yaml"\n(.*?)```', text, re.DOTALL)
    assert example is not None
    assert set(parse_permits(example[1]).brokers) == {1}


def test_the_example_of_proxies_in_the_guide_is_one_that_is_read() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    example = re.search(r'```yaml title="proxies.yaml"\n(.*?)```', text, re.DOTALL)
    assert example is not None
    permits = parse_permits(example[1])
    assert permits.proxies["to-broker-1"].links == {"internal-2-1", "internal-3-1"}
    assert permits.proxies["clients-to-broker-1"].tls


def test_the_example_of_requests_in_the_guide_is_one_that_is_read() -> None:
    example = re.search(r'```yaml title="requests.yaml"\n(.*?)```', GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    assert parse_permits(example[1]).proxies["clients-to-broker-1"].requests


def test_a_whole_file_is_read() -> None:
    permits = parse_permits(GOOD)
    assert permits.lost_after == 5_000
    one, two = permits.brokers[1], permits.brokers[2]
    assert (one.allow, two.allow) == (("kill", "terminate", "pause"), ("pause",))
    assert one.paused_at_most == 30_000
    assert one.log_dirs == (Path("/var/lib/kafka"),)
    assert two.start is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("allow: [pause]", "allow: [kill]"), "give `start`"),
        (("allow: [pause]", "allow: [reboot]"), "brokers.2.allow"),
        (("start: [/opt", "start: [opt"), "absolute path"),
        (("pid_file: /run", "pid_file: run"), "absolute path"),
        (("log_dirs: [/var", "log_dirs: [var"), "absolute path"),
        ((", command_has: kafka.Kafka, user: kafka", ""), "command_has"),
        (("command_has: kafka.Kafka, user: kafka", "command_has: ka"), "command_has"),
        (("pid_file: /run/kafka.pid, ", ""), "either pid_file or pid_command"),
        (("lost_after: 5s", "lost_after: 1s"), "lost_after"),
        (("lost_after: 5s", "lost_afer: 5s"), "lost_afer"),
        (("lost_after: 5s", "lost_after: 5"), "give a unit"),
        (("  1:", "  one:"), "brokers"),
        (("brokers:", "brokers: ["), "is no YAML"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_place(change: tuple[str, str], words: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(PermitsError, match=words.replace(".", r"\.")):
        parse_permits(GOOD.replace(*change, 1))


PROXIES = """
proxies:
  to-1:
    listen: 10.0.0.1:9091
    upstream: 127.0.0.1:19091
    carries: [2->1, 3->1, "controller:2->1"]
    allow: [cut, stall, latency]
  clients: {listen: "10.0.0.1:9092", upstream: "127.0.0.1:19092", carries: [client->1], allow: [cut], tls: true}
"""


def test_a_list_of_proxies_is_read() -> None:
    permits = parse_permits(PROXIES)
    assert permits.brokers == {}
    assert permits.proxies["to-1"].links == {"internal-2-1", "internal-3-1", "controller-2-1"}
    assert permits.proxies["clients"].links == {"client-1"}
    assert permits.proxies["clients"].tls
    assert permits.proxies_outlive_worker
    reading = parse_permits(PROXIES.replace("[cut], tls: true", "[cut, kafka_drop_response], requests: true"))
    assert reading.proxies["clients"].requests
    assert not permits.proxies["clients"].requests
    assert parse_permits(GOOD + PROXIES).brokers.keys() == {1, 2}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("10.0.0.1:9091", "10.0.0.1"), "proxies.to-1.listen"),
        (("127.0.0.1:19091", "'9091'"), "proxies.to-1.upstream"),
        (("127.0.0.1:19091", "10.0.0.1:9091"), "the same address"),
        (("[cut, stall, latency]", "[cut, kafka_drop_response]"), "needs `requests: true`"),
        (("[cut, stall, latency]", "[cut, kafka_log]"), "proxies.to-1.allow"),
        (("[cut, stall, latency]", "[cut, stal]"), "did you mean 'stall'"),
        (("[cut, stall, latency]", "[cut]\n    requests: true"), "the clients of one broker and nothing else"),
        (("tls: true", "tls: true, requests: true"), "nobody but client and broker can read what TLS carries"),
        (("[cut, stall, latency]", "[]"), "proxies.to-1.allow"),
        (("2->1, 3->1", "2->1, 2->1"), "twice"),
        (("2->1, 3->1", "1->1"), "to itself"),
        (("2->1, 3->1", "followers->leader"), "with broker ids"),
        (("2->1, 3->1", "controller:client->1"), "is no link"),
        (("carries: [client->1]", "carries: [3->1]"), "both carry internal-3-1"),
        (("10.0.0.1:9092", "10.0.0.1:9091"), "both listen on 10.0.0.1:9091"),
        (("  to-1:", "  to/1:"), "proxies"),
        (("tls: true", "upstream_tls: true"), "upstream_tls"),
    ],
)
def test_a_proxy_that_cannot_be_meant_is_refused_by_its_place(change: tuple[str, str], words: str) -> None:
    assert change[0] in PROXIES
    with pytest.raises(PermitsError, match=words.replace(".", r"\.")):
        parse_permits(PROXIES.replace(*change, 1))


PERMITTED = [spec for spec in FAULTS.values() if spec.host_permit is not None]


@pytest.mark.parametrize("spec", [each for each in PERMITTED if each.is_of_links], ids=lambda spec: str(spec.name))
def test_what_a_fault_of_links_needs_can_be_allowed_and_is_what_its_toxic_is_taken_for(spec: FaultSpec) -> None:
    assert spec.host_permit is not None
    word, toxic = spec.host_permit.word, spec.host_permit.toxic
    requests = ", requests: true" if word.startswith("kafka_") else ""
    permits = parse_permits(PROXIES.replace("[cut], tls: true", f"[{word}]{requests}"))
    assert permits.proxies["clients"].allow == (word,)
    assert not toxic or breakage_of(toxic, {"rate": 1, **spec.host_permit.attributes}) == word


def test_a_toxic_that_no_fault_adds_needs_a_permit_that_there_is_not() -> None:
    assert [breakage_of(toxic, {}) for toxic in ("noop", "slow_close", "no_accept", "", "kafka_log")] == [None] * 5
    assert [breakage_of("bandwidth", {"rate": rate}) for rate in (0, 1)] == ["stall", "bandwidth"]
    assert breakage_of("bandwidth", {}) == "stall"


def test_the_actions_on_brokers_are_those_that_faults_need() -> None:
    assert BROKER_ACTIONS == ("kill", "terminate", "pause")
    of_restart = {how: FAULTS["restart"].host_word({"how": how}) for how in ("terminate", "kill")}
    assert of_restart == {"terminate": "terminate", "kill": "kill"}
    assert [FAULTS[name].host_word({}) for name in ("restart", "kill", "power_loss")] == ["terminate", "kill", None]


@pytest.mark.parametrize("text", ["", "[]", "brokers: {}", "7", "proxies: {}"])
def test_a_file_without_brokers_and_proxies_is_refused(text: str) -> None:
    with pytest.raises(PermitsError):
        parse_permits(text)


def test_only_a_file_that_nobody_else_can_write_is_trusted(tmp_path: Path) -> None:
    path = tmp_path / "permits.yaml"
    path.write_text(GOOD)
    path.chmod(0o644)
    assert set(read_permits(path).brokers) == {1, 2}
    path.chmod(0o664)
    with pytest.raises(PermitsError, match="others can write it"):
        read_permits(path)
    with pytest.raises(PermitsError, match="cannot be read"):
        read_permits(tmp_path / "none.yaml")
    with pytest.raises(PermitsError, match="no plain file"):
        read_permits(tmp_path)
    if os.geteuid() == 0:
        path.chmod(0o644)
        os.chown(path, 12_345, 12_345)
        with pytest.raises(PermitsError, match="belongs to user 12345"):
            read_permits(path)
