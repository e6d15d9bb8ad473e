"""`python -m harness.mutation brokers|clients [NAME ...]`: runs the chaos scenarios over wrong brokers, or over buggy
clients.

A trial is one case of a scenario of the package, with the same faults and load, but with brokers that have
`harness.mutant=NAME`, or with a client of examples/buggy-clients. All trials are one run of real processes. If the
verdict of a trial fails, the mutant is caught. The tables stand between markers in docs/internals/checker.md. Exit code
1 if a mutant lives.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from harness.errors import ExitCode
from harness.mutation.hunt import Caught, hunt, make_buggy_clients_known, read_run
from harness.mutation.page import MARKERS, TABLES, read_table, table, with_table
from harness.mutation.trials import TRIALS, Trial


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
    parser.add_argument(
        "--texts", action="store_true", help="no new run: write the table again with what the mutants say of themselves"
    )
    options = parser.parse_args(argv)
    trials = TRIALS[options.kind]
    known = {trial.subject for trial in trials}
    for name in options.names:
        if name not in known:
            parser.error(f"no mutant {name!r}, there are {', '.join(sorted(known))}")
    chosen = [trial for trial in trials if not options.names or trial.subject in options.names]
    with tempfile.TemporaryDirectory() as temporary:
        make_buggy_clients_known(Path(temporary))
        if options.texts or options.read:
            found = _read(chosen, options.kind, options.read)
        else:
            found = hunt(chosen, options.run_dir or Path(temporary) / "run", Path(temporary))
        if not options.names:
            text = with_table(TABLES.read_text(encoding="utf-8"), options.kind, table(options.kind, found))
            TABLES.write_text(text, encoding="utf-8")
    return _tell(chosen, found)


def _read(chosen: Sequence[Trial], kind: str, run_dirs: Sequence[Path]) -> list[Caught]:
    """What the table has, and over it what these runs have. Of several runs the last one counts."""
    latest = {each.trial.name: each for each in read_table(TABLES.read_text(encoding="utf-8"), kind, chosen)}
    latest |= {each.trial.name: each for path in run_dirs for each in read_run(chosen, path)}
    return list(latest.values())


def _tell(chosen: Sequence[Trial], found: Sequence[Caught]) -> int:
    for each in found:
        print(f"{each.trial.subject}: {each.trial.scenario}: {'; '.join(each.by) or 'LIVES'}: {each.reason}")
    alive = {trial.subject for trial in chosen} - {each.trial.subject for each in found if each.by}
    if alive:
        print(f"alive: {', '.join(sorted(alive))}", file=sys.stderr)
    return 1 if alive else 0


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except Exception:  # a process entry: exit code 1 means that a mutant lives, and nothing else
        traceback.print_exc()
        code = int(ExitCode.HARNESS_ERROR)
    sys.exit(code)
