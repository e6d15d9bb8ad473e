"""Finds mistakes in the plan of a benchmark before it starts, and gives the reason for each. Pure.

A finding is a warning, because a suite may have a good reason for it. With `--strict` it is an error. The rules are
mistakes that are common in other tools (docs/guide/lint.md). tests/harness/test_harness_lint.py shows for each rule a
plan that breaks it and a plan that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from harness.errors import UsageError
from harness.planned_cell import PlannedCell
from harness.suite import Suite
from harness.suite_source import nearest
from runlog.quality.criteria import CRITERIA
from workloads.model import Closed, Constant, Poisson, Replay, Workload
from workloads.schedule import build

REPETITIONS_WANTED: Final = 3
COMPARE_REPETITIONS: Final = 4
FORKS_WANTED: Final = 3
_MAX_REQUEST_BYTES: Final = 1_048_576  # Kafka's default of max.request.size
_PARTITIONS_FOR_ONE_PRODUCER: Final = 12
_COMPRESSIBLE: Final = 0.85
_INCOMPRESSIBLE: Final = 0.05
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    rule: str
    cells: tuple[str, ...]  # empty: the run as a whole
    message: str  # what, and why it matters

    def text(self) -> str:
        where = ""
        if self.cells:
            more = f" and {len(self.cells) - 3} more" if len(self.cells) > 3 else ""
            where = f" [{', '.join(self.cells[:3])}{more}]"
        return f"{self.rule}: {self.message}{where}"


def findings_of(suite: Suite, cells: Sequence[PlannedCell], *, is_own_cluster: bool = True) -> list[Finding]:
    """All findings except those that the suite accepts with a reason. UsageError if it accepts a rule that is none."""
    for rule in suite.accepted_findings:
        if rule not in rule_names():
            place = suite.source.place_of(("accepted_findings", rule)) if suite.source is not None else suite.name
            raise UsageError(f"{place}: accepted_findings: {rule} is no rule of the lint{nearest(rule, rule_names())}")
    found = lint(cells, is_own_cluster=is_own_cluster)
    return [finding for finding in found if finding.rule not in suite.accepted_findings]


def lint(cells: Sequence[PlannedCell], *, is_own_cluster: bool = True) -> list[Finding]:
    """All findings of a plan, in the order of the rules. The rules about the number of clusters and about racks do not
    apply to an external cluster: the harness cannot start it anew, and does not know its racks."""
    sweep = [cell for cell in cells if cell.kind == "sweep" and cell.repetition == 1]
    findings: list[Finding] = []
    for rule in (rule for rule in _CELL_RULES if is_own_cluster or rule is not _rack_without_effect):
        found = [(cell, message) for cell in sweep if (message := rule(cell))]
        for message in dict.fromkeys(message for _, message in found):
            where = tuple(cell.cell_id for cell, own in found if own == message)
            whole = len(where) == len(sweep)
            findings.append(Finding(rule=_name(rule), cells=() if whole else where, message=message))
    for run_rule in (rule for rule in _RUN_RULES if is_own_cluster or rule is not _one_cluster):
        message = run_rule([cell for cell in cells if cell.kind == "sweep"])
        if message:
            findings.append(Finding(rule=_name(run_rule), cells=(), message=message))
    return findings


def _name(rule: Callable[..., str]) -> str:
    return rule.__name__.removeprefix("_").replace("_", "-")


# --- rules of one cell: the message, or nothing --------------------------------------------------------------------


def _acks_0_latency(cell: PlannedCell) -> str:
    if _setting(cell, "acks", "all") != "0":
        return ""
    if cell.workload.consumers == 0:
        return "acks=0 without a consumer: nobody answers and nobody reads, so there is no latency at all"
    return (
        "acks=0 has no acknowledgement: its latency is from end to end and must not be set beside the others' "
        "acknowledged latency (the report leaves it out)"
    )


def _too_short_for_p999(cell: PlannedCell) -> str:
    records = _due_in_window(cell.workload)
    if records is None:
        return ""
    beyond = CRITERIA.samples_beyond_percentile_min
    for quantile, name in ((0.99, "p99"), (0.999, "p99.9")):
        needed = beyond / (1 - quantile)
        if records < needed * (1 - 1e-9):
            return (
                f"about {records:,.0f} records in the window carry no {name}, which needs {needed:,.0f}: "
                "measure longer or faster; the report shows a dash"
            )
    return ""


def _due_in_window(workload: Workload) -> float | None:
    """None if it is not known before the run: in a closed loop, and with a replay, whose file is not read yet."""
    shape = workload.schedule
    if isinstance(shape, Constant | Poisson):
        return workload.rate_per_s * workload.measure_ms / 1000
    if isinstance(shape, Closed) or (isinstance(shape, Replay) and not shape.times_ms):
        return None
    schedule = build(workload, seed=0)  # any seed: the other shapes draw nothing at random
    until_window, until_end = workload.warmup_ms, workload.warmup_ms + workload.measure_ms
    return schedule.count_until(until_end * 1_000_000 - 1) - schedule.count_until(until_window * 1_000_000 - 1)


def _one_copy_called_durable(cell: PlannedCell) -> str:
    if not _is_all(cell):
        return ""
    if cell.replication_factor == 1:
        return "acks=all with one replica: one broker's loss is the record's loss; durable needs 3 and min.insync 2"
    minimum = cell.topic_config.get("min.insync.replicas", cell.record.broker_settings.get("min.insync.replicas", "1"))
    if minimum in ("0", "1"):
        return (
            "acks=all with min.insync.replicas=1: when followers fall behind, the leader alone acknowledges, and its "
            "loss loses records"
        )
    return ""


def _order_with_many_in_flight(cell: PlannedCell) -> str:
    in_flight = _number(cell, "max.in.flight.requests.per.connection", "5")
    may_retry = _setting(cell, "retries", "2147483647") != "0" and _setting(cell, "acks", "all") != "0"
    if in_flight is None or in_flight <= 1 or _is_idempotent(cell) or not may_retry:
        return ""
    return (
        f"{in_flight} requests in flight without idempotence: a retry may swap batches (KIP-98), and the order is "
        "judged; take enable.idempotence=true, one in flight or retries=0"
    )


def _batch_larger_than_request(cell: PlannedCell) -> str:
    batch = _number(cell, "batch.size", "16384")
    limit = _number(cell, "max.request.size", str(_MAX_REQUEST_BYTES))
    if batch is None or limit is None or batch <= limit:
        return ""
    return f"batch.size {batch:,} is above max.request.size {limit:,}: no batch can ever fill"


def _no_warm_up(cell: PlannedCell) -> str:
    if cell.workload.warmup_ms > 0:
        return ""
    return "no warm-up: connections, caches and just-in-time compilers start inside the measured window (KIP-1052)"


def _window_too_short_to_judge(cell: PlannedCell) -> str:
    least_ms = CRITERIA.steady_window_us_min / 1000
    if cell.workload.measure_ms >= least_ms:
        return ""
    return (
        f"a window of {cell.workload.measure_ms} ms is too short to see whether the rate is steady: take "
        f"{least_ms:.0f} ms or more"
    )


def _one_producer_many_partitions(cell: PlannedCell) -> str:
    workload = cell.workload
    if workload.producers > 1 or workload.keys != "none" or cell.partitions < _PARTITIONS_FOR_ONE_PRODUCER:
        return ""
    return (
        f"one producer without keys on {cell.partitions} partitions: the sticky partitioner (KIP-794) fills one batch "
        "after the other, as real fan-in does not; add producers or keys"
    )


def _closed_loop(cell: PlannedCell) -> str:
    if not cell.workload.is_closed_loop:
        return ""
    return "a closed loop waits while the cluster stalls and so hides the stall: its latencies are not comparable"


def _consumer_missing(cell: PlannedCell) -> str:
    if cell.workload.consumers:
        return ""
    return "no consumer: what is measured ends at the acknowledgement; delivery and end-to-end latency stay unknown"


def _rack_without_effect(cell: PlannedCell) -> str:
    racks = {str(rack) for reader in cell.workload.readers if (rack := reader.properties.get("client.rack"))}
    if not racks:
        return ""
    if unknown := racks - set(cell.racks):
        known = f"the brokers are in {', '.join(dict.fromkeys(cell.racks))}" if cell.racks else "see cluster.racks"
        return f"client.rack={min(unknown)}: no broker is in this rack, so consumers read from leaders; {known}"
    if cell.record.broker_settings.get("replica.selector.class") != RACK_AWARE:
        return (
            f"client.rack={min(racks)}: leaders name no follower without replica.selector.class={RACK_AWARE} of brokers"
        )
    return ""


# --- rules of the whole sweep ---------------------------------------------------------------------------------------


def _compression_of_made_up_data(sweep: Sequence[PlannedCell]) -> str:
    codecs = {_setting(cell, "compression.type", "none") for cell in sweep}
    if len(codecs) < 2:
        return ""
    for cell in sweep:
        if cell.workload.corpus is not None:
            continue
        share = cell.workload.compressibility
        if share >= _COMPRESSIBLE:
            return f"codecs are compared on payload that is {share:.0%} redundant: any codec looks good on it"
        if share <= _INCOMPRESSIBLE:
            return "codecs are compared on payload that cannot be compressed: each of them only costs"
        return (
            f"codecs are compared on made-up payload ({share:.0%} redundant): the ratio is what was asked for; "
            "`workload.corpus` takes your own records"
        )
    return ""


def _mixed_durability(sweep: Sequence[PlannedCell]) -> str:
    promises = {
        (_setting(cell, "acks", "all").replace("-1", "all"), cell.replication_factor, tuple(cell.topic_config.items()))
        for cell in sweep
    }
    if len(promises) < 2:
        return ""
    acks = sorted({promise[0] for promise in promises})
    return (
        f"one comparison holds {len(promises)} promises (acks {', '.join(acks)}): the faster one may be the one that "
        "promises less; the report keeps them apart and recommends only those that lose nothing"
    )


def _too_few_repetitions(sweep: Sequence[PlannedCell]) -> str:
    repetitions = max((cell.record.round_number for cell in sweep), default=0)
    if not sweep or repetitions >= REPETITIONS_WANTED:
        return ""
    times = "once" if repetitions == 1 else f"{repetitions} times"
    return (
        f"each cell runs {times}: how much a second run would differ stays unknown; sweep.repetitions "
        f"{REPETITIONS_WANTED} gives intervals, {COMPARE_REPETITIONS} let `harness compare` judge single cells"
    )


def _one_cluster(sweep: Sequence[PlannedCell]) -> str:
    repetitions = max((cell.record.round_number for cell in sweep), default=0)
    if repetitions < REPETITIONS_WANTED:
        return ""  # another rule already reports too few repetitions
    forks = len({cell.fork for cell in sweep})
    if forks >= FORKS_WANTED:
        return ""
    if forks == 1:
        return (
            f"all {repetitions} repetitions run on one cluster: intervals hold its scatter alone, and another cluster "
            f"(of a JVM: another life) differs by more; sweep.forks {repetitions} starts one for each repetition"
        )
    return (
        f"{forks} clusters tell what differs from cluster to cluster by {forks - 1} degree of freedom: intervals of "
        f"levels and predictions are then wide; take sweep.forks {FORKS_WANTED} or more"
    )


def _through_proxies(sweep: Sequence[PlannedCell]) -> str:
    if not any(cell.record.proxied for cell in sweep):
        return ""
    return "sweep.proxied: the proxies pass a third of what loopback does, so rates are the proxies', not the brokers'"


_CELL_RULES: Final[tuple[Callable[[PlannedCell], str], ...]] = (
    _acks_0_latency,
    _too_short_for_p999,
    _one_copy_called_durable,
    _order_with_many_in_flight,
    _batch_larger_than_request,
    _no_warm_up,
    _window_too_short_to_judge,
    _one_producer_many_partitions,
    _closed_loop,
    _consumer_missing,
    _rack_without_effect,
)
_RUN_RULES: Final[tuple[Callable[[Sequence[PlannedCell]], str], ...]] = (
    _compression_of_made_up_data,
    _mixed_durability,
    _too_few_repetitions,
    _one_cluster,
    _through_proxies,
)


def rule_names() -> list[str]:
    rules: Iterable[Callable[..., str]] = (*_CELL_RULES, *_RUN_RULES)
    return [_name(rule) for rule in rules]


def _number(cell: PlannedCell, name: str, default: str) -> int | None:
    """None if it is not a whole number. The lint does not check values."""
    try:
        return int(_setting(cell, name, default))
    except ValueError:
        return None


def _setting(cell: PlannedCell, name: str, default: str) -> str:
    return str(cell.properties.get(name, default)).strip().lower()


def _is_all(cell: PlannedCell) -> bool:
    return _setting(cell, "acks", "all") in ("all", "-1")


def _is_idempotent(cell: PlannedCell) -> bool:
    """Kafka's default is on, unless acks or in-flight forbid it (KIP-679)."""
    allowed = _is_all(cell) and (_number(cell, "max.in.flight.requests.per.connection", "5") or 0) <= 5
    return _setting(cell, "enable.idempotence", "true" if allowed else "false") == "true"
