"""Publishes the results of one analysis in a run directory: written aside, then renamed. Older results are moved first.

Each analysis has an id, and its files carry it. It owns the directory by `flock`, which ends with the process. The
steps are:

1. Move the results that are there to `results.before/`. So they are not taken for results of this analysis.
2. Write the new files into `.analysis-<id>/` and sync them.
3. Rename whole and synced files to the names that people and CI systems read, the directory `results/` last.

So a kill at any moment leaves only whole files at the known names, and all of them belong to one analysis. During step
1 some of the old files are there, during step 2 none, during step 3 some of the new ones. Nothing is ever written
through a name that may be a link.
Shown by tests/reports/test_reports_publication.py, which kills a process at each step.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reports.read.errors import EnvironmentProblem
from runlog.files.documents import sync_directory

RESULTS: Final = "results"
BEFORE: Final = "results.before"
PAGE: Final = "report.html"
# In the order in which they appear: `harness` reads results/verdicts.json, so that comes with the last step.
PUBLISHED: Final = ("junit.xml", "summary.md", PAGE, RESULTS)
# Made by other commands from results of an analysis, whose ids they name: no analysis can make them again.
_OF_OTHERS: Final = ("confirm.json", "compare-*")
_ASIDE: Final = ".analysis-"


class BusyError(EnvironmentProblem):
    """Another process analyses this directory now."""


def new_analysis_id() -> str:
    return secrets.token_hex(8)


def is_analysis_id(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{16}", text) is not None


class Publication:
    """Owns a run directory's results from `begin` to `close`."""

    def __init__(self, run_dir: Path, analysis_id: str) -> None:
        self.analysis_id = analysis_id
        self._run_dir = run_dir
        self.aside = run_dir / f"{_ASIDE}{analysis_id}"
        self._lock = -1

    def begin(self) -> None:
        """BusyError if somebody else is at it, OSError if the directory cannot be written."""
        self._lock = os.open(self._run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            self._lock = -1
            raise BusyError(f"{self._run_dir} is being analysed by another process: wait for it") from error
        try:
            for left in self._run_dir.glob(f"{_ASIDE}*"):  # Analyses that were killed left it: the lock says so.
                _remove(left)
            self.aside.mkdir(mode=0o700)
            for _ in self._withdraw():
                pass
        except BaseException:
            self.close()
            raise

    def _withdraw(self) -> Iterator[None]:
        """Old results leave their names one by one, those that programs read first."""
        before = self._run_dir / BEFORE
        for name in reversed(PUBLISHED):
            path = self._run_dir / name
            if not os.path.lexists(path):
                continue
            if before.is_symlink() or not before.is_dir():
                _remove(before)
                before.mkdir(mode=0o700)
            _remove(before / name)
            os.rename(path, before / name)
            sync_directory(self._run_dir)
            yield

    def publish(self) -> None:
        """What was written aside takes its names. OSError leaves what has appeared so far: it is whole and true."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """`publish` step by step: between any two of them the process may end."""
        self._keep_what_others_made()
        yield
        for path in (self.aside, *sorted(self.aside.rglob("*"))):
            sync_directory(path) if path.is_dir() else _sync_file(path)
        yield
        for name in PUBLISHED:
            if os.path.lexists(self.aside / name):
                os.rename(self.aside / name, self._run_dir / name)
                sync_directory(self._run_dir)
                yield
        _remove(self._run_dir / BEFORE)
        yield

    def _keep_what_others_made(self) -> None:
        before = self._run_dir / BEFORE / RESULTS
        target = self.aside / RESULTS
        if before.is_symlink() or not before.is_dir() or not target.is_dir():
            return
        for pattern in _OF_OTHERS:
            for path in sorted(before.glob(pattern)):
                if stat.S_ISREG(path.lstat().st_mode) and not (target / path.name).exists():
                    shutil.copyfile(path, target / path.name, follow_symlinks=False)

    def close(self) -> None:
        """Removes what was written aside and lets go of the directory. The disk may refuse: all is told by now."""
        if self._lock < 0:
            return
        shutil.rmtree(self.aside, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1

    def __enter__(self) -> Publication:
        self.begin()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _remove(path: Path) -> None:
    """Removes a file, directory or link of this name. The target of a link is not touched."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
