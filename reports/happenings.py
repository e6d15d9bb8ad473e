"""Anomalies of replication and of life that events show, journal and probe; and offsets whose answers are suspect.

Pure: takes the event lines of one cell. What strikes single records is given as intervals of offsets, which
`analyse.py` joins with the acknowledgements; the rest as findings. Each rule is in words in `anomalies.py`, and planted
in tests/reports/planted_cases.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from reports.evidence import NEVER_US, Interval, lives, recreations
from reports.history import group_findings
from reports.lawful import configuration_of
from reports.model import Cell, EpochRange, Finding, Json

EXAMPLES_MAX = 5
ASKED_END_US = 2_000_000  # a process that ends so close to the harness's own kill or stop was ended by it
STORAGE_END_US = 30_000_000  # one whose disk failed may take so long to stop
_ENDED_BY_HARNESS = ("killed", "stopped")
_DENIES = ("disk_", "limit_")  # faults that may end a broker: it cannot write, open or hold what it must
_ENDED_BY_FAULT = ("storage_failed", "quorum_failed", "out_of_memory")


def findings(cell: Cell, epochs: Sequence[EpochRange]) -> dict[str, Finding]:
    """By anomaly; those that were looked for and not found are there with a count of 0."""
    of_topic = lives(cell)
    found: dict[str, list[str]] = {
        "epoch_regression": _epoch_regressions(epochs),
        "hw_regression": [case for life in of_topic for case in _high_watermark_regressions(life)],
        "truncate_below_hw": [case for life in of_topic for case in _truncations_below_high_watermark(life)],
        "isr_never_recovers": _isr_left_short(of_topic[-1]),
        "replica_divergence": _divergences(of_topic[-1]),
        "zombie_write": [case for life in of_topic for case in _zombie_writes(life)],
        "two_controllers": _two_controllers(cell),
        "crashed": _crashes(cell),
        **_outcome(cell),
        **group_findings(cell),
    }
    by_cases = {name: Finding(count=len(cases), examples=tuple(cases[:EXAMPLES_MAX])) for name, cases in found.items()}
    return {**by_cases, "foreign": _foreign(cell)}


def suspect_intervals(cell: Cell) -> list[Interval]:
    """Offsets for which a success in the given time is an anomaly."""
    cuts = [*(item.cut_us for item in recreations(cell)), NEVER_US]
    return [
        replace(interval, before_us=min(interval.before_us, cut_us))
        for life, cut_us in zip(lives(cell), cuts, strict=True)
        for interval in (*_below_min_isr(life), *_by_a_deposed_leader(life))
    ]


# --- events -----------------------------------------------------------------------------------------------------------


def _of_topic(cell: Cell, *kinds: str) -> list[Json]:
    topic = cell.part("topic").get("name")
    found = [
        event
        for event in cell.events
        if event.get("kind") in kinds
        and isinstance(event.get("partition"), int)
        and (topic is None or event.get("topic", topic) == topic)
    ]
    return sorted(found, key=lambda event: int(event.get("t_us", 0)))


def _by_partition(events: Iterable[Json]) -> dict[int, list[Json]]:
    groups: dict[int, list[Json]] = defaultdict(list)
    for event in events:
        groups[int(event["partition"])].append(event)
    return groups


# --- what an answer must not have said ------------------------------------------------------------------------------


def _below_min_isr(cell: Cell) -> list[Interval]:
    """Appends that a leader made while it knew that its ISR was too small, until it knew otherwise."""
    configuration = configuration_of(cell)
    if configuration.acks != "all" or configuration.min_isr < 2:
        return []
    appends = _by_partition(_of_topic(cell, "appended"))
    intervals: list[Interval] = []
    changes_of: dict[tuple[int, int], list[Json]] = defaultdict(list)
    for event in _of_topic(cell, "isr_changed"):
        changes_of[int(event["partition"]), int(event.get("leader_epoch", -1))].append(event)
    for (partition, epoch), changes in changes_of.items():
        ends = [int(event["t_us"]) for event in changes[1:]] + [_next_leader_us(cell, partition, epoch)]
        for event, end_us in zip(changes, ends, strict=True):
            if len(event.get("isr", ())) >= configuration.min_isr:
                continue
            begin_us = int(event["t_us"])
            intervals += [
                Interval(
                    kind="acked_below_min_isr",
                    partition=partition,
                    from_offset=int(item["base_offset"]),
                    end_offset=int(item["last_offset"]) + 1,
                    after_us=int(item["t_us"]),
                    before_us=end_us,
                )
                for item in appends[partition]
                if int(item.get("leader_epoch", -1)) == epoch and begin_us <= int(item["t_us"]) < end_us
            ]
    return intervals


def _next_leader_us(cell: Cell, partition: int, epoch: int) -> int:
    times = [
        int(event["t_us"])
        for event in _of_topic(cell, "became_leader")
        if event["partition"] == partition and int(event.get("leader_epoch", -1)) > epoch
    ]
    return min(times, default=NEVER_US)


def _by_a_deposed_leader(cell: Cell) -> list[Interval]:
    """Appends of an older epoch made after a newer epoch's first append: nobody may be told of them with acks=all.

    An answer counts until the newer leader gives the same offset. Offsets that it had given before are left out: whose
    answer that is cannot be told.
    """
    intervals: list[Interval] = []
    for partition, appends in _by_partition(_of_topic(cell, "appended")).items():
        newest = -1
        for item in appends:
            epoch = int(item.get("leader_epoch", -1))
            newest = max(newest, epoch)
            if epoch == newest:
                continue
            own_us = int(item["t_us"])
            again = [
                int(other["t_us"])
                for other in appends
                if int(other.get("leader_epoch", -1)) > epoch
                and int(other["base_offset"]) <= int(item["last_offset"])
                and int(other["last_offset"]) >= int(item["base_offset"])
            ]
            if any(t_us <= own_us for t_us in again):
                continue
            intervals.append(
                Interval(
                    kind="two_leaders_ack",
                    partition=partition,
                    from_offset=int(item["base_offset"]),
                    end_offset=int(item["last_offset"]) + 1,
                    after_us=own_us,
                    before_us=min(again, default=NEVER_US),
                )
            )
    return intervals


def _foreign(cell: Cell) -> Finding:
    """Records of nobody, which the final read counts and can say no more of."""
    count = cell.final_read.get("foreign")
    if not isinstance(count, int) or count <= 0:
        return Finding()
    return Finding(count=count, examples=(f"{count} record(s) that no producer of the harness made",))


# --- replication ------------------------------------------------------------------------------------------------------


def _epoch_regressions(epochs: Sequence[EpochRange]) -> list[str]:
    """Epochs must not fall as offsets grow, nor may two epochs claim the same offsets."""
    cases: list[str] = []
    by_partition: dict[int, list[EpochRange]] = defaultdict(list)
    for item in epochs:
        by_partition[item.partition].append(item)
    for partition, ranges in by_partition.items():
        ranges.sort(key=lambda item: (item.first_offset, item.leader_epoch))
        for before, after in pairwise(ranges):
            if after.leader_epoch < before.leader_epoch or after.first_offset < before.end_offset:
                cases.append(
                    f"partition {partition}: epoch {before.leader_epoch} up to offset {before.end_offset - 1}, then "
                    f"epoch {after.leader_epoch} from offset {after.first_offset}"
                )
    return cases


def _high_watermark_regressions(cell: Cell) -> list[str]:
    cases: list[str] = []
    for partition, events in _by_partition(_of_topic(cell, "high_watermark")).items():
        highest: Json | None = None
        for event in events:
            if highest is not None and event.get("broker") != highest.get("broker"):
                highest = None  # a new leader knows the high watermark of its last fetch and may show less for a moment
            if highest is not None and int(event["offset"]) < int(highest["offset"]):
                cases.append(
                    f"partition {partition}: {highest['offset']} by broker {highest.get('broker')}, then "
                    f"{event['offset']} by broker {event.get('broker')}"
                )
            if highest is None or int(event["offset"]) > int(highest["offset"]):
                highest = event
    return cases


def _truncations_below_high_watermark(cell: Cell) -> list[str]:
    """A high watermark that was shown promises that nobody in the ISR lets go of what is below."""
    cases: list[str] = []
    shown = _by_partition(_of_topic(cell, "high_watermark"))
    for event in _of_topic(cell, "truncated"):
        if event.get("source") == "disk":
            continue
        partition, epoch = int(event["partition"]), int(event.get("leader_epoch", -1))
        # What a later leader showed counts offsets of its own epoch: they say nothing of the records that were cut.
        leaders = [item for item in _of_topic(cell, "became_leader", "leader") if item["partition"] == partition]
        later = [int(item["t_us"]) for item in leaders if int(item.get("leader_epoch", -1)) > epoch]
        end_us = min([int(event["t_us"]) + 1, *later])
        own = {item.get("leader", item.get("broker")) for item in leaders if item.get("leader_epoch") == epoch}
        before = [
            int(item["offset"])
            for item in shown.get(partition, ())
            if int(item["t_us"]) < end_us and (not own or item.get("broker") in own)
        ]
        if before and int(event["to_offset"]) < min(max(before), int(event["from_offset"])):
            cases.append(
                f"partition {event['partition']}: broker {event.get('broker')} cut back to {event['to_offset']}, "
                f"high watermark {max(before)} had been shown"
            )
    return cases


def _isr_left_short(cell: Cell) -> list[str]:
    """After healing, at the end of the cell, an ISR smaller than the replicas. A cell cut short was never healed."""
    wanted, outcome = cell.part("topic").get("replication_factor"), cell.outcome
    was_healed = outcome.get("status") == "done" or outcome.get("anomaly")
    if not isinstance(wanted, int) or not was_healed:
        return []
    cases: list[str] = []
    for partition, events in _by_partition(_of_topic(cell, "isr_changed", "leader")).items():
        newest = max(events, key=lambda event: (int(event.get("leader_epoch", -1)), int(event["t_us"])))
        if len(newest.get("isr", ())) < wanted:
            cases.append(f"partition {partition}: ISR {newest.get('isr')} of {wanted} replicas at the end")
    return cases


def _divergences(cell: Cell) -> list[str]:
    """The harness compares the replicas' segment files after healing and tells where they part."""
    return [
        f"partition {event['partition']}: brokers {event.get('brokers')} differ at offset {event.get('offset')}"
        for event in _of_topic(cell, "replica_divergence")
    ]


def _zombie_writes(cell: Cell) -> list[str]:
    """A batch appended with a producer epoch below one that this partition had seen of the same producer id."""
    cases: list[str] = []
    newest: dict[tuple[int, int], int] = {}
    for event in _of_topic(cell, "appended"):
        producer_id, epoch = int(event.get("producer_id", -1)), int(event.get("producer_epoch", -1))
        if producer_id < 0:
            continue
        key = (int(event["partition"]), producer_id)
        if epoch < newest.get(key, epoch):
            cases.append(
                f"partition {key[0]} offset {event['base_offset']}: producer {producer_id} epoch {epoch} after epoch "
                f"{newest[key]}"
            )
        newest[key] = max(epoch, newest.get(key, epoch))
    return cases


def _two_controllers(cell: Cell) -> list[str]:
    by_epoch: dict[int, set[int]] = defaultdict(set)
    for event in cell.events:
        if event.get("kind") == "controller_elected":
            by_epoch[int(event.get("controller_epoch", -1))].add(int(event.get("broker", -1)))
    return [
        f"controller epoch {epoch}: brokers {sorted(brokers)}"
        for epoch, brokers in sorted(by_epoch.items())
        if len(brokers) > 1
    ]


# --- life -------------------------------------------------------------------------------------------------------------


def _crashes(cell: Cell) -> list[str]:
    """A broker that ended by itself, other than because its disk failed or a fault kept from it what it needs."""
    excused = [
        (event.get("broker"), int(event.get("t_us", 0)), ASKED_END_US if asked else STORAGE_END_US)
        for event in cell.events
        if (asked := event.get("kind") in _ENDED_BY_HARNESS) or event.get("kind") in _ENDED_BY_FAULT
    ]
    return [
        f"broker {event.get('broker')} ended with {event.get('code')}"
        for event in cell.events
        if event.get("kind") == "exited"
        and not _is_denied(cell, event)
        and not any(
            broker == event.get("broker") and abs(t_us - int(event.get("t_us", 0))) <= within_us
            for broker, t_us, within_us in excused
        )
    ]


def _is_denied(cell: Cell, exited: Json) -> bool:
    """Whether a fault on the process's disk, descriptors or memory was at work on that broker."""
    t_us = int(exited.get("t_us", 0))
    begun_us: dict[object, int] = {}
    windows: list[tuple[int, int]] = []
    for line in cell.faults:
        kind, phase = str(line.get("kind")), line.get("phase")
        if not kind.startswith(_DENIES) or str(exited.get("broker")) not in line.get("resolved", ()):
            continue
        if phase == "applied":
            begun_us[line.get("id")] = int(line["t_us"])
        elif phase == "healed" and line.get("id") in begun_us:
            windows.append((begun_us.pop(line.get("id")), int(line["t_us"]) + ASKED_END_US))
    windows += [(begin_us, NEVER_US) for begin_us in begun_us.values()]
    return any(begin_us <= t_us <= end_us for begin_us, end_us in windows)


def _outcome(cell: Cell) -> dict[str, list[str]]:
    """What the harness itself says of a cell that it could not carry out."""
    names = ("no_recovery", "hang", "harness_error")
    cases: dict[str, list[str]] = {name: [] for name in names}
    name = cell.outcome.get("anomaly")
    if name in names:
        cases[str(name)].append(str(cell.outcome.get("reason") or "no reason recorded"))
    return cases
