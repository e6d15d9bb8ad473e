"""franz-go's own tests of its client (pkg/kgo).

Only those that ask a broker for something, and not the one that wants a broker without Produce v2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.compatibility.suites.go import build_tests, module_version, run_go_test
from tests.compatibility.suites.suite import Attempt, Kind, Suite
from tests.compatibility.world import SETTINGS, World

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


class FranzGo(Suite):
    name = "franz-go's own tests"
    language = "Go"
    source = "the Go module github.com/twmb/franz-go, package kgo"

    def prepare(self) -> str:
        self._program = build_tests(PACKAGE, "kgo.test")
        return module_version("github.com/twmb/franz-go")

    def tests(self) -> Sequence[str]:
        return TESTS

    @contextmanager
    def opened(self, directory: Path, kind: Kind) -> Iterator[Attempt]:
        directory.mkdir(parents=True)
        with World(directory, cluster=kind(directory, settings=SETTINGS)) as world:
            environment = {
                "KGO_SEEDS": world.bootstrap, "KGO_TEST_RF": "3", "KGO_TEST_RECORDS": str(RECORDS),
                "KGO_LOG_LEVEL": "none",
            }  # fmt: skip
            yield lambda test: run_go_test(self._program, test, directory, environment, timeout_s=TEST_TIMEOUT_S)
