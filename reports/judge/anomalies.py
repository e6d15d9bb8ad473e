"""Every anomaly and its exact rule in one place: in words for the page, and in SQL if it concerns single records.

The SQL is the definition and is written to be clear. `reports/analyse/record_sets.py` computes the same much faster.
Each statement gives (cell, producer, incarnation, seq), once per record. The tests run it in DuckDB and require the
same sets from Spark. Rules without SQL are computed from events by `happenings.py` and `history.py`, where each is one
small function.
"""

from __future__ import annotations

from reports.evidence.history import ALIVE_US, REBALANCES_PER_MINUTE_MAX, STUCK_US
from reports.judge.anomalies_of_records import ANOMALIES_OF_RECORDS
from reports.judge.anomalies_of_transactions import ANOMALIES_OF_TRANSACTIONS
from reports.judge.anomaly import EVENTS, HISTORY, JOURNAL, SHARES, Anomaly

ANOMALIES: tuple[Anomaly, ...] = (
    *ANOMALIES_OF_RECORDS,
    *ANOMALIES_OF_TRANSACTIONS,
    # --- replication ---
    Anomaly(
        name="replica_divergence",
        family="replication",
        title="Replicas differ",
        rule="After healing, two replicas have different batches (leader epoch or CRC) at an offset that both have. "
        "This is checked in chaos cells of clusters that the harness runs itself.",
        evidence="segment files of all replicas",
    ),
    Anomaly(
        name="isr_never_recovers",
        family="replication",
        title="ISR stays short",
        rule="At the end of the cell, when all faults are healed, a partition has fewer in-sync replicas than "
        "replicas. A cell that was cut short was never healed and is not judged.",
        evidence=EVENTS,
    ),
    Anomaly(
        name="two_leaders_ack",
        family="replication",
        title="Acknowledged by a deposed leader",
        rule="A leader of an older epoch appended a batch after a leader of a newer epoch had appended to the same "
        "partition. This batch is acknowledged at an offset that the newer leader had not given.",
        evidence=JOURNAL,
    ),
    Anomaly(
        name="truncate_below_hw",
        family="replication",
        title="Truncated below the high watermark",
        rule="A replica truncates records below an end offset that a leader of their epoch had shown to consumers. End "
        "offsets of later leaders do not count, because they include other records. A loss on a disk is not a "
        "truncation.",
        evidence=EVENTS,
    ),
    Anomaly(
        name="two_controllers",
        family="replication",
        title="Two controllers in one epoch",
        rule="Two brokers report that they were elected controller in the same epoch.",
        evidence=JOURNAL,
    ),
    # --- groups ---
    Anomaly(
        name="commit_regression",
        family="groups",
        title="Committed offset went back",
        rule="A group's committed offset of a partition is lower than before, and there was no reset.",
        evidence=HISTORY,
    ),
    Anomaly(
        name="double_owner",
        family="groups",
        title="Two owners",
        rule="A member is assigned a partition that another member owns in the same generation. Or it is assigned "
        f"before the owner has revoked it, although the owner was active in the last {ALIVE_US // 1_000_000} s and no "
        "fault acted on it.",
        evidence=HISTORY,
    ),
    Anomaly(
        name="rebalance_storm",
        family="groups",
        title="Rebalance storm",
        rule=f"More than {REBALANCES_PER_MINUTE_MAX} generations of a group within a minute.",
        evidence=HISTORY,
    ),
    Anomaly(
        name="stuck_consumer",
        family="groups",
        title="Stuck consumer",
        rule=f"A member's position does not change for {STUCK_US // 1_000_000} s while there are records to read. Or a "
        "group has not received all records of a partition when the drain is over.",
        evidence=HISTORY + ", harness",
    ),
    Anomaly(
        name="spurious_reset",
        family="groups",
        title="Reset without a cause",
        rule="A consumer's position is reset although its offset was in range and committed.",
        evidence=HISTORY,
    ),
    Anomaly(
        name="share_lost",
        family="groups",
        title="Given up by a share group",
        rule="A share group is done with the record, although no member accepted or rejected it and the group allows "
        "more deliveries. It does not count if the answer to an acceptance is missing, or if a member died that held "
        "the record.",
        evidence=SHARES,
    ),
    Anomaly(
        name="share_after_done",
        family="groups",
        title="Delivered again after acceptance",
        rule="A share group delivers a record again after a member was told that its acceptance or rejection of the "
        "record counts. The broker must have given the record away after that: the member that got it had not asked "
        "for it before.",
        evidence=SHARES,
    ),
    Anomaly(
        name="share_over_limit",
        family="groups",
        title="Delivered too often",
        rule="A share group delivers a record more often than share.delivery.count.limit allows.",
        evidence=SHARES,
    ),
    # --- liveness ---
    Anomaly(
        name="no_recovery",
        family="liveness",
        title="Cluster did not recover",
        rule="45 s after the last fault was healed, a partition has no leader or no full ISR.",
        evidence="harness",
    ),
    Anomaly(
        name="crashed",
        family="liveness",
        title="Broker crashed",
        rule="A broker process ended, although the harness had neither killed nor stopped it, its disk had not failed, "
        "and no fault denied it descriptors or memory.",
        evidence="harness",
    ),
    Anomaly(
        name="hang",
        family="liveness",
        title="Client hung",
        rule="The load did not end within its planned time, its drain and 45 s.",
        evidence="harness",
    ),
    Anomaly(
        name="client_died",
        family="liveness",
        title="Client gave up",
        rule="A member or copier process ended, although no fault had ended it.",
        evidence="harness",
    ),
    Anomaly(
        name="harness_error",
        family="meta",
        title="Harness failed",
        rule="The cell could not be carried out, and neither cluster nor client was the reason. This is never a pass.",
        evidence="harness",
    ),
)
BY_NAME: dict[str, Anomaly] = {anomaly.name: anomaly for anomaly in ANOMALIES}
# These are no rules, on purpose:
# - A reader sees all of a transaction at one moment, or nothing. read_committed does not promise this for two
#   partitions. Within one partition it is `copy_passed_over`.
# - Cycles between transactions (G0, G1c). Kafka's transactions interleave by design. reports/jepsen finds them in a
#   history of the run (`harness report --to-edn`), and says which are lawful.
# - A last stable offset that does not advance (hanging transactions). No stream shows it.
