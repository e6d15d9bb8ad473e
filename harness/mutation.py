"""`python -m harness.mutation brokers|clients [NAME ...]`: runs the chaos scenarios over wrong brokers, or over buggy
clients.

A trial is one case of a scenario of the package, with the same faults and load, but with brokers that have
`harness.mutant=NAME`, or with a client of examples/buggy-clients. All trials are one run of real processes. If the
verdict of a trial fails, the mutant is caught. The tables stand between markers in docs/internals/checker.md. Exit code
1 if a mutant lives.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from io import StringIO
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from broker.mutants import MUTANTS, description
from chaos.lease import default_root
from harness.cli.chaos_suites import chaos_suite
from harness.errors import ExitCode
from harness.plan import PlannedCell, build_plan
from harness.run.orchestrator import Run, RunRequest
from harness.run.progress import Progress
from harness.run.reporting import make_report
from harness.run.stop import StopFlag, signals_set
from harness.scenarios import cases_of
from workloads.clients import library

TABLES: Final = Path("docs/internals/checker.md")
BUGGY_CLIENTS: Final = Path("examples/buggy-clients")
SEED: Final = 7
MARKERS: Final = {kind: (f"<!-- {kind}: begin -->", f"<!-- {kind}: end -->") for kind in ("brokers", "clients")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One case of one scenario, with the changes that are needed so that the mutant shows."""

    scenario: str
    case: str
    mutant: str = ""  # of the brokers
    client: str = "reference"
    workload: Mapping[str, Any] = field(default_factory=dict)  # Any: as in the scenario's YAML
    topic_config: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    reader: Mapping[str, Any] = field(default_factory=dict)  # of the first reader group

    @property
    def subject(self) -> str:
        return self.mutant or self.client

    @property
    def name(self) -> str:
        return f"{self.subject.replace('_', '-')}-{self.scenario}"

    @property
    def overlay(self) -> str:
        reader = {**self.reader, **self.reader.get("properties", {})}
        reader.pop("properties", None)
        changed = {**self.workload, **self.topic_config, **self.properties, **reader}
        return "".join(f", {name}: {value}" for name, value in changed.items())


# Any of a mutant's trials may catch it.
BROKER_TRIALS: Final = (
    Trial(mutant="aborted_transactions_not_told", scenario="copier-vanishes", case="timed-out", client="confluent"),
    Trial(mutant="acknowledge_before_replication", scenario="leader-loss", case="acks-all"),
    Trial(mutant="commit_by_majority", scenario="lagging-heir", case="acks-all"),
    Trial(mutant="commits_not_replicated", scenario="coordinator-loss", case="commit-after", client="confluent"),
    Trial(mutant="controller_answers_before_commit", scenario="isolated-controller", case="acks-all"),
    Trial(mutant="crc_ignored_on_append", scenario="topic-vanishes", case="idempotent"),
    Trial(mutant="crc_ignored_on_recovery", scenario="bit-flip", case="acks-all"),
    Trial(mutant="expansion_without_catching_up", scenario="returning-follower", case="acks-all"),
    Trial(mutant="fetch_counts_before_it_is_stored", scenario="slow-replication", case="acks-all"),
    Trial(mutant="fetch_session_forgets_who_must_join", scenario="idle-partitions", case="acks-all"),
    # Followers make progress whenever one of them falls out of the ISR. The cell is longer than that, so that the
    # silence in between shows.
    Trial(mutant="fetch_session_keeps_the_offset", scenario="control", case="acks-all", workload={"measure_ms": 10000}),
    Trial(mutant="first_sequence_anything", scenario="first-batch-refused", case="in-flight-5-idempotent"),
    Trial(mutant="flush_ignored", scenario="power-loss-last", case="flush-each"),
    Trial(mutant="generation_not_checked", scenario="consumer-pause", case="commit-after", client="confluent"),
    Trial(mutant="high_watermark_falls", scenario="follower-cut", case="acks-all"),
    Trial(mutant="high_watermark_ignored", scenario="leader-loss", case="acks-1", workload={"consumers": 1}),
    Trial(mutant="isr_never_shrinks", scenario="follower-cut", case="acks-all"),
    Trial(mutant="last_stable_offset_ignored", scenario="copier-vanishes", case="timed-out", client="confluent"),
    Trial(mutant="leader_epoch_kept", scenario="leader-loss", case="acks-1"),
    Trial(mutant="marker_lost", scenario="markers-late", case="prepared", client="confluent"),
    Trial(mutant="metadata_log_not_truncated", scenario="isolated-controller", case="acks-all"),
    Trial(mutant="min_insync_replicas_ignored", scenario="isr-shrunk-clean", case="min-isr-2"),
    Trial(
        mutant="partition_given_before_release",
        scenario="rebalance-storm-consumer-protocol",
        case="consumer-protocol",
        client="confluent",
    ),
    Trial(mutant="producer_epoch_ignored", scenario="copier-twin", case="fenced", client="confluent"),
    Trial(mutant="producer_state_lost", scenario="all-killed", case="idempotent"),
    Trial(mutant="sequences_not_checked", scenario="response-lost", case="idempotence-on"),
    Trial(mutant="snapshot_without_configs", scenario="rolling-restart", case="acks-all"),
    Trial(mutant="transaction_never_times_out", scenario="copier-vanishes", case="timed-out", client="confluent"),
    Trial(mutant="transactional_offsets_at_once", scenario="copier-vanishes", case="timed-out", client="confluent"),
    Trial(mutant="truncation_never", scenario="leader-loss", case="acks-1"),
    Trial(mutant="truncation_to_high_watermark", scenario="double-failover", case="epochs"),
    Trial(mutant="unclean_election_always", scenario="isr-shrunk-clean", case="min-isr-1"),
    Trial(mutant="vote_for_a_shorter_log", scenario="isolated-voter", case="acks-all"),
)
CLIENT_TRIALS: Final = (
    Trial(client="buggy_early_callback", scenario="leader-kill", case="acks-all-idempotent"),
    Trial(client="buggy_certain_failure", scenario="response-lost", case="idempotence-on"),
    Trial(client="buggy_retry_at_the_end", scenario="request-refused", case="in-flight-5-idempotent"),
    # The broker takes it for a repetition only if both batches have the same number of records. So batches are small
    # and full.
    Trial(
        client="buggy_sequence_reused",
        scenario="response-lost",
        case="idempotence-on",
        properties={"batch.size": 1024},
    ),
    Trial(client="buggy_skips_on_rebalance", scenario="consumer-kill", case="auto-commit"),
    # More than the members can do, so that polls grow. Then the kill comes in the middle of one, long after its commit.
    Trial(
        client="buggy_commits_what_it_polled",
        scenario="consumer-kill",
        case="auto-commit",
        workload={"rate_per_s": 300, "drain_ms": 60000},
        reader={"processing_us": 15000, "properties": {"auto.commit.interval.ms": 300}},
    ),
    Trial(client="buggy_forgets_to_commit", scenario="consumer-kill", case="auto-commit"),
    Trial(client="buggy_offsets_first", scenario="copier-vanishes", case="timed-out"),
    Trial(client="buggy_offsets_apart", scenario="copy-loop", case="bounces"),
)
# Mutants that no timeline with real clocks can show reliably, and why. The simulation's table has each of them.
SIMULATED_ONLY: Final[Mapping[str, str]] = {
    "memory_before_disk": "a voter has to die, or its disk to fail, between what it says and what it writes",
    "swallow_quorum_io_error": "no fault of a scenario makes the quorum's files fail yet",
    "offline_replica_elected": "the elected broker tells again with its next heartbeat, and clients retry",
    "forgotten_producer_refused": "a producer has to be idle for producer.id.expiration.ms, a day",
    "rot_cut_as_a_torn_tail": "no fault of a scenario damages the metadata log",
    "stray_kept": "no scenario deletes a topic while a broker is down",
    "swap_undone": "no scenario kills a broker in the middle of a compaction",
    "elements_not_limited": "no client of a scenario asks for tens of thousands of things at once",
    "partitions_opened_at_once": "no scenario makes a topic of very many partitions",
    "recovery_on_the_loop": "logs of a scenario are small: their recovery takes less than a session",
    "log_start_not_followed": "no scenario deletes records",
    "segment_directory_not_synced": "the loss of power takes what came after a file's last fsync, and knows of no file "
    "whose name was never synced",
    "read_error_fails_the_fetch": "no scenario makes one log of several unreadable yet",
    "old_image_believed": "it takes two brokers that come back with old metadata and find each other before either "
    "hears the controller, a window of milliseconds",
    "directory_not_synced": "the loss of power takes what came after a file's last fsync, and does not bring back the "
    "file that a name stood for",
    "leader_epoch_not_checked": "a request of another epoch has to meet a leader in the milliseconds before it hears "
    "of its own; a follower's log is compared by its epochs as well (tried in truncation-seen, in vain)",
    "metadata_log_not_synced": "the loss of power takes what came after a file's last fsync, and knows of no file that "
    "was never synced",
    "two_votes_in_one_epoch": "two voters must become candidates within the time that a message takes (tried in "
    "ring-and-bridge, in vain)",
    "unsynced_segments_trusted": "the loss of power shortens files, and a file that does not fit its index is noticed "
    "without a scan; it takes content that is wrong at the right length (tried in power-loss-follower, in vain)",
    "fetch_session_keeps_the_high_watermark": "a follower's high watermark counts when it leads, and the next batch "
    "has told it by then; what it lacks at the end no scenario asks",
    "broker_epoch_ignored": "a fetch of a broker's earlier life has to come after the broker has registered anew",
    "commit_of_earlier_epoch": "figure 8 of the Raft paper: leaders in a row, each of which dies at a chosen entry",
    "partition_epoch_ignored": "an AlterPartition has to come after a change of the partition that its sender missed",
    "vote_not_persisted": "a voter has to die right after its vote, while another candidate stands in the same epoch",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    """`by`: the failed checks of the cell, empty if it passed. `verdict` as in verdicts.json."""

    trial: Trial
    verdict: str
    by: tuple[str, ...]
    reason: str


# No cluster comes up with this mutant. Nobody would ship it, but no scenario has caught it either.
_LIVES: Final = re.compile(r"\*\*lives\*\* \((.*)\)")
_NOT_RUN: Final[Mapping[str, Any]] = {"verdict": "not run", "checks": (), "reasons": ("the cell did not begin",)}


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
        argv=("mutation",),
        certify=False,  # no figure of these cells is looked at
    )
    run_dir.mkdir(parents=True)
    stop, progress = StopFlag(), Progress(len(cells))
    with signals_set(stop):
        Run(request, stop=stop, progress=progress, lease_root=default_root(os.environ)).execute()
        verdicts = make_report(run_dir, spark_master=None, allow=None, stop=stop, progress=progress)
    found = {str(cell["cell_id"]): cell for cell in verdicts["cells"]}
    pairs = zip(trials, cells, strict=True)
    return [_caught(trial, found.get(cell.cell_id, _NOT_RUN)) for trial, cell in pairs]


def read_run(trials: Sequence[Trial], run_dir: Path) -> list[Caught]:
    """The trials of a run that is there already; those that it does not have are left out."""
    verdicts = json.loads((run_dir / "results" / "verdicts.json").read_text(encoding="utf-8"))
    found = {str(cell["cell_id"]): cell for cell in verdicts["cells"]}
    names = [(trial, f"chaos-{trial.name}-{trial.case}") for trial in trials]
    return [_caught(trial, found[name]) for trial, name in names if name in found]


def read_table(document: str, kind: str, trials: Sequence[Trial]) -> list[Caught]:
    """The trials as a page's table has them; rows of what is no trial (any more) are left out."""
    begin, end = MARKERS[kind]
    known = {(trial.subject, _where(trial)): trial for trial in trials}
    found = []
    for line in document.partition(begin)[2].partition(end)[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if len(cells) != 4 or (trial := known.get((cells[0].strip("`"), cells[2]))) is None:
            continue
        lives = _LIVES.fullmatch(cells[3])
        verdict, by = (lives[1], ()) if lives else ("fail", tuple(cells[3].split("; ")))
        found.append(Caught(trial=trial, verdict=verdict, by=by, reason="as the table has it"))
    return found


def _caught(trial: Trial, cell: Mapping[str, Any]) -> Caught:
    failed = [check for check in cell["checks"] if check["result"] == "fail"]
    return Caught(
        trial=trial,
        verdict=str(cell["verdict"]),
        by=tuple(str(check["name"]) for check in failed),
        reason=str((failed[0] if failed else {"reason": (cell.get("reasons") or [""])[0]})["reason"]),
    )


def table(kind: str, found: Sequence[Caught]) -> str:
    """Markdown, between the markers."""
    begin, end = MARKERS[kind]
    is_brokers = kind == "brokers"
    simulated = SIMULATED_ONLY if is_brokers else {}
    subjects = {each.trial.subject for each in found} | set(simulated)
    dead = {each.trial.subject for each in found if each.by}
    lines = [
        begin,
        "",
        f"{len(dead)} of {len(subjects)} fail a scenario that a sound one passes. Written by "
        f"`python -m harness.mutation {kind}` (`make mutants-real`).",
        "",
        "| mutant | what is wrong | scenario | caught by |",
        "|---|---|---|---|",
    ]
    for each in sorted(found, key=lambda each: each.trial.name):
        trial = each.trial
        by = "; ".join(each.by) or f"**lives** ({each.verdict})"
        lines.append(f"| `{trial.subject}` | {what_is_wrong(trial)} | {_where(trial)} | {by} |")
    lines += [
        f"| `{name}` | {description(name)} | in the simulation only | {reason} |" for name, reason in simulated.items()
    ]
    return "\n".join([*lines, "", end]) + "\n"


def _where(trial: Trial) -> str:
    return f"{trial.scenario}, {trial.case}{trial.overlay}"


def what_is_wrong(trial: Trial) -> str:
    if trial.mutant:
        return description(trial.mutant)
    document = type(library(trial.client)).__doc__ or ""
    return " ".join(document.split("\n\n")[0].split())


def with_table(document: str, kind: str, made: str) -> str:
    """The document with the part between the markers replaced. ValueError when it has none."""
    begin, end = MARKERS[kind]
    before, found, rest = document.partition(begin)
    if not found or end not in rest:
        raise ValueError(f"{TABLES} has no {begin} followed by {end}")
    return before + made + rest.partition(end)[2].lstrip("\n")


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


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m harness.mutation", description=__doc__)
    parser.add_argument("kind", choices=sorted(MARKERS))
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these; then no table is written")
    parser.add_argument("--run-dir", type=Path, help="where the run goes (default: a temporary directory)")
    parser.add_argument(
        "--read",
        type=Path,
        action="append",
        default=[],
        help="no new run: write the table from these; what none of them has stays",
    )
    options = parser.parse_args(argv)
    trials = BROKER_TRIALS if options.kind == "brokers" else CLIENT_TRIALS
    known = {trial.subject for trial in trials}
    for name in options.names:
        if name not in known:
            parser.error(f"no mutant {name!r}, there are {', '.join(sorted(known))}")
    chosen = [trial for trial in trials if not options.names or trial.subject in options.names]
    with tempfile.TemporaryDirectory() as temporary:
        make_buggy_clients_known(Path(temporary))
        if options.read:  # of several runs the last one counts
            latest = {each.trial.name: each for each in read_table(TABLES.read_text(), options.kind, chosen)}
            latest |= {each.trial.name: each for path in options.read for each in read_run(chosen, path)}
            found = list(latest.values())
        else:
            found = hunt(chosen, options.run_dir or Path(temporary) / "run", Path(temporary))
        if not options.names:
            text = with_table(TABLES.read_text(encoding="utf-8"), options.kind, table(options.kind, found))
            TABLES.write_text(text, encoding="utf-8")
    for each in found:
        print(f"{each.trial.subject}: {each.trial.scenario}: {'; '.join(each.by) or 'LIVES'}: {each.reason}")
    alive = {trial.subject for trial in chosen} - {each.trial.subject for each in found if each.by}
    if alive:
        print(f"alive: {', '.join(sorted(alive))}", file=sys.stderr)
    return 1 if alive else 0


assert {trial.mutant for trial in BROKER_TRIALS}.union(SIMULATED_ONLY) == set(MUTANTS), "a mutant is missing"

if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except Exception:  # a process entry: exit code 1 means that a mutant lives, and nothing else
        traceback.print_exc()
        code = int(ExitCode.HARNESS_ERROR)
    sys.exit(code)
