"""Plants on what brokers, members and the harness itself tell: events, histories, outcomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.reports.planted_case import FAR_OFFSET, LATE_US, Case


def epoch_regression(case: Case) -> None:
    if case.wrong_end or case.foreign:
        return  # these want batches that agree with the log
    first = FAR_OFFSET + 10 * len(case.plants)
    partition = 50 + len(case.plants)
    case.batches += [(partition, first, first + 4, 5), (partition, first + 5, first + 9, 4)]
    case.counts["epoch_regression"] += 1


def hw_regression(case: Case) -> None:
    partition = 50 + len(case.plants)
    for t_us, offset in ((1, 500), (2, 900), (3, 700)):
        case.event("high_watermark", t_us, partition=partition, broker=1, offset=offset)
    case.counts["hw_regression"] += 1


def truncate_below_hw(case: Case) -> None:
    partition = 50 + len(case.plants)
    case.event("high_watermark", 10, partition=partition, broker=1, offset=900)
    case.event("truncated", 20, partition=partition, broker=2, leader_epoch=1, from_offset=950, to_offset=880)
    # It began anew above all that it had, where retention had moved its leader's log.
    case.event("truncated", 25, partition=partition, broker=3, leader_epoch=1, from_offset=890, to_offset=0,
               restarted_at=899)  # fmt: skip
    case.event("truncated", 30, partition=partition, broker=3, leader_epoch=1, from_offset=950, to_offset=900)
    # The next leader's high watermark counts offsets of its own epoch: what was cut before is not below it.
    case.event("became_leader", 40, partition=partition, broker=2, leader_epoch=2, log_end_offset=900)
    case.event("high_watermark", 50, partition=partition, broker=2, offset=2000)
    case.event("truncated", 60, partition=partition, broker=1, leader_epoch=1, from_offset=980, to_offset=900)
    case.counts["truncate_below_hw"] += 1


def isr_never_recovers(case: Case) -> None:
    partition = 50 + len(case.plants)
    case.event("isr_changed", 10, partition=partition, broker=1, leader_epoch=2, isr=[1, 2, 3])
    case.event("isr_changed", 20, partition=partition, broker=1, leader_epoch=2, isr=[1])
    case.counts["isr_never_recovers"] += 1


def replica_divergence(case: Case) -> None:
    case.event("replica_divergence", LATE_US, partition=0, brokers=[1, 2], offset=17)
    case.counts["replica_divergence"] += 1


def zombie_write(case: Case) -> None:
    partition, producer_id = 50 + len(case.plants), 700 + len(case.plants)
    for t_us, epoch in ((1, 0), (2, 1), (3, 0), (4, 1)):
        case.event("appended", t_us, partition=partition, broker=1, leader_epoch=1, base_offset=t_us, last_offset=t_us,
                   producer_id=producer_id, producer_epoch=epoch, crc=t_us, client_id="z")  # fmt: skip
    case.counts["zombie_write"] += 1


def two_controllers(case: Case) -> None:
    epoch = 900 + len(case.plants)
    for broker in (1, 2):
        case.event("controller_elected", broker, broker=broker, controller_epoch=epoch)
    case.counts["two_controllers"] += 1


def crashed(case: Case) -> None:
    broker = 10 + len(case.plants)
    case.event("exited", LATE_US, broker=broker, code=-6)
    case.event("killed", LATE_US, broker=broker + 100)
    case.event("exited", LATE_US + 300, broker=broker + 100, code=-9)
    case.event("out_of_memory", LATE_US, broker=broker + 200)
    case.event("exited", LATE_US + 300, broker=broker + 200, code=-9)
    case.counts["crashed"] += 1


def _end_badly(case: Case, name: str) -> None:
    if "anomaly" not in case.outcome:
        case.outcome |= {"anomaly": name, "status": "failed", "reason": "planted"}
        case.doubts.add("cell finished")
        case.counts[name] += 1


def no_recovery(case: Case) -> None:
    _end_badly(case, "no_recovery")


def hang(case: Case) -> None:
    _end_badly(case, "hang")


def harness_error(case: Case) -> None:
    _end_badly(case, "harness_error")


def group(case: Case) -> str:
    return f"g{len(case.plants)}"


def commit_regression(case: Case) -> None:
    for t_us, kind, offset in ((1, "committed", 50), (2, "committed", 40), (3, "reset", 10), (4, "committed", 12)):
        case.history.append({"t_us": t_us, "kind": kind, "group": group(case), "partition": 0, "offset": offset,
                             "cause": "out of range"})  # fmt: skip
    case.counts["commit_regression"] += 1


def double_owner(case: Case) -> None:
    for t_us, kind, member in ((1, "assigned", "a"), (2, "assigned", "b"), (3, "revoked", "a"), (4, "assigned", "b")):
        case.history.append({"t_us": t_us, "kind": kind, "group": group(case), "member": member, "generation": 1,
                             "partitions": [3]})  # fmt: skip
    case.counts["double_owner"] += 1


def rebalance_storm(case: Case) -> None:
    for generation in range(30):
        case.history.append({"t_us": generation * 1_000_000, "kind": "assigned", "group": group(case), "member": "a",
                             "generation": generation, "partitions": []})  # fmt: skip
    case.counts["rebalance_storm"] += 1


def stuck_consumer(case: Case) -> None:
    for member, offsets in (("a", (5, 5, 5)), ("b", (5, 6, 7))):
        for number, offset in enumerate(offsets):
            case.history.append({"t_us": number * 6_000_000, "kind": "position", "group": group(case), "partition": 0,
                                 "member": member, "offset": offset, "end_offset": 90})  # fmt: skip
    case.counts["stuck_consumer"] += 1


def _members(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = case.outcome.setdefault("members", {"caught_up": True, "missing": "", "died": []})
    return found


def left_behind(case: Case) -> None:
    if _members(case)["caught_up"]:
        _members(case).update(caught_up=False, missing="app, partition 0: given up to 5, the end is 9")
        case.counts["stuck_consumer"] += 1


def client_died(case: Case) -> None:
    _members(case)["died"].append("member app-0 ended by itself: KeyError")
    case.counts["client_died"] += 1


def spurious_reset(case: Case) -> None:
    for cause in ("", "out of range"):
        case.history.append({"t_us": 1, "kind": "reset", "group": group(case), "partition": 1, "offset": 0,
                             "cause": cause})  # fmt: skip
    case.counts["spurious_reset"] += 1


def dup_bound_exceeded(case: Case) -> None:
    name = group(case)
    lines = [
        {"t_us": 1, "kind": "committed", "partition": 0, "offset": 100},
        {"t_us": 2, "kind": "assigned", "member": "a", "generation": 2, "partitions": [0]},
        {"t_us": 3, "kind": "position", "member": "a", "partition": 0, "offset": 90, "end_offset": 90},
        {"t_us": 4, "kind": "assigned", "member": "b", "generation": 3, "partitions": [0]},
        {"t_us": 5, "kind": "position", "member": "b", "partition": 0, "offset": 100, "end_offset": 100},
    ]
    case.history += [{**line, "group": name} for line in lines]
    case.counts["dup_bound_exceeded"] += 1


def conservation(case: Case) -> None:
    if case.counts["conservation"]:
        return
    case.history += [{"t_us": t_us, "kind": "balance", "total": total} for t_us, total in ((1, 100), (2, 100), (3, 99))]
    case.counts["conservation"] += 1


def _share(case: Case, *deliveries: tuple[int, int], accepted_us: int | None) -> None:
    """A record of a share group, which is done with it: (time, delivery count), and when it was accepted."""
    case.has_share_group = True
    partition = 50 + len(case.plants)
    who = {"group": "t-queue", "member": "queue-0", "incarnation": 0, "partition": partition}
    case.history += [
        {"t_us": t_us, "kind": "share_delivered", **who, "asked_us": t_us - 1, "ranges": [[7, 7, count]]}
        for t_us, count in deliveries
    ]
    if accepted_us is not None:
        case.history.append({"t_us": accepted_us, "kind": "share_acknowledged", **who, "type": "accept",
                             "outcome": "confirmed", "ranges": [[7, 7]]})  # fmt: skip
    case.history.append({"t_us": LATE_US, "kind": "share_end", "group": "t-queue", "partition": partition,
                         "start_offset": 8, "lag": 0})  # fmt: skip


def share_lost(case: Case) -> None:
    _share(case, (10, 1), (20, 2), accepted_us=None)
    case.counts["share_lost"] += 1


def share_after_done(case: Case) -> None:
    _share(case, (10, 1), (30, 2), accepted_us=20)
    case.counts["share_after_done"] += 1


def share_over_limit(case: Case) -> None:
    _share(case, (10, 6), accepted_us=20)
    case.counts["share_over_limit"] += 1


PLANTS: tuple[Callable[[Case], None], ...] = (
    epoch_regression, hw_regression, truncate_below_hw, isr_never_recovers, replica_divergence, zombie_write,
    two_controllers, crashed, no_recovery, hang, harness_error, commit_regression, double_owner, rebalance_storm,
    stuck_consumer, left_behind, client_died, spurious_reset, dup_bound_exceeded, conservation, share_lost,
    share_after_done, share_over_limit,
)  # fmt: skip
