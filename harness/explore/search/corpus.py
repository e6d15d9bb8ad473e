"""What a search leaves for later ones: programs that met something new, and trials that showed a finding.

A directory with one JSON file for each trial, named by its contents, so two searches may extend it and nothing is there
twice. Findings are tried first by the next search; programs are varied as if it had met them itself. A file of another
version is left alone and told. Shown by tests/harness/test_harness_explore_corpus.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.errors import UsageError
from harness.explore.trial.model import Do, Program, Trial, from_document, to_document
from runlog.files.documents import write_json

FILES_MAX: Final = 1_000  # The newest ones of each kind are read.
_NEEDED: Final = {
    Do.SEND: "produce",
    Do.SUBSCRIBE: "subscribe",
    Do.ASSIGN: "assign",
    Do.COMMIT: "commit",
    Do.SEEK: "seek",
    Do.PAUSE: "pause",
    Do.RESUME: "pause",
    Do.COMMIT_HALVES: "overlap",
    Do.COMMIT_IN_POLL: "overlap",
    Do.RESTART_IN_POLL: "overlap",
    Do.CANCEL_POLL: "cancel",
    Do.CANCEL_FLUSH: "cancel",
    Do.BEGIN: "transactions",
    Do.COPY: "send-offsets",
    Do.SEND_OFFSETS: "send-offsets",
}
_PROGRAMS, _FINDINGS = "programs", "findings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """`unread`: names of files that this version cannot read."""

    programs: tuple[Program, ...] = ()
    findings: tuple[Trial, ...] = ()
    unread: tuple[str, ...] = ()


def read_corpus(directory: Path) -> Corpus:
    """Empty if there is none yet. UsageError if it is no directory."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"--corpus {directory}: it is no directory")
    unread: list[str] = []
    programs = [trial.program for trial in _read(directory / _PROGRAMS, unread)]
    findings = list(_read(directory / _FINDINGS, unread))
    return Corpus(programs=tuple(programs), findings=tuple(findings), unread=tuple(unread))


def fits(program: Program, abilities: Collection[str]) -> bool:
    """Whether a client that can do this, in words of the client protocol, can carry out the program."""
    needed = {_NEEDED[move.do] for move in program.moves if move.do in _NEEDED}
    needed |= {"callers"} if any(move.callers > 1 for move in program.moves) else set()
    needed |= {"one-by-one"} if program.is_one_by_one else set()
    return needed <= set(abilities)


def extend_corpus(directory: Path, programs: Iterable[Program], findings: Iterable[Trial]) -> int:
    """How many files are new."""
    return sum(
        _keep(directory / name, trial)
        for name, trials in ((_PROGRAMS, [Trial(program=program) for program in programs]), (_FINDINGS, findings))
        for trial in trials
    )


def _read(directory: Path, unread: list[str]) -> Iterable[Trial]:
    newest = sorted(directory.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))[-FILES_MAX:]
    for path in newest:
        try:
            yield from_document(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, AttributeError):
            unread.append(path.name)


def _keep(directory: Path, trial: Trial) -> bool:
    document = to_document(trial)
    same = {**document, "program": {**document["program"], "name": ""}}  # a drawn one has a number for a name
    digest = hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:16]
    path = directory / f"{digest}.json"
    if path.exists():
        return False
    directory.mkdir(parents=True, exist_ok=True)
    write_json(path, document)
    return True
