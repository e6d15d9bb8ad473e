"""The published JSON Schema of results/verdicts.json, for programs that read a run: `harness schema verdicts`.

The record is runlog/records/verdicts.py. Every object is closed: if a figure is added and not described here,
tests/reports/test_reports_results_schema.py fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reports.judge.anomalies import BY_NAME
from reports.judge.catalogue import IN_JSON
from reports.judge.figure import Figure, Kind
from reports.read.model import LATENCY_KINDS, PREDICTED_KINDS, QUANTILES, SET_KINDS
from runlog.records.holes import HoleKind
from runlog.records.verdicts import VERDICTS_VERSION, LimitOutcome

Schema = dict[str, Any]  # a JSON Schema is any JSON
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_TEXT: Final[Schema] = {"type": "string"}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}
_BOOLEAN: Final[Schema] = {"type": "boolean"}
_NUMBER_OR_NULL: Final[Schema] = {"type": ["number", "null"]}
_TEXT_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
_KINDS: Final[Mapping[Kind, Schema]] = {
    Kind.COUNT: _COUNT, Kind.COUNT_OR_NULL: {"type": ["integer", "null"], "minimum": 0},
    Kind.NUMBER: {"type": "number"}, Kind.NUMBER_OR_NULL: _NUMBER_OR_NULL, Kind.NUMBER_IF_KNOWN: {"type": "number"},
}  # fmt: skip
_RESULT: Final[Schema] = {"enum": ["pass", "fail", "inconclusive"]}
_INTERVAL: Final[Schema] = {
    "type": ["array", "null"], "items": {"type": "number"}, "minItems": 2, "maxItems": 2,
    "description": "95 %: low, high",
}  # fmt: skip


def verdicts_schema() -> Schema:
    run = {"run_id": _TEXT_OR_NULL, "engine": _TEXT_OR_NULL, "seed": _NUMBER_OR_NULL, "t0_wall": _TEXT_OR_NULL,
           "versions": {"type": ["object", "null"]}, "notes": _TEXTS,
           "problems": _about(_TEXTS, "of the run as a whole, which is no pass then")}  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "results/verdicts.json",
        **_closed(
            {
                "schema_version": {"const": VERDICTS_VERSION},
                "analysis": _closed({"id": _about(_TEXT, "which analysis wrote this"), "written_at": _TEXT}),
                "run": _closed(run),
                "reading": _reading(),
                "limits": {"type": "array", "items": _run_limit()},
                "cells": {"type": "array", "items": {"$ref": "#/$defs/cell"}},
                "verdict": _RESULT,
                "exit_code": {"enum": [0, 1, 4]},
            }
        ),
        "$defs": {"cell": _cell(), "set": _set(), "comparison": _comparison(), "latency": _latency()},
    }


def _closed(properties: Schema, *, optional: Sequence[str] = ()) -> Schema:
    """All fields are there, and no others. `optional`: those that are left out if they have no value."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _about(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _hole() -> Schema:
    return _closed(
        {
            "kind": {"enum": [kind.value for kind in HoleKind]},
            "what": _TEXT,
            "where": _TEXT,
            "producers": _about({"type": "array", "items": _COUNT}, "whose sends may be missing; empty: of any"),
        }
    )


def _cell() -> Schema:
    counts = ("sent", "acked", "failed", "unknown")
    return _closed(
        {
            "cell_id": _TEXT,
            "title": _TEXT,
            "kind": {"enum": ["sweep", "chaos", "search", "ceiling"]},
            "client": _TEXT,
            "scenario": _TEXT_OR_NULL,
            "case": _TEXT_OR_NULL,
            "verdict": _RESULT,
            "reasons": _about(_TEXTS, "why it is not a pass; of a pass, what was shown"),
            "notes": _TEXTS,
            "holes": _about({"type": "array", "items": _hole()}, "of its evidence; what rests on them is inconclusive"),
            "checks": {"type": "array", "items": _closed({"name": _TEXT, "result": _RESULT, "reason": _TEXT})},
            "limits": {"type": "array", "items": _limit()},
            "throughput_interval": _INTERVAL,
            "throughput_basis": {"enum": ["acknowledged", "found in the log"]},
            "latency_us": _closed(
                {
                    **{kind: {"$ref": "#/$defs/latency"} for kind in LATENCY_KINDS},
                    "end_to_end_clock_error": _about(
                        _NUMBER_OR_NULL,
                        "how far end-to-end latencies between two load hosts can be wrong; those that are not above it "
                        "are null; null: no record went from one host to another, or no bound is known, and then no "
                        "latency is shown",
                    ),
                }
            ),
            "in_window": _closed(dict.fromkeys(counts, _COUNT)),
            "anomalies": {
                "type": "object", "propertyNames": {"enum": sorted(BY_NAME)}, "additionalProperties": _COUNT,
                "description": "those that were seen; `harness list` and docs/reference/lawful.md say what each is",
            },
            "recovery": {"anyOf": [{"type": "null"}, _recovery()]},
            "observed_sets": _closed({kind: {"$ref": "#/$defs/set"} for kind in SET_KINDS}),
            "predicted": _closed({kind: {"$ref": "#/$defs/comparison"} for kind in PREDICTED_KINDS}),
            **{figure.name: _figure(figure) for figure in IN_JSON},
        },
        optional=[figure.name for figure in IN_JSON if figure.is_left_out],
    )  # fmt: skip


def _figure(figure: Figure) -> Schema:
    unit = f", in {figure.unit}" if figure.unit else ""
    return _about(_KINDS[figure.kind], f"{figure.about}{unit}")


def _reading() -> Schema:
    tally = {"limit": _TEXT, "held": _COUNT, "broken": _COUNT, "undecided": _COUNT}
    return _closed(
        {
            "damage": _about(_TEXTS, "what was damaged and why, and what kept every record"),
            "safety_cost": _about(_TEXTS, "acks=all against acks=1, a figure each; none without both"),
            "highest_rate": _about(_TEXT, "what a rate search found; empty without one"),
            "recommendation": _about(_TEXTS, "sentences; none without a sweep"),
            "properties": _about(_TEXT, "the recommended client's configuration file; empty if there is none"),
            "warnings": _about(_TEXTS, "what changes how to read the figures"),
            "limits": {"type": "array", "items": _closed(tally)},
        }
    )


def _run_limit() -> Schema:
    """A limit for several cells, or for the run itself."""
    about = "the configuration (the id of its cells without the repetition), or run"
    allowed = _about(_TEXT, "by which allowance a broken limit is a pass for now; empty: by none")
    return _closed(
        {"subject": _about(_TEXT, about), **_limit()["properties"], "result": _RESULT, "allowed": allowed},
        optional=("clock_error",),
    )


def _limit() -> Schema:
    """A limit of the suite: each is among the checks too."""
    return _closed(
        {
            "limit": _about(_TEXT, "as the suite has it: p99_ms <= 50"),
            "figure": _about(_TEXT, "docs/reference/limits.md; empty if this version does not know it"),
            "value": _about(_NUMBER_OR_NULL, "in the figure's unit; null: not known, or without an end"),
            "bound": _about(_NUMBER_OR_NULL, "in the figure's unit; null: the baseline's cell does not show it"),
            "outcome": {"enum": [outcome.value for outcome in LimitOutcome]},
            "reason": _TEXT,
            "clock_error": _about(
                {"type": "number"},
                "in the figure's unit: value can be wrong by so much, because it spans the clocks of two hosts",
            ),
        },
        optional=("clock_error",),
    )


def _recovery() -> Schema:
    since = {
        "detect_us": "process_fault, else from the fault",
        "elect_us": "process_fault, else from the fault",
        "first_ack_us": "the fault",
        "recover_us": "the fault",
    }
    return _closed(
        {
            "fault": _TEXT,
            "fault_us": {"type": "integer"},
            "process_fault": _about(
                _TEXT, "the later fault that ended or paused a process; empty if the first did, or none"
            ),
            "process_fault_us": _about({"type": "integer"}, "since the run's zero of time"),
            **{name: _about(_NUMBER_OR_NULL, f"from {what} on; null: not seen") for name, what in since.items()},
            "area_record_seconds": _NUMBER_OR_NULL,
            "service_level_records_per_s": _NUMBER_OR_NULL,
            "clock_error_us": _about(
                {"type": "number"},
                "with load hosts: first_ack_us and recover_us can be wrong by so much, and are null if not above it",
            ),
        },
        optional=("process_fault_us", "clock_error_us"),
    )


def _latency() -> Schema:
    why_null = "null: the sample does not carry it, or it is among not_reached"
    quantiles = {name: _about(_NUMBER_OR_NULL, why_null) for name, _ in QUANTILES}
    unanswered = _about(_COUNT, "never acknowledged, never read or never sent: they are slower than those n")
    interval = {
        "type": ["array", "null"], "prefixItems": [{"type": "number"}, _NUMBER_OR_NULL], "minItems": 2, "maxItems": 2,
        "description": "95 %: low, high; high is null if it is not reached",
    }  # fmt: skip
    not_reached = {
        "type": "array", "items": {"enum": [name for name, _ in QUANTILES]},
        "description": "percentiles that fall on records which never were acknowledged, or never read: infinite",
    }  # fmt: skip
    return _closed(
        {
            **quantiles,
            "max": _NUMBER_OR_NULL,
            "mean": _NUMBER_OR_NULL,
            "n": _COUNT,
            "unanswered": unanswered,
            "p99_interval": interval,
            "not_reached": not_reached,
            "answered_share": _about({"type": "number"}, "n of n and unanswered; missing: nothing was measured"),
        },
        optional=("answered_share",),
    )


def _set() -> Schema:
    return _closed(
        {
            "count": _COUNT,
            "hash": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
            "ranges": _about(_TEXTS, "producer/incarnation/sequence, or first-last with both ends"),
            "ranges_complete": _BOOLEAN,
        }
    )


def _comparison() -> Schema:
    names = ("predicted", "observed", "both", "only_predicted", "only_observed")
    sets = _closed({name: {"$ref": "#/$defs/set"} for name in names})
    return _closed(
        {
            "expected": _about(
                {"enum": ["none", "predicted", "exact", "any"]}, "any: it is allowed, and held against no prediction"
            ),
            **dict.fromkeys(names, _COUNT),
            "how": _TEXT,
            "equal": _BOOLEAN,
            "sets": sets,
        }
    )
