"""What of Apache Kafka is not with the jars of its brokers, for tests: Kafka Streams, Kafka Connect's connectors and
kafka-metadata-shell. Their jars, and their processes."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.clusters.kafka.jars import VERSION, cache_directory, ensure_jars, java_command
from tests.patience import cpu_seen, run_command, wait_until

POM = Path(__file__).parent / "java" / "pom.xml"
# All else is with the jars of Apache Kafka.
OWN = ("kafka-streams", "connect-file", "rocksdbjni", "kafka-shell", "jline")
END_TIMEOUT_S = 60


def class_path() -> str:
    """Of everything; what is missing is fetched by Maven, once."""
    directory = cache_directory() / "kafka" / "frameworks"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory.parent / "frameworks.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all(list(directory.glob(f"{name}-*.jar")) for name in OWN):
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={directory}"]
            goal += [f"-DincludeArtifactIds={','.join(OWN)}", f"-Dkafka.version={VERSION}"]
            run_command(["mvn", "-B", "-ntp", "-q", "-f", str(POM), *goal], check=True)
    return f"{ensure_jars()}/*{os.pathsep}{directory}/*"


class Jvm:
    """One process. What it prints is in `output`."""

    def __init__(self, output: Path, arguments: list[str]) -> None:
        self.output = output
        command = [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m"]
        command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path(), *arguments]
        with output.open("ab") as file:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def printed(self) -> str:
        return self.output.read_text(errors="replace")

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait_until_it_prints(self, text: str) -> None:
        def has_printed() -> bool:
            assert not self.has_ended, f"it ended: {self.printed()[-3000:]}"
            return text in self.printed()

        try:
            wait_until(has_printed, f"a line {text!r}", seen=cpu_seen(self._process.pid), poll_s=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.printed()[-3000:]}") from error

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(END_TIMEOUT_S)

    def terminate(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(END_TIMEOUT_S)


@contextmanager
def jvms() -> Iterator[list[Jvm]]:
    """Those that a test appends to the list are ended with it."""
    running: list[Jvm] = []
    try:
        yield running
    finally:
        for jvm in running:
            if not jvm.has_ended:
                jvm.kill()
