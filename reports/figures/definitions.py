"""What each number of the report means: unit, window, how it was counted. The page prints this list."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    name: str
    unit: str
    text: str


DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        name="effect of a setting",
        unit="ratio",
        text="Geometric mean of a figure at one value over that at the reference, all repetitions, freed of what "
        "differs from round to round. 95 % interval by Student's t: the variance between repetitions, drawn towards "
        "that of all configurations (empirical Bayes), never below the block bootstrap inside the cells.",
    ),
    Definition(
        name="broker CPU per record",
        unit="µs",
        text="CPU time of all broker processes in the measured window over the records acknowledged in it. It falls as "
        "the rate rises: what a cell needs at its ceiling is no figure of the common rate.",
    ),
    Definition(
        name="wire bytes per record",
        unit="B",
        text="Bytes of the record batches as they lie in the log over their records: what crossed the wire to the "
        "leader, except for a few bytes of each request.",
    ),
    Definition(
        name="smallest effect",
        unit="%",
        text="Difference between two configurations that a run with this scatter and these repetitions finds with 80 % "
        "power at the 5 % level.",
    ),
    Definition(
        name="measured window",
        unit="s",
        text="From the end of the warm-up to the end of the load. Rates and latencies count inside it only; "
        "losses, duplicates and reorderings count over the whole cell.",
    ),
    Definition(
        name="throughput",
        unit="records/s",
        text="Acknowledgements that came in the measured window, over its length. With acks=0 nobody answers: there, "
        "records due in the window that the final read found. Interval: 95 % by moving-block bootstrap over time "
        "buckets, of this one run.",
    ),
    Definition(
        name="capacity",
        unit="records/s",
        text="The throughput of a cell that sends as fast as it can: a closed loop with many records under way, and "
        "no reader. It is what this host carried, brokers and load generator together. Where the generator used "
        "85 % of what it can use, it may have been the limit, and no capacity is claimed. A closed loop has no "
        "latency that could be compared: p99 is that of the cell at the sweep's rate.",
    ),
    Definition(
        name="corrected latency",
        unit="ms",
        text="Acknowledgement minus intended send time: waiting that a stall caused is counted. Of "
        "records due in the window. Failed, unknown and never sent ones do not end and rank above all others: a "
        "percentile that falls on them has no value. Mean and maximum are of the acknowledged ones.",
    ),
    Definition(
        name="uncorrected latency",
        unit="ms",
        text="Acknowledgement minus the moment the record was handed to the client. Shown for comparison with tools "
        "that leave the schedule out.",
    ),
    Definition(
        name="end-to-end latency",
        unit="ms",
        text="The consumer's poll minus the intended send time, of every delivery of records due in the window.",
    ),
    Definition(
        name="percentile",
        unit="ms",
        text="From bins of ln(us)*128, 0.8 % wide. Given only if ten samples or more lie beyond it. The interval of "
        "the p99 is 95 %, by drawing twenty blocks of time again and again.",
    ),
    Definition(
        name="asked rate sent",
        unit="%",
        text="Records handed to the client over those that the schedule had due, in the measured window: with a ramp, "
        "steps, a spike, a sine, a replay or Poisson arrivals those of the run log and those never sent. None in a "
        "closed loop, whose rate is a ceiling.",
    ),
    Definition(
        name="schedule lag",
        unit="ms",
        text="Hand-over to the client minus intended time: how late the generator or a full client buffer was.",
    ),
    Definition(
        name="foreign CPU",
        unit="%",
        text="CPU that programs other than the harness and its children took, of all cores, as the mean over the "
        "measured window. Stolen CPU is what other guests of the machine took.",
    ),
    Definition(
        name="queue and linger",
        unit="ms",
        text="How long a record waits in its client before it is sent: the mean over the records of the measured "
        "window. The wait of a batch is longer, because it begins with the batch's first record; the client counts it "
        "once a batch over the whole cell.",
    ),
    Definition(
        name="gap",
        unit="s",
        text="Longest time within the measured window in which no acknowledgement came, all producers together.",
    ),
    Definition(
        name="records per batch",
        unit="records",
        text="Records over batches of the final log, warm-up included.",
    ),
    Definition(
        name="compression",
        unit="ratio",
        text="Bytes the batches would have without compression over their bytes in the log, headers included.",
    ),
    Definition(
        name="recovery",
        unit="s",
        text="From the moment the first fault acts; detection and election from the fault that ended a process, where "
        "one did (kill, terminate, restart, pause, power_loss). Detected: a broker fenced, an ISR or an epoch changed. "
        "New leader: one of a later epoch. First acknowledgement: after the election, else after the first silence of "
        "two buckets. Back: from when the rate over a second stays at 90 % of the rate before the fault.",
    ),
    Definition(
        name="area of violation",
        unit="record-seconds",
        text="Records that were due at the rate before the fault and not yet acknowledged, summed over time until "
        "service was back: what a queue in front of the cluster would have held, times how long.",
    ),
    Definition(name="unknown", unit="records", text="Sends whose fate the client cannot know: neither lost nor acked."),
    Definition(
        name="predicted",
        unit="identities",
        text="Records that must be damaged according to journals, log dumps and the wire, found without looking at "
        "the outcome. An identity is producer/incarnation/sequence.",
    ),
    Definition(
        name="time bucket",
        unit="ms",
        text="Charts count per bucket of 100 ms (wider in cells of more than a minute) and keep minimum, mean, p99 and "
        "maximum, so that a short spike survives. Latencies stand at the time the record was due.",
    ),
    Definition(
        name="inconclusive",
        unit="",
        text="The run cannot say: the fault was not proved, the final read incomplete, the generator saturated.",
    ),
)
