"""kafka-python's own integration tests, from its source distribution, against a broker that is already there.

The distribution lacks two modules of its tests (test/service.py, which starts servers, and test/__init__.py); what an
external broker needs of them is in kafka_python_service.py.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.compatibility.clients import CannotPrepare, built, execute
from tests.compatibility.suites.suite import Attempt, Outcome, Suite, run_test
from tests.compatibility.world import World

VERSION = "3.0.12"
SHA256 = "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65"
KAFKA_VERSION = "4.2.0"  # the newest that it knows
TEST_TIMEOUT_S = 120
_PLUGIN = "tests.compatibility.suites.kafka_python_service"
_ID = re.compile(r"^test/integration/(\S+::\S+)$", re.MULTILINE)
_REASON = re.compile(r"^(?:SKIPPED \[\d+\] \S+: |E   )(.*)", re.MULTILINE)


class KafkaPython(Suite):
    name = "kafka-python's own tests"
    language = "Python"
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
            "PYTHONPATH": os.pathsep.join([str(self._root), str(Path(__file__).parents[3])]),
        }  # fmt: skip

    @contextmanager
    def opened(self, directory: Path) -> Iterator[Attempt]:
        with World(directory) as world:
            environment = self._environment(f"kafka://127.0.0.1:{world.port()}")

            def attempt(test: str) -> Outcome:
                command = [*self._pytest(), "-q", "-rs", f"test/integration/{test}"]
                log = directory / f"{re.sub(r'[^a-z0-9_.]', '-', test)}.log"
                code, printed = run_test(command, environment, self._root, log, TEST_TIMEOUT_S)
                return _outcome(code, printed)

            yield attempt


def _outcome(code: int | None, printed: str) -> Outcome:
    reasons = _REASON.findall(printed)
    if code == 0 and re.search(r"\b1 passed", printed):
        return Outcome(state="passed")
    if code == 0 and re.search(r"\b1 skipped", printed):
        return Outcome(state="skipped", reason=reasons[-1] if reasons else "")
    if code is None:
        return Outcome(state="failed", reason=f"no end within {TEST_TIMEOUT_S} s")
    return Outcome(state="failed", reason=reasons[0] if reasons else printed[-300:])
