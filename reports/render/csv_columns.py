"""Every column of the tables below results/: its written name, with its unit, and what it means. Data, and no figures.

What the catalogue of figures describes is not described again.
docs/reference/results-tables.md is generated from it. If a column is written and not described here,
tests/reports/test_reports_csv_columns.py fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from reports.judge.catalogue import IN_CSV, LEVELS, SPANS

# Names that figures have inside, and the names in the files. A file has its own names first.
RENAMED: Final[Mapping[str, Mapping[str, str]]] = {
    "knobs.csv": {
        "capacity": "capacity_records_per_s", "throughput": "throughput_records_per_s",
        "throughput_low": "throughput_records_per_s_low", "throughput_high": "throughput_records_per_s_high",
        "p99": "p99_ms", "p99_low": "p99_ms_low", "p99_high": "p99_ms_high",
    },
    "price.csv": {
        "rate": "carried_records_per_s", "rate_low": "carried_records_per_s_low",
        "rate_high": "carried_records_per_s_high", "p99": "p99_ms", "p99_low": "p99_ms_low", "p99_high": "p99_ms_high",
        "front": "on_front",
    },
    "surface.csv": {
        "throughput_value": "throughput_records_per_s", "throughput_low": "throughput_records_per_s_low",
        "throughput_high": "throughput_records_per_s_high", "capacity_value": "capacity_records_per_s",
        "capacity_low": "capacity_records_per_s_low", "capacity_high": "capacity_records_per_s_high",
        "p99_value": "p99_ms", "p99_low": "p99_ms_low", "p99_high": "p99_ms_high",
        "broker_cpu_value": "broker_cpu_us_per_record",
        "broker_cpu_low": "broker_cpu_us_per_record_low", "broker_cpu_high": "broker_cpu_us_per_record_high",
        "wire_bytes_value": "wire_bytes_per_record", "wire_bytes_low": "wire_bytes_per_record_low",
        "wire_bytes_high": "wire_bytes_per_record_high", "on_front": "on_front_share", "lost": "lost_records",
        "duplicated": "duplicated_records", "reordered": "reordered_records", "faults_tried": "fault_cells",
        "lost_per_million": "lost_records_per_million", "duplicated_per_million": "duplicated_records_per_million",
        "reordered_per_million": "reordered_records_per_million",
    },
    "forks.csv": {
        "between_clusters": "between_clusters_log_sd", "within_a_cluster": "within_a_cluster_log_sd",
        "offset": "offset_log_ratio",
    },
    "sensitivity.csv": {
        "scatter_of_one_repetition": "scatter_of_one_repetition_log_sd", "smallest_effect": "smallest_effect_log_ratio",
    },
    "behaviour.csv": {"fill": "fill_share", "broker_cpu_log_error": "broker_cpu_log_standard_error"},
    "search.csv": {
        "rate": "rate_records_per_s", "kept": "kept_records_per_s", "low": "limit_records_per_s_low",
        "high": "limit_records_per_s_high",
    },
    "load_curve.csv": {"rate": "rate_records_per_s", "percent": "percent_of_kept_rate", "ms": "latency_ms"},
    "generator.csv": {
        "psi_cpu_some_avg10": "psi_cpu_some_avg10_percent", "psi_io_some_avg10": "psi_io_some_avg10_percent",
        "psi_memory_some_avg10": "psi_memory_some_avg10_percent",
    },
}  # fmt: skip

TABLES: Final[Mapping[str, str]] = {
    "cells.csv": "One row for each cell: its kind, its settings, and its figures.",
    "time.csv": "One row for each time bucket of a cell: records due, sent, acknowledged, received; latencies.",
    "latency_curves.csv": "The percentile spectrum of each latency of each cell, in the steps of HdrHistogram; the "
    "last row of each is the maximum.",
    "readers.csv": "Cells with several groups of readers: the end-to-end latency of each group.",
    "stages.csv": "Where the time goes: percentiles of each stage between sending and delivery.",
    "sets.csv": "Which records were predicted and observed as lost, duplicated or reordered, as ranges.",
    "generator.csv": "One row for each cell: whether the load generator and the host kept up.",
    "certificates.csv": "The ceilings of the load generator, measured against a broker that stores nothing.",
    "knobs.csv": "A sweep around a baseline: the values of each setting with their figures.",
    "price.csv": "What is carried against p99: with ceilings one row a configuration, else one row a sweep cell.",
    "effects.csv": "A sweep: the ratio of each value to the reference, by measure.",
    "interactions.csv": "A sweep: how far two settings together differ from the product of their effects.",
    "surface.csv": "A sweep: each configuration with its promise, its losses under faults, and its costs.",
    "sensitivity.csv": "A sweep: the smallest difference that it could have found.",
    "forks.csv": "A sweep on several clusters: how far they lie apart.",
    "behaviour.csv": "One row for each sweep cell: batches, requests, CPU, and what the client did.",
    "search.csv": "A rate search: each try, and after it the rate that is kept and the interval of the limit.",
    "load_curve.csv": "A rate search: latency at fractions of the rate that is kept.",
    "compare-BASE.csv": "`harness compare BASE RUN` writes it: what changed from BASE to this run.",
}  # fmt: skip

_MEASURE = "capacity, throughput, p99, broker_cpu or wire_bytes"
_LOW, _HIGH = "lower end of its 95 % interval", "upper end of its 95 % interval"
_LEVELS: Final = {"min": "minimum", **LEVELS}
COMMON: Final[Mapping[str, str]] = {
    "round": "number of the repetition, from 1",
    "settings": "the settings, NAME=VALUE",
    "capacity_records_per_s_low": _LOW,
    "capacity_records_per_s_high": _HIGH,
    "p99_ms": "99th percentile of corrected latency; with acks=0 of end-to-end latency",
    "p99_ms_low": _LOW,
    "p99_ms_high": _HIGH,
    "broker_cpu_us_per_record": "CPU of all brokers for each acknowledged record",
    "broker_cpu_us_per_record_low": _LOW,
    "broker_cpu_us_per_record_high": _HIGH,
    "wire_bytes_per_record": "bytes that the client sent for each record",
    "wire_bytes_per_record_low": _LOW,
    "wire_bytes_per_record_high": _HIGH,
    "measure": _MEASURE,
    "ratio": "value divided by reference",
    "low": _LOW,
    "high": _HIGH,
    "basis": "the data behind the figure, or behind its interval",
    "n": "number of samples",
    "failed": "sends that failed: they are in no percentile",
    "negative": "latencies below zero, because clocks disagree",
    "reader": "the group of readers, by its name in the workload",
    "consumers": "how many consumers share its partitions",
    "end_to_end_p99_us_low": _LOW,
    "end_to_end_p99_us_high": _HIGH,
    "records_per_batch_low": _LOW,
    "records_per_batch_high": _HIGH,
    "missing_corrected": "records due in the bucket that never were acknowledged",
    "missing_uncorrected": "the same",
    "missing_end_to_end": "records due in the bucket that never came, of each reader that was to get all",
    "t_us": "start of the bucket, microseconds since the run's zero",
    "intended": "records that were due in the bucket",
    "sent": "records handed to the client in it",
    "acked": "acknowledgements that came in it",
    "received": "records that consumers got in it",
    "quantile": "0 to 1",
    "count": "records at most as slow",
    "inverse": "1 / (1 - quantile), as HdrHistogram writes it",
    "latency_us": "latency at this quantile, microseconds",
    "clock_error_us": "how much a stage that begins on one load host and ends on another can be wrong, microseconds; a "
    "figure that is not above it is left out",
    "stage": "the stage, from one moment to another",
    "part": "both (predicted and observed), only_predicted, only_observed",
    "producer": "number of the producer in the cell",
    "incarnation": "grows when that producer is restarted",
    "first_seq": "first sequence number of the range",
    "last_seq": "last sequence number, which is in the range",
    "knob": "the setting",
    "value": "its value",
    "setting": "the setting",
    "reference": "the value that it is compared with",
    "judgement": "better, worse, negligible or not clear",
    "role": "baseline or changed",
    "safety": "what the settings promise",
    "contract": "what the settings promise",
    "on_front": "whether no other cell is better in one figure and no worse in the other",
    "on_front_share": "share of draws in which no other configuration beats it",
    "first": "first setting and value",
    "second": "second setting and value",
    "clear": 'whether the interval excludes "no interaction"',
    "inseparable": "pairs that this design cannot separate from it",
    "fault_cells": "cells under faults with the same promises",
    "lost_records": "lost in those cells",
    "duplicated_records": "duplicated in those cells",
    "reordered_records": "reordered in those cells",
    "lost_records_per_million": "lost, of a million sent under the fault that lost most; empty: no cell tells of loss",
    "duplicated_records_per_million": "the same of duplicates",
    "reordered_records_per_million": "the same of order",
    "clusters": "number of clusters",
    "rounds_on_each": "rounds on each cluster",
    "between_clusters_log_sd": "standard deviation between clusters, of ln(figure)",
    "within_a_cluster_log_sd": "standard deviation between rounds of one cluster, of ln(figure)",
    "cluster": "number of the cluster",
    "offset_log_ratio": "ln of this cluster's figure divided by the mean of all",
    "scatter_of_one_repetition_log_sd": "standard deviation of one repetition, of ln(figure)",
    "repetitions": "repetitions of each configuration",
    "smallest_effect_log_ratio": "ln of the smallest ratio that is found 4 times in 5",
    "repetitions_for_5_percent": "repetitions that an effect of 5 % would need; empty: more than 1,000",
    "state": "ok, or why the cell's figures are left out",
    "fill_share": "bytes of a batch, divided by batch.size",
    "records_per_request": "records of one Produce request",
    "requests_per_s": "Produce requests per second",
    "queue_ms": "time in the client's queue, linger included",
    "request_ms": "round trip of a Produce request",
    "retries": "requests that were sent again",
    "buffer_wait_ms": "time for which sends waited for memory of the client",
    "backpressure_sends": "sends that the client refused for space",
    "broker_cpu_without_compiler_us_per_record": "the same without the just-in-time compilers",
    "broker_cpu_log_standard_error": "standard error of ln(broker CPU) inside this one cell",
    "compiler_us_per_record": "CPU of the brokers' just-in-time compilers for each record",
    "collector_us_per_record": "CPU of the brokers' garbage collectors for each record",
    "client_cpu_us_per_record": "CPU of the load generator for each record",
    "id": "name of the certificate",
    "shape": "the load's shape",
    "records_per_s": "the rate that the generator reached",
    "window_s": "length of the measurement",
    "attempts": "how often it was measured",
    "cpu_share_busiest": "CPU of its busiest process, 1 is one core",
    "broker_cpu_share": "CPU of the broker that stores nothing, 1 is one core",
    "gc_ms": "garbage collection of the generator",
    "gc_ms_max": "its longest collection",
    "hub_lag_us_p99": "99th percentile of the delay of the generator's event loop, microseconds",
    "foreign_share": "CPU of all cores that other programs took",
    "steal_share": "CPU that other guests of the machine took",
    "disturbed": "whether other programs ran at the same time",
    "achieved_share": "records handed over, divided by those that were due",
    "ceiling_records_per_s": "the generator's own rate with this cell's settings; empty: not measured",
    "ceiling_share": "the cell's rate divided by that ceiling",
    "schedule_lag_us_p99": "99th percentile of hand-over minus intended time, microseconds",
    "schedule_lag_us_max": "its maximum, microseconds",
    "late_sends": "sends that were handed over late",
    "unsent": "records that were due and never handed over",
    "psi_cpu_some_avg10_percent": "the host's pressure stall information: time in which something waited for CPU",
    "psi_io_some_avg10_percent": "the same for the disk",
    "psi_memory_some_avg10_percent": "the same for memory",
    "mark": "why the cell is doubtful; empty if it is not",
    "try": "number of the try, from 1",
    "rate_records_per_s": "the rate that was tried",
    "kept_records_per_s": "after this try: the highest tried rate that one more try keeps with 95 % probability",
    "limit_records_per_s_low": "lower end of the 95 % interval of the rate that half of the tries keep",
    "limit_records_per_s_high": "upper end of the 95 % interval of the rate that half of the tries keep",
    "result": "kept or broken",
    "why": "which part of the contract was broken",
    "percent_of_kept_rate": "the rate in percent of the one that is kept; above 100 is more than that",
    "series": "which percentile",
    "latency_ms": "corrected latency",
    **{f"{level}_us": f"{words}, microseconds" for level, words in _LEVELS.items()},
    **{
        f"{kind}_{level}_us": f"{words}, microseconds, {about}"
        for kind, about in SPANS.items()
        for level, words in _LEVELS.items()
    },
}
CATALOGUED: Final = {figure.name: figure for figure in IN_CSV}  # a column of this name is the same figure in any file
SETTING_PREFIX: Final = "setting."  # cells.csv has one such column for each setting that a cell of the run has.
SETTING: Final = "the client's setting of this name, or the swept `workload.` or `topic.` value; empty if it is unset"
OWN: Final[Mapping[tuple[str, str], str]] = {
    ("latency_curves.csv", "kind"): "corrected, uncorrected, end_to_end or schedule_lag",
    ("readers.csv", "settings"): "the client settings that this group has for itself, NAME=VALUE",
    ("readers.csv", "max_us"): "maximum, microseconds, from the intended send time to the consumer's poll",
    ("readers.csv", "n"): "records that the group read, of those due in the measured window",
    ("sets.csv", "kind"): "lost, duplicated or reordered",
    (
        "price.csv",
        "figure",
    ): "which one is carried: `capacity` at the ceiling, or `throughput` at the rate that was asked",
    ("price.csv", "carried_records_per_s"): "that figure",
    ("price.csv", "carried_records_per_s_low"): f"{_LOW}; empty for throughput",
    ("price.csv", "carried_records_per_s_high"): f"{_HIGH}; empty for throughput",
    ("effects.csv", "value"): "the setting's value",
    ("forks.csv", "cluster"): "number of the cluster, from 1",
    ("compare-BASE.csv", "cell"): "the cell, or `whole run`",
    ("compare-BASE.csv", "measure"): "the figure that is compared",
    ("compare-BASE.csv", "unit"): "unit of `base` and `new`",
    ("compare-BASE.csv", "base"): "the figure in BASE, over its repetitions",
    ("compare-BASE.csv", "new"): "the figure in this run, over its repetitions",
    ("compare-BASE.csv", "ratio"): "new over base",
    ("compare-BASE.csv", "repetitions_base"): "repetitions in BASE",
    ("compare-BASE.csv", "repetitions_new"): "repetitions in this run",
    ("compare-BASE.csv", "p"): "probability of a change as large as this one between equals",
    ("compare-BASE.csv", "q"): "p, adjusted for all tests of its family",
    ("compare-BASE.csv", "result"): "better, worse, same or undecided",
    ("compare-BASE.csv", "reason"): "why it is that",
}


def written_name(file: str, name: str) -> str:
    """The column's name in the file, with its unit."""
    return RENAMED.get(file, {}).get(name, name)


def meaning(file: str, column: str) -> str:
    """Empty for a column without a description."""
    if file == "cells.csv" and column.startswith(SETTING_PREFIX):
        return SETTING
    return OWN.get((file, column)) or COMMON.get(column) or (CATALOGUED[column].about if column in CATALOGUED else "")


def columns_page(headers: Mapping[str, Sequence[str]]) -> str:
    """docs/reference/results-tables.md. `headers` by file, as they are written."""
    lines = [
        "# Tables of the results", "",
        "Each analysis writes these CSV files below `results/` of the run. It leaves out files without rows.",
        "`harness compare` adds the last one. The names of the columns have the units. An empty field means that the",
        "run does not show the figure. `inf` means that a percentile is not reached: it falls on records that never",
        "were acknowledged, or never read. [The analysis](../guide/analysis.md#ask-the-run-log-yourself) says how to",
        "read the files with pandas, DuckDB and Spark.", "",
        "This page is written by `python -m tests.reports.csv_headers > docs/reference/results-tables.md`.",
    ]  # fmt: skip
    for file, about in TABLES.items():
        lines += ["", f"## {file}", "", about, ""]
        names = [name for name in headers[file] if not name.startswith(SETTING_PREFIX)]
        if file == "cells.csv":
            lines += ["| column | unit | meaning | from |", "|---|---|---|---|"]
            figures = [CATALOGUED[name] for name in names]
            lines += [f"| `{one.name}` | {one.unit} | {one.about} | {one.rows} |" for one in figures]
            lines.append(f"| `{SETTING_PREFIX}<name>` | | {SETTING} | cell.json |")
        else:
            lines += ["| column | meaning |", "|---|---|"]
            lines += [f"| `{name}` | {meaning(file, name)} |" for name in names]
    return "\n".join(lines) + "\n"
