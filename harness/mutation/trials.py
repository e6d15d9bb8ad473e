"""Which scenario must catch which wrong broker and which client with a bug. Only data.

Shown by tests/harness/test_harness_mutation.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One case of one scenario, with the changes that are needed so that the mutant shows."""

    scenario: str
    case: str
    mutant: str = ""  # The brokers have it.
    client: str = "reference"
    workload: Mapping[str, Any] = field(default_factory=dict)  # Any: as in the scenario's YAML
    topic_config: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    reader: Mapping[str, Any] = field(default_factory=dict)  # The first reader group gets these.

    @property
    def subject(self) -> str:
        return self.mutant or self.client

    @property
    def name(self) -> str:
        return f"{self.subject.replace('_', '-')}-{self.scenario}"

    @property
    def where(self) -> str:
        """The scenario, the case, and what the trial changes in them."""
        return f"{self.scenario}, {self.case}{self.overlay}"

    @property
    def overlay(self) -> str:
        reader = {**self.reader, **self.reader.get("properties", {})}
        reader.pop("properties", None)
        changed = {**self.workload, **self.topic_config, **self.properties, **reader}
        return "".join(f", {name}: {value}" for name, value in changed.items())


# Any of a mutant's trials may catch it.
BROKER_TRIALS: Final = (
    Trial(mutant="aborted_transactions_not_told", scenario="copier-vanishes", case="timed-out", client="confluent"),
    Trial(mutant="acknowledge_before_replication", scenario="leader-loss", case="acks-all"),
    Trial(mutant="commit_by_majority", scenario="lagging-heir", case="acks-all"),
    Trial(mutant="commits_not_replicated", scenario="coordinator-loss", case="commit-after", client="confluent"),
    Trial(mutant="controller_answers_before_commit", scenario="isolated-controller", case="acks-all"),
    Trial(mutant="crc_ignored_on_append", scenario="topic-vanishes", case="idempotent"),
    Trial(mutant="crc_ignored_on_recovery", scenario="bit-flip", case="acks-all"),
    Trial(mutant="expansion_without_catching_up", scenario="returning-follower", case="acks-all"),
    Trial(mutant="fetch_counts_before_it_is_stored", scenario="slow-replication", case="acks-all"),
    Trial(mutant="fetch_session_forgets_who_must_join", scenario="idle-partitions", case="acks-all"),
    # Followers make progress whenever one of them falls out of the ISR. The cell is longer than that, so that the
    # silence in between shows.
    Trial(mutant="fetch_session_keeps_the_offset", scenario="control", case="acks-all", workload={"measure_ms": 10000}),
    Trial(mutant="first_sequence_anything", scenario="first-batch-refused", case="in-flight-5-idempotent"),
    Trial(mutant="flush_ignored", scenario="power-loss-last", case="flush-each"),
    Trial(mutant="generation_not_checked", scenario="consumer-pause", case="commit-after", client="confluent"),
    Trial(mutant="high_watermark_falls", scenario="follower-cut", case="acks-all"),
    Trial(mutant="high_watermark_ignored", scenario="leader-loss", case="acks-1", workload={"consumers": 1}),
    Trial(mutant="isr_never_shrinks", scenario="follower-cut", case="acks-all"),
    Trial(mutant="last_stable_offset_ignored", scenario="copier-vanishes", case="timed-out", client="confluent"),
    Trial(mutant="leader_epoch_kept", scenario="leader-loss", case="acks-1"),
    Trial(mutant="marker_lost", scenario="markers-late", case="prepared", client="confluent"),
    Trial(mutant="metadata_log_not_truncated", scenario="isolated-controller", case="acks-all"),
    Trial(mutant="min_insync_replicas_ignored", scenario="isr-shrunk-clean", case="min-isr-2"),
    Trial(
        mutant="partition_given_before_release",
        scenario="rebalance-storm-consumer-protocol",
        case="consumer-protocol",
        client="confluent",
    ),
    Trial(mutant="producer_epoch_ignored", scenario="copier-twin", case="fenced", client="confluent"),
    Trial(mutant="producer_state_lost", scenario="all-killed", case="idempotent"),
    Trial(mutant="sequences_not_checked", scenario="response-lost", case="idempotence-on"),
    Trial(mutant="share_state_confirmed_unwritten", scenario="share-leader-killed", case="acks-all"),
    Trial(mutant="snapshot_without_configs", scenario="rolling-restart", case="acks-all"),
    Trial(mutant="transaction_never_times_out", scenario="copier-vanishes", case="timed-out", client="confluent"),
    Trial(mutant="transactional_offsets_at_once", scenario="copier-vanishes", case="timed-out", client="confluent"),
    Trial(mutant="truncation_never", scenario="leader-loss", case="acks-1"),
    Trial(mutant="truncation_to_high_watermark", scenario="double-failover", case="epochs"),
    Trial(mutant="unclean_election_always", scenario="isr-shrunk-clean", case="min-isr-1"),
    Trial(mutant="vote_for_a_shorter_log", scenario="isolated-voter", case="acks-all"),
)
CLIENT_TRIALS: Final = (
    Trial(client="buggy_early_callback", scenario="leader-kill", case="acks-all-idempotent"),
    Trial(client="buggy_certain_failure", scenario="response-lost", case="idempotence-on"),
    Trial(client="buggy_retry_at_the_end", scenario="request-refused", case="in-flight-5-idempotent"),
    # The broker takes it for a repetition only if both batches have the same number of records. So batches are small
    # and full.
    Trial(
        client="buggy_sequence_reused",
        scenario="response-lost",
        case="idempotence-on",
        properties={"batch.size": 1024},
    ),
    Trial(client="buggy_skips_on_rebalance", scenario="consumer-kill", case="auto-commit"),
    # More than the members can do, so that polls grow. Then the kill comes in the middle of one, long after its commit.
    Trial(
        client="buggy_commits_what_it_polled",
        scenario="consumer-kill",
        case="auto-commit",
        workload={"rate_per_s": 300, "drain_ms": 60000},
        reader={"processing_us": 15000, "properties": {"auto.commit.interval.ms": 300}},
    ),
    Trial(client="buggy_forgets_to_commit", scenario="consumer-kill", case="auto-commit"),
    Trial(client="buggy_offsets_first", scenario="copier-vanishes", case="timed-out"),
    Trial(client="buggy_offsets_apart", scenario="copy-loop", case="bounces"),
)
# Mutants that no timeline with real clocks can show reliably, and why. The simulation's table has each of them.
SIMULATED_ONLY: Final[Mapping[str, str]] = {
    "memory_before_disk": "a voter has to die, or its disk has to fail, between its message and its write",
    "swallow_quorum_io_error": "no fault of a scenario makes the quorum's files fail yet",
    "isr_counts_before_the_log_tells_it": "min.insync.replicas has to rise in the milliseconds between the decision of "
    "the controller and the moment when the leader learns it, and the leader has to die then",
    "offline_replica_elected": "the elected broker reports the failure again with its next heartbeat, and clients "
    "retry",
    "forgotten_producer_refused": "a producer has to be idle for producer.id.expiration.ms, a day",
    "rot_cut_as_a_torn_tail": "no fault of a scenario damages the metadata log",
    "reassignment_without_catching_up": "the only replica in sync has to die before the others have caught up, within "
    "milliseconds",
    "stray_kept": "no scenario deletes a topic while a broker is down",
    "swap_undone": "no scenario kills a broker in the middle of a compaction",
    "elements_not_limited": "no client of a scenario sends a request with tens of thousands of elements",
    "partitions_opened_at_once": "no scenario makes a topic of very many partitions",
    "recovery_on_the_loop": "logs of a scenario are small: their recovery takes less than a session",
    "log_start_not_followed": "the only scenario that deletes records, topic-changed, was not tried with it",
    "segment_directory_not_synced": "a loss of power in a scenario removes bytes after a file's last fsync, but never "
    "a file whose name was not synced",
    "read_error_fails_the_fetch": "no scenario makes one of several logs unreadable yet",
    "old_image_believed": "two brokers have to come back with old metadata, and find each other before either hears "
    "from the controller, within milliseconds",
    "directory_not_synced": "a loss of power in a scenario removes bytes after a file's last fsync, but never brings "
    "back the old file of a name",
    "leader_epoch_not_checked": "a request of another epoch has to reach a leader in the milliseconds before the "
    "leader hears of its own; a follower's log is compared by its epochs too (tried in truncation-seen, not caught)",
    "metadata_log_not_synced": "a loss of power in a scenario removes bytes after a file's last fsync, but has no "
    "files that were never synced",
    "two_votes_in_one_epoch": "two voters have to become candidates within the time that a message takes (tried in "
    "ring-and-bridge, not caught)",
    "unsynced_segments_trusted": "a loss of power in a scenario shortens files, and a file that does not fit its index "
    "is noticed without a scan; the content has to be wrong at the right length (tried in power-loss-follower, not "
    "caught)",
    "fetch_session_keeps_the_high_watermark": "a follower's high watermark matters only when it leads, and the next "
    "batch has told it by then; no scenario checks it at the end",
    "broker_epoch_ignored": "a fetch of a broker's earlier life has to come after the broker has registered anew",
    "commit_of_earlier_epoch": "figure 8 of the Raft paper: leaders in a row, each of which dies at a chosen entry",
    "partition_epoch_ignored": "an AlterPartition has to come after a change of the partition that its sender missed",
    "unclean_shutdown_ignored": "the last of an ISR has to come back without its records while the eligible replica is "
    "still down; scenarios have three voters, and two of them must be up",
    **dict.fromkeys(
        (
            "share_answer_before_state",
            "share_counts_forgotten",
            "share_deliveries_unlimited",
            "share_lock_ends_early",
            "share_records_left_out",
            "share_start_passes_open_records",
            "share_state_pruned_too_far",
        ),
        "the scenarios of share groups were not tried with it",
    ),
    "vote_not_persisted": "a voter has to die right after its vote, while another candidate stands in the same epoch",
}
TRIALS: Final[Mapping[str, tuple[Trial, ...]]] = {"brokers": BROKER_TRIALS, "clients": CLIENT_TRIALS}
