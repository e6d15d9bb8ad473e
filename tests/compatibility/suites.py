"""franz-go's own tests of its client, as its authors wrote them, against the reference brokers instead of Apache Kafka.

Only those that ask a broker for something, and not the one that wants a broker without Produce v2. A test is a feature
of one column; what it printed goes to a file beside the brokers' logs.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from tests.compatibility.clients import DRIVERS, CannotPrepare, built, execute
from tests.compatibility.trial import REASON_CHARACTERS, Cell, Trial
from tests.compatibility.world import World

NAME = "franz-go's own tests"
PACKAGE = "github.com/twmb/franz-go/pkg/kgo"
RECORDS = 50_000  # through each of the chains of groups and of transactions; 500,000 unless told
TEST_TIMEOUT_S = 300
TESTS = (
    "TestPing", "TestUnknownGroupOffsetFetchPinned", "TestIssue1034", "TestIssue325", "TestConsumeTopicRetrieval",
    "TestConsumeTopicRetrieval_Many", "TestConsumeRegex", "Test848RegexBrokerResolves", "TestIssue337",
    "TestDirectPartitionPurge", "TestIssue434", "TestAddRemovePartitions", "TestPauseIssue489",
    "TestPauseIssueOct2023", "TestIssue523", "TestIssue648", "TestIssue810", "TestIssue865",
    "TestIssueFetchLargerThanBrokerMaxReadBytes", "TestPooling", "TestGroupSimple", "TestHookPollStart",
    "TestConsumeMaxDecompressBatchBytes", "TestClient_Produce", "TestIssue769",
    "TestIssueProduceSyncManualPartitionNegativeDoesNotPanic", "TestIssue831", "TestClient_ProduceLargeMessages",
    "TestGroupETL", "TestTxnEtl", "TestShareGroup", "TestShareGroupETL",
)  # fmt: skip
_RESULT = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+) \(([\d.]+)s\)", re.MULTILINE)
_SKIPPED = re.compile(r"^\s+\w+_test\.go:\d+: (.*)", re.MULTILINE)


def try_tests(world: World, names: Collection[str], tell: Callable[[str], None] = lambda _: None) -> Trial:
    chosen = [name for name in TESTS if name in names]
    source = DRIVERS / "go"
    found = re.search(r"github\.com/twmb/franz-go v(\S+)", (source / "go.mod").read_text())
    version = found[1] if found else "?"
    try:
        program = _built(source)
    except CannotPrepare as error:
        cells = [Cell(feature=name, state="failed", reason=f"not tried: {error}") for name in chosen]
    else:
        cells = []
        for name in chosen:
            cell = _try(program, name, world)
            tell(f"{name}: {cell.state} {cell.reason} ({cell.seconds:.1f} s)")
            cells.append(cell)
    return Trial(client=NAME, language="Go", version=version, cells=tuple(cells))


def _built(source: Path) -> Path:
    program = built("go") / "kgo.test"
    if not program.is_file() or program.stat().st_mtime < (source / "go.mod").stat().st_mtime:
        execute(["go", "test", "-c", "-o", str(program), PACKAGE], source, GOFLAGS="-mod=readonly")
    return program


def _try(program: Path, name: str, world: World) -> Cell:
    """One process a test, so that a test that hangs takes no other with it."""
    environment = {
        "KGO_SEEDS": world.bootstrap, "KGO_TEST_RF": "3", "KGO_TEST_RECORDS": str(RECORDS), "KGO_LOG_LEVEL": "none",
    }  # fmt: skip
    command = [str(program), "-test.v", f"-test.run=^{name}$", f"-test.timeout={TEST_TIMEOUT_S}s"]
    log = world.directory / f"{name}.log"
    with log.open("wb") as output, suppress(subprocess.TimeoutExpired):  # which leaves no result: failed
        subprocess.run(
            command, cwd=world.directory, env={**os.environ, **environment}, stdout=output, stderr=subprocess.STDOUT,
            timeout=TEST_TIMEOUT_S + 30, check=False,
        )  # fmt: skip
    printed = log.read_text(errors="replace")
    results = {test: (result, float(seconds)) for result, test, seconds in _RESULT.findall(printed)}
    result, seconds = results.get(name, ("FAIL", 0.0))
    words = _SKIPPED.findall(printed)
    reason = (words[0] if words else " ".join(printed[-REASON_CHARACTERS:].split())) if result != "PASS" else ""
    state = {"PASS": "passed", "SKIP": "broker"}.get(result, "failed")
    return Cell(feature=name, state=state, reason=reason[:REASON_CHARACTERS], seconds=seconds)
