"""A broker does not start with settings of groups that contradict each other; and Apache Kafka does not either."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker.node.settings.config import SETTINGS
from broker.node.settings.properties import ConfigError, load_config
from broker.node.settings.sections.coordinators import GroupCoordinatorSettings
from broker.node.settings.sections.shares import ShareSettings

MINIMAL = """node.id=1
process.roles=broker,controller
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
listeners=INTERNAL://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=/nowhere
"""
# The file's lines, and the text.
CASES = [
    ("group.consumer.session.timeout.ms=44999", "group.consumer.session.timeout.ms must be greater than or equal to "
     "group.consumer.min.session.timeout.ms"),
    ("group.consumer.session.timeout.ms=60001", "group.consumer.session.timeout.ms must be less than or equal to "
     "group.consumer.max.session.timeout.ms"),
    ("group.consumer.heartbeat.interval.ms=300", "group.consumer.heartbeat.interval.ms must be greater than or equal "
     "to group.consumer.min.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms=15001", "group.consumer.heartbeat.interval.ms must be less than or equal "
     "to group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.max.heartbeat.interval.ms=4999", "group.consumer.max.heartbeat.interval.ms must be greater than "
     "or equal to group.consumer.min.heartbeat.interval.ms"),
    ("group.consumer.max.session.timeout.ms=44999", "group.consumer.max.session.timeout.ms must be greater than or "
     "equal to group.consumer.min.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms=5000\ngroup.consumer.session.timeout.ms=5000",
     "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms"),
    ("group.consumer.assignment.interval.ms=15001", "group.consumer.assignment.interval.ms must be less than or equal "
     "to group.consumer.max.assignment.interval.ms"),
    ("group.share.session.timeout.ms=44999", "group.share.session.timeout.ms must be greater than or equal to "
     "group.share.min.session.timeout.ms"),
    ("group.share.heartbeat.interval.ms=15001", "group.share.heartbeat.interval.ms must be less than or equal to "
     "group.share.max.heartbeat.interval.ms"),
    ("group.share.min.assignment.interval.ms=1001", "group.share.assignment.interval.ms must be greater than or equal "
     "to group.share.min.assignment.interval.ms"),
    ("group.share.delivery.count.limit=10\ngroup.share.max.delivery.count.limit=5",
     "group.share.max.delivery.count.limit must be greater than or equal to group.share.delivery.count.limit"),
    ("group.share.record.lock.duration.ms=14999", "group.share.record.lock.duration.ms must be greater than or equal "
     "to group.share.min.record.lock.duration.ms"),
    ("group.share.partition.max.record.locks=4001", "group.share.max.partition.max.record.locks must be greater than "
     "or equal to group.share.partition.max.record.locks"),
    ("group.share.max.share.sessions=150", "group.share.max.share.sessions must be greater than or equal to "
     "group.share.max.size"),
]  # fmt: skip


def written(directory: Path, more: str) -> Path:
    path = directory / "broker.properties"
    path.write_text(MINIMAL + more + "\n")
    return path


def test_what_a_broker_has_by_default_is_no_contradiction() -> None:
    assert {"group.share.max.share.sessions", "group.consumer.min.assignment.interval.ms"} <= SETTINGS.keys()
    assert GroupCoordinatorSettings().problem() is None
    assert ShareSettings().problem() is None


@pytest.mark.parametrize(("lines", "text"), CASES)
def test_settings_that_contradict_each_other_are_refused_with_their_line(tmp_path: Path, lines: str, text: str) -> None:
    path = written(tmp_path, lines)
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    message = str(refused.value)
    line = (MINIMAL + lines).count("\n") + 1
    assert message.startswith(f"{path}:{line}: {text}, but ")


@pytest.mark.slow
def test_a_broker_with_such_settings_ends_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "broker.node", str(written(tmp_path, "group.share.session.timeout.ms=1000"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "group.share.session.timeout.ms must be greater than or equal to" in done.stderr
    assert "Traceback" not in done.stderr
