"""Runs trials with real processes, or reads a run of them, and says what caught each.

Shown by tests/harness/test_harness_mutation.py.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from io import StringIO
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

from chaos.lease import default_root
from harness.cli.load.chaos_suites import chaos_suite
from harness.mutation.trials import Trial
from harness.plan import build_plan
from harness.planned_cell import PlannedCell
from harness.run.orchestrator import Run
from harness.run.report.reporting import make_report
from harness.run.report.spark_choice import THIS_HOST
from harness.run.request import RunRequest
from harness.scenarios import cases_of
from harness.terminal.progress import Progress
from harness.terminal.signals import StopFlag, signals_set
from runlog.records.results import read_verdicts
from runlog.records.verdicts import CellVerdict, Result

BUGGY_CLIENTS: Final = Path("examples/buggy-clients")
SEED: Final = 7
# No cluster comes up with this mutant. Nobody would ship it, but no scenario has caught it either.


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    """`by`: the failed checks of the cell, empty if it passed. `verdict` as in verdicts.json."""

    trial: Trial
    verdict: str
    by: tuple[str, ...]
    reason: str


def scenario_text(trial: Trial) -> str:
    """The scenario's YAML with one case, one engine, and what the trial lays over it."""
    yaml = YAML(pure=True)
    yaml.width = 4096
    text = (resources.files("chaos") / "scenarios" / f"{trial.scenario}.yaml").read_text(encoding="utf-8")
    document = yaml.load(text)
    case = document["cases"][trial.case]
    document |= {"name": trial.name, "engines": ["reference"], "clients": [], "cases": {trial.case: case}}
    if trial.mutant:
        document["broker_settings"] = {**document.get("broker_settings", {}), "harness.mutant": trial.mutant}
    document["workload"] = {**document.get("workload", {}), **trial.workload}
    if trial.reader:
        first = document["workload"]["readers"][0]
        properties = {**first.get("properties", {}), **trial.reader.get("properties", {})}
        document["workload"]["readers"][0] = {**first, **trial.reader, "properties": properties}
    case["topic_config"] = {**case.get("topic_config", {}), **trial.topic_config}
    case["properties"] = {**case.get("properties", {}), **trial.properties}
    out = StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def hunt(trials: Sequence[Trial], run_dir: Path, directory: Path) -> list[Caught]:
    """One run of all trials, each with its own client. HarnessError when it could not be carried out."""
    cells: list[PlannedCell] = []
    paths: list[str] = []
    for trial in trials:
        path = directory / f"{trial.name}.yaml"
        path.write_text(scenario_text(trial), encoding="utf-8")
        paths.append(str(path))
        cells += build_plan(chaos_suite([str(path)], [], []), cases_of, seed=SEED, client=trial.client)
    request = RunRequest(
        suite=chaos_suite(paths, [], []),
        cells=tuple(cells),
        engine="reference",
        client=", ".join(sorted({trial.client for trial in trials})),
        seed=SEED,
        proxy_choice="auto",
        bootstrap_servers=None,
        run_dir=run_dir,
        argv=(),  # no command of `harness` does this
        certify=False,  # no figure of these cells is looked at
    )
    run_dir.mkdir(parents=True)
    stop, progress = StopFlag(), Progress(len(cells))
    with signals_set(stop):
        Run(request, stop=stop, progress=progress, lease_root=default_root(os.environ)).execute()
        verdicts = make_report(run_dir, spark=THIS_HOST, allow=None, stop=stop, progress=progress)
    found = {cell.cell_id: cell for cell in verdicts.cells}
    return [_caught(trial, found.get(cell.cell_id)) for trial, cell in zip(trials, cells, strict=True)]


def read_run(trials: Sequence[Trial], run_dir: Path) -> list[Caught]:
    """The trials of a run that is there already; those that it does not have are left out."""
    found = {cell.cell_id: cell for cell in read_verdicts(run_dir).cells}
    names = [(trial, f"chaos-{trial.name}-{trial.case}") for trial in trials]
    return [_caught(trial, found[name]) for trial, name in names if name in found]


def make_buggy_clients_known(directory: Path) -> None:
    """The entry points of examples/buggy-clients, as an installation of it would leave them, for us and our children.

    ValueError outside a checkout.
    """
    if not BUGGY_CLIENTS.is_dir():
        raise ValueError(f"{BUGGY_CLIENTS} is not here: run this at the root of a checkout")
    project = tomllib.loads((BUGGY_CLIENTS / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = directory / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    paths = [str(directory), str(BUGGY_CLIENTS.resolve())]
    sys.path[:0] = paths
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])


def _caught(trial: Trial, cell: CellVerdict | None) -> Caught:
    if cell is None:
        return Caught(trial=trial, verdict="not run", by=(), reason="the cell did not begin")
    failed = [check for check in cell.checks if check.result is Result.FAIL]
    return Caught(
        trial=trial,
        verdict=cell.verdict.value,
        by=tuple(check.name for check in failed),
        reason=failed[0].reason if failed else next(iter(cell.reasons), ""),
    )
