"""kafka-python's own integration tests, from its source distribution, against a broker that is already there.

The distribution lacks two modules of its tests (test/service.py, which starts servers, and test/__init__.py); what an
external broker needs of them is in drivers/kafka_python_service.py.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from tests.compatibility.clients import DRIVERS, CannotPrepare, built, execute
from tests.compatibility.suites.suite import Attempt, Kind, Known, Outcome, Suite, run_test
from tests.compatibility.world import SETTINGS, World

VERSION = "3.0.12"
SHA256 = "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65"
KAFKA_VERSION = "4.3.1"  # the newest that it knows
TEST_TIMEOUT_S, FILE_TIMEOUT_S = 120, 1_800
BROKER_SETTINGS = {  # as they start one
    **SETTINGS, "auto.create.topics.enable": "true", "num.partitions": 4,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}  # fmt: skip
_PLUGIN = "kafka_python_service"
_ID = re.compile(r"^test/integration/(\S+::\S+)$", re.MULTILINE)
_RESULT = re.compile(r"^test/integration/(\S+::\S+) (PASSED|FAILED|SKIPPED|ERROR)(?: \((.*)\))? *\[", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) test/integration/(\S+::\S+) - (.*)", re.MULTILINE)
_STATES = {"PASSED": "passed", "SKIPPED": "skipped"}


class KafkaPython(Suite):
    name = "kafka-python's own tests"
    language = "Python"
    known: ClassVar[Mapping[str, Known]] = {
        **{
            f"test_ssl_integration.py::TestSSLConnection::{test}": Known(
                state="client", reason="it starts a broker of its own with stores that it has made, and takes no other"
            )
            for test in ("test_legacy_kafka_client_ssl", "test_ssl_handshake")
        },
    }
    source = f"the source distribution of kafka-python {VERSION}, test/integration"

    def prepare(self) -> str:
        if importlib.metadata.version("kafka-python") != VERSION:
            raise CannotPrepare(f"kafka-python {VERSION} is not installed: make setup-dev")
        place = built("kafka-python")
        self._root = place / f"kafka_python-{VERSION}"
        if not self._root.is_dir():
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "kafka-python"]
            execute([*pip, "--dest", str(place), f"kafka-python=={VERSION}"], place)
            archive = place / f"kafka_python-{VERSION}.tar.gz"
            found = hashlib.sha256(archive.read_bytes()).hexdigest()
            if found != SHA256:
                raise CannotPrepare(f"{archive.name}: expected SHA-256 {SHA256}, got {found}")
            with tarfile.open(archive) as packed:
                packed.extractall(place, filter="data")
        return VERSION

    def tests(self) -> Sequence[str]:
        done = subprocess.run(
            [*self._pytest(), "--collect-only", "-q", "test/integration"], cwd=self._root,
            env={**os.environ, **self._environment("kafka://127.0.0.1:1")}, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise CannotPrepare(f"its tests cannot be collected: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        return _ID.findall(done.stdout)

    def _pytest(self) -> list[str]:
        options = ["-p", "no:cacheprovider", "-p", _PLUGIN, "-c", os.devnull, "--rootdir", str(self._root)]
        return [sys.executable, "-m", "pytest", *options]

    def _environment(self, uri: str) -> dict[str, str]:
        return {
            "KAFKA_VERSION": KAFKA_VERSION, "KAFKA_URI": uri, "KAFKA_ROOT": str(self._root),
            "PYTHONPATH": os.pathsep.join([str(self._root), str(DRIVERS)]),
        }  # fmt: skip

    @contextmanager
    def opened(self, directory: Path, kind: Kind) -> Iterator[Attempt]:
        directory.mkdir(parents=True)
        # They name broker 0, and move a replica from one log directory to another.
        cluster = kind(directory, brokers=1, first_id=0, directories=2, settings=BROKER_SETTINGS)
        with World(directory, cluster=cluster) as world:
            environment = self._environment(f"kafka://127.0.0.1:{world.port()}")

            files: dict[str, dict[str, Outcome]] = {}  # of a file's tests, which run together

            def attempt(test: str) -> Outcome:
                file = test.split("::")[0]
                if file not in files:
                    files[file] = self._run(file, environment, directory)
                return files[file].get(test, Outcome(state="failed", reason="no result of it was printed"))

            yield attempt

    def _run(self, file: str, environment: Mapping[str, str], directory: Path) -> dict[str, Outcome]:
        """One process a file: this client needs seconds to load."""
        command = [*self._pytest(), "-v", f"--timeout={TEST_TIMEOUT_S}", f"test/integration/{file}"]
        log = directory / f"{file}.log"
        _, printed = run_test(command, {**environment, "COLUMNS": "400"}, self._root, log, FILE_TIMEOUT_S)
        return outcomes_of(printed)


def outcomes_of(printed: str) -> dict[str, Outcome]:
    """By test. One that passed and could not be cleared up after has failed."""
    reasons = dict(_FAILED.findall(printed))
    found: dict[str, Outcome] = {}
    for test, result, said in _RESULT.findall(printed):
        if found.get(test, Outcome(state="passed")).state == "passed":
            found[test] = Outcome(state=_STATES.get(result, "failed"), reason=reasons.get(test, said))
    return found
