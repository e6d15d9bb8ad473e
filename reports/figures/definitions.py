"""What each number of the report means: unit, window, how it was counted. The page prints this list.

Figures of a cell are explained by the catalogue. Here are the words that are no such figure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from reports.judge.catalogue import EXPLAINED


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    name: str
    unit: str
    text: str


_TERMS: Final = (
    Definition(
        name="effect of a setting",
        unit="ratio",
        text="Geometric mean of a figure at one value, divided by that at the reference, over all repetitions and "
        "without the effect of the rounds. The 95 % interval is Student's t. Its variance is that between repetitions, "
        "to which the scatter of all configurations adds as much as one more repetition (empirical Bayes), and never "
        "below the block bootstrap inside the cells. The intervals of one figure hold for all its effects together "
        "(Bonferroni).",
    ),
    Definition(
        name="broker CPU per record",
        unit="µs",
        text="CPU time of all broker processes in the measured window, divided by the records acknowledged in it. It "
        "falls as the rate rises, so a cell at its ceiling cannot be compared with one at the common rate.",
    ),
    Definition(
        name="wire bytes per record",
        unit="B",
        text="Bytes of the record batches in the log, divided by their records. The same bytes crossed the wire to the "
        "leader, with a few more for each request.",
    ),
    Definition(
        name="smallest effect",
        unit="%",
        text="The smallest difference between two configurations that a run with this scatter and these repetitions "
        "finds with 80 % power at the 5 % level of all effects on the figure together.",
    ),
    Definition(
        name="measured window",
        unit="s",
        text="From the end of the warm-up to the end of the load. Rates and latencies count inside it only; "
        "losses, duplicates and reorderings count over the whole cell.",
    ),
    Definition(
        name="corrected latency",
        unit="ms",
        text="Acknowledgement minus intended send time, of records due in the window. So the waiting in a stall "
        "counts. Records that failed, are unknown or were never sent are infinitely late: a percentile that falls on "
        "them is not reached. Mean and maximum in tables are those of the acknowledged records; a limit on them is "
        "broken if one record is missing.",
    ),
    Definition(
        name="uncorrected latency",
        unit="ms",
        text="Acknowledgement minus the moment when the record was handed to the client. It is shown for comparison "
        "with tools that measure this.",
    ),
    Definition(
        name="end-to-end latency",
        unit="ms",
        text="The consumer's poll minus the intended send time, for every delivery of records due in the window. A "
        "record that never came to a reader is infinitely late, be it lost, failed, or still unread at the end: a "
        "percentile that falls on such records is not reached. Each reader that begins at the log's start is to get "
        "every record. A reader that begins at its end counts with what it got.",
    ),
    Definition(
        name="percentile",
        unit="ms",
        text="Computed from bins of ln(us)*128, 0.8 % wide. It is given only if ten samples or more lie beyond it. "
        "Files below results/spectra/ have the percentiles of each cell as HdrHistogram writes them. The 95 % interval "
        "of the p99 is a bootstrap over twenty blocks of time.",
    ),
    Definition(
        name="schedule lag",
        unit="ms",
        text="Hand-over to the client minus intended time: how late the generator or a full client buffer was.",
    ),
    Definition(
        name="foreign CPU",
        unit="%",
        text="CPU that other programs than the harness and its children took, of all cores, as the mean over the "
        "measured window. Stolen CPU is the CPU that other guests of the machine took.",
    ),
    Definition(
        name="queue and linger",
        unit="ms",
        text="How long a record waits in its client before it is sent, as the mean over the records of the measured "
        "window. The wait of a batch is longer, because it begins with the batch's first record. The client counts it "
        "once for each batch over the whole cell.",
    ),
    Definition(
        name="recovery",
        unit="s",
        text="Times count from the moment when the first fault acts. If a fault ended or paused a process (kill, "
        "terminate, restart, pause, power_loss), detection and election count from that fault. Detected: a broker was "
        "fenced, an ISR or an epoch changed. New leader: a leader of a later epoch. First acknowledgement: the first "
        "one after the election, otherwise after the first gap of two buckets. Back: the rate over a second stays at "
        "90 % of the rate before the fault from then on.",
    ),
    Definition(
        name="area of violation",
        unit="record-seconds",
        text="Records that were due at the rate before the fault and not yet acknowledged, summed over time until the "
        "service was back. A queue in front of the cluster would have held these records for this time.",
    ),
    Definition(
        name="unknown",
        unit="records",
        text="Sends whose outcome the client does not know. They count as neither lost nor acked.",
    ),
    Definition(
        name="predicted",
        unit="identities",
        text="Records that must be damaged according to journals, log dumps and the wire. The outcome is not used for "
        "this. An identity is producer/incarnation/sequence.",
    ),
    Definition(
        name="time bucket",
        unit="ms",
        text="Charts count per bucket of 100 ms (wider in cells of more than a minute). They keep minimum, mean, p99 "
        "and maximum, so that a short spike can be seen. A latency is drawn at the time when the record was due.",
    ),
    Definition(
        name="inconclusive",
        unit="",
        text="The run does not show it, for example because the fault was not proved, the final read was incomplete or "
        "the generator was saturated.",
    ),
)
DEFINITIONS: Final = (
    *(Definition(name=figure.title, unit=figure.unit, text=figure.definition or figure.about) for figure in EXPLAINED),
    *_TERMS,
)
