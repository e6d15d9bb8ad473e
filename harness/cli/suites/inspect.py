"""`harness validate`, `list` and `schema`: list suites and faults, and check files, without starting anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from chaos.faults import FAULTS
from chaos.model import Scenario, builtin_scenarios
from harness.cli.planning.plan_text import counted, counted_cells, extra_cells
from harness.cli.planning.speed_note import default_engine, speed_note
from harness.cli.suites.fault_words import fault_lines
from harness.clusters.secured.access import check_security
from harness.errors import ExitCode, UsageError
from harness.kafka_releases import DEFAULT, OLDEST
from harness.lint import findings_of
from harness.plan import build_plan, first_try
from harness.replicas import check_replicas
from harness.sasl_without_effect import check_mechanism
from harness.scenarios import cases_of, load_scenario
from harness.setting_places import check_scenario_settings, check_settings
from harness.settings_alone import validated
from harness.suite import Suite, builtin_suites, find_source, load_suite
from harness.suite_source import nearest
from harness.terminal.tables import Column, print_fitting, stdout_width, table_lines, wrapped_line
from reports.judge.allowances import allowance_schema
from reports.render.results_schema import verdicts_schema
from runlog.streams.schema import SCHEMA_VERSION, STREAMS
from workloads.clients import client_names, describe

CLUSTERS = {
    "reference": "broker processes of this project, started and stopped by the harness",
    "docker": "the same brokers, each in a container on a network of its own",
    "kafka": f"Apache Kafka {DEFAULT} nodes, jars by Maven, no Docker; kafka==3.9.1 and other releases since "
    f"{OLDEST.major}.{OLDEST.minor}",
    "external": "somebody else's cluster by --bootstrap-server; faults on its clients' links, or with --fault-hosts",
}

_TEXTS: Final = ("cases", "title", "description", "parameters", "what")


def validate_files(names: Sequence[str]) -> ExitCode:
    """All files are looked at; each problem goes to stderr, `ok` to stdout."""
    code = ExitCode.PASS
    for name in names:
        try:
            print_fitting(f"{name}: {_describe(name)}", hanging=2)
        except UsageError as error:
            print_fitting(f"harness: {error}", to_stderr=True, hanging=2)
            code = ExitCode.USAGE
    return code


def _describe(name: str) -> str:
    if name in builtin_scenarios() and name not in builtin_suites():
        scenario = load_scenario(name)
        return f"ok, scenario with {counted(len(scenario.cases), 'case')}"
    source = find_source(name)
    if "timeline" in source.data or "swarm" in source.data:
        scenario = validated(source, Scenario)
        check_scenario_settings(source, scenario)
        return f"ok, scenario with {counted(len(scenario.cases), 'case')}"
    suite = load_suite(name)
    client, sweep_client = suite.client, suite.sweep_client
    cells = build_plan(suite, cases_of, seed=suite.seed, client=client, sweep_client=sweep_client)
    is_own = suite.has_own_cluster
    tries = first_try(suite, client)
    check_settings(source, client, [*cells, *tries], sweep_client=sweep_client, has_own_broker=is_own)
    check_replicas(suite, [*cells, *tries])
    check_mechanism(suite, [*cells, *tries])
    if not is_own:
        for cell in cells:
            check_security(cell.security, "external")
    for finding in findings_of(suite, cells, is_own_cluster=is_own):
        print_fitting(f"lint: {name}: {finding.text()}", to_stderr=True, hanging=2)
    engine = default_engine([suite], has_address=True)
    if note := speed_note(suite, engine, sweep_client):
        print_fitting(f"note: {name}: {note}", to_stderr=True, hanging=2)
    extra = extra_cells(suite)
    return f"ok, suite with {counted_cells(len(cells))}" + (f" and a rate search of at most {extra}" if extra else "")


def list_things(what: str, *, as_json: bool, name: str | None = None) -> None:
    """`name`: the one fault that is to be explained."""
    if name is not None:
        if what != "faults":
            raise UsageError(f"list {what} {name}: only a fault is explained so, `harness list faults NAME`")
        for line in fault_lines(name):
            is_yaml = line.lstrip().startswith("- {")  # somebody may copy it, so it is never broken into lines
            print(line if is_yaml else "\n".join(wrapped_line(line, stdout_width())))
        return
    tables: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "scenarios": _scenarios,
        "suites": _suites,
        "faults": _faults,
        "clients": lambda: [{"name": name, "from": describe(name)} for name in client_names()],
        "clusters": lambda: [{"name": name, "what": text} for name, text in CLUSTERS.items()],
    }
    if what not in tables:
        raise UsageError(f"list {what}: nothing of that name to list{nearest(what, list(tables))}")
    rows = tables[what]()
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for line in list_lines(rows, stdout_width()):
        print(line)


def list_lines(rows: Sequence[Mapping[str, Any]], width: int | None) -> list[str]:
    """Words to the left, figures to the right; nothing is cut, whatever the width."""
    columns = [
        Column(heading=name, is_figure=isinstance(value, int), is_text=name in _TEXTS)
        for name, value in (rows[0] if rows else {"name": ""}).items()
    ]
    return table_lines(columns, [[str(value) for value in row.values()] for row in rows], width)


def _scenarios() -> list[dict[str, Any]]:
    found = [load_scenario(name) for name in builtin_scenarios()]
    return [
        {"name": item.name, "damage": item.damage, "cases": ", ".join(item.cases), "title": item.title}
        for item in found
    ]


def _suites() -> list[dict[str, Any]]:
    found = [load_suite(name) for name in builtin_suites()]
    return [
        {
            "name": suite.name,
            "cells": len(build_plan(suite, cases_of, seed=suite.seed, client=suite.client)) + extra_cells(suite),
            "description": suite.description,
        }
        for suite in found
    ]


def _faults() -> list[dict[str, Any]]:
    return [
        {"name": name, "target": spec.default_target, "parameters": ", ".join(spec.parameters)}
        for name, spec in FAULTS.items()
    ]


def print_schema(what: str) -> None:
    written = {"allowances": allowance_schema, "verdicts": verdicts_schema}
    if what in written:
        print(json.dumps(written[what](), indent=2))
        return
    if what == "runlog":
        streams = {
            name: [
                {"name": column.name, "type": column.arrow_type, "meaning": column.meaning} for column in stream.columns
            ]
            for name, stream in STREAMS.items()
        }
        print(json.dumps({"schema_version": SCHEMA_VERSION, "streams": streams}, indent=2))
        return
    models: dict[str, Any] = {"suite": Suite, "scenario": Scenario}
    if what not in models:
        known = [*models, "runlog", *written]
        raise UsageError(f"schema {what}: no such schema{nearest(what, known)}")
    schema = models[what].model_json_schema(by_alias=True)
    print(json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2))
