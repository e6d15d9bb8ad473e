"""Every anomaly and its exact rule, in one place: in words for the page, in plain SQL where it strikes records.

The SQL is the definition, written to be clear. `reports/analyse/record_sets.py` computes the same much faster. Each
statement gives (cell, producer, incarnation, seq), once per record. The tests run it in DuckDB and require the same
sets from Spark.
Rules without SQL are computed from events by `happenings.py` and `history.py`, where each is one small function.
"""

from __future__ import annotations

from reports.evidence.history import ALIVE_US, REBALANCES_PER_MINUTE_MAX, STUCK_US
from reports.judge.anomalies_of_records import ANOMALIES_OF_RECORDS
from reports.judge.anomalies_of_transactions import ANOMALIES_OF_TRANSACTIONS
from reports.judge.anomaly import EVENTS, HISTORY, JOURNAL, Anomaly

ANOMALIES: tuple[Anomaly, ...] = (
    *ANOMALIES_OF_RECORDS,
    *ANOMALIES_OF_TRANSACTIONS,
    # --- replication ---
    Anomaly(
        name="replica_divergence",
        family="replication",
        title="Replicas differ",
        rule="After healing, two replicas hold another batch (leader epoch or CRC) at an offset that both have. "
        "Looked for in chaos cells of clusters that the harness runs itself.",
        evidence="segment files of all replicas",
    ),
    Anomaly(
        name="isr_never_recovers",
        family="replication",
        title="ISR stays short",
        rule="At the end of the cell, all faults healed, a partition has fewer in-sync replicas than replicas. A cell "
        "that was cut short was never healed and is not judged.",
        evidence=EVENTS,
    ),
    Anomaly(
        name="two_leaders_ack",
        family="replication",
        title="Acknowledged by a deposed leader",
        rule="A batch that a leader appended under an older epoch, after a leader of a newer epoch had appended to the "
        "same partition, is acknowledged at an offset that the newer leader had not given.",
        evidence=JOURNAL,
    ),
    Anomaly(
        name="truncate_below_hw",
        family="replication",
        title="Truncated below the high watermark",
        rule="A replica cuts its log back below an end offset that consumers were shown before by a leader of the "
        "epoch of the records that are cut. What later leaders showed counts their own records, and what a disk "
        "forgot is no truncation.",
        evidence=EVENTS,
    ),
    Anomaly(
        name="two_controllers",
        family="replication",
        title="Two controllers in one epoch",
        rule="Two brokers say that they were elected controller in the same epoch.",
        evidence=JOURNAL,
    ),
    # --- groups ---
    Anomaly(
        name="commit_regression",
        family="groups",
        title="Committed offset went back",
        rule="A group's committed offset of a partition is lower than before, without a reset between.",
        evidence=HISTORY,
    ),
    Anomaly(
        name="double_owner",
        family="groups",
        title="Two owners",
        rule="A member is assigned a partition in a generation in which another member holds it, or before its owner, "
        f"alive in the last {ALIVE_US // 1_000_000} s and not hindered by a fault, has let go of it.",
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
        rule=f"A member's position stands still for {STUCK_US // 1_000_000} s while there is something to read; or a "
        "group had not been given all of a partition when the drain was over.",
        evidence=HISTORY + ", harness",
    ),
    Anomaly(
        name="spurious_reset",
        family="groups",
        title="Reset without a cause",
        rule="A consumer's position is reset although its offset was in range and committed.",
        evidence=HISTORY,
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
        rule="A broker process ended that the harness had neither killed nor stopped, whose disk had not failed and "
        "from which no fault kept descriptors or memory.",
        evidence="harness",
    ),
    Anomaly(
        name="hang",
        family="liveness",
        title="Client hung",
        rule="The load did not come to its end within its planned time, its drain and 45 s.",
        evidence="harness",
    ),
    Anomaly(
        name="client_died",
        family="liveness",
        title="Client gave up",
        rule="A member or copier process ended, and no fault had ended it.",
        evidence="harness",
    ),
    Anomaly(
        name="harness_error",
        family="meta",
        title="Harness failed",
        rule="The cell could not be carried out, and neither cluster nor client is to blame. Never a pass.",
        evidence="harness",
    ),
)
BY_NAME: dict[str, Anomaly] = {anomaly.name: anomaly for anomaly in ANOMALIES}
# Refused: that a reader sees all of a transaction at one moment or nothing. read_committed promises that of no two
# partitions, and within one it is `copy_passed_over`. Not computed: cycles between transactions (G0, G1c), because
# Kafka's transactions interleave by design and reads of keys by other transactions are not recorded; LSO stalls
# (hanging transactions), which no stream shows.
