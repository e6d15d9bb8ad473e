"""`harness tape play`: a client against a tape.

It imports nothing of clusters and searches, because a play is to be over in seconds. Shown by
tests/harness/test_harness_tape_cli.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

from chaos.fields import duration_ms
from harness.cli.clients.own_client import first_line, own_client
from harness.errors import ExitCode, UsageError
from harness.explore.findings.story import timeline
from harness.tape.model import from_text
from harness.tape.play import play
from harness.terminal.tables import print_fitting
from runlog.files.user_files import read_text

_PATIENCE_MS: Final = (1_000, 600_000)


def play_tape(file: Path, command: Sequence[str], *, client: str | None, patience: str) -> ExitCode:
    program = own_client(command, client, what="be played to", asked_by="tape play")
    patience_s = patience_of(patience)
    try:
        tape = from_text(read_text(file))
    except ValueError as error:
        raise UsageError(f"{file}: no tape: {error}") from error
    first_line(program)
    played = play(tape, program.command, program.environment, patience_s=patience_s)
    if played.is_unproved:
        print_fitting(f"proves nothing: {played.why_unproved}")
        return ExitCode.INCONCLUSIVE
    if not played.found:
        print_fitting(f"as it should; {tape.client} shows: {tape.kind}: {tape.what}", hanging=2)
        return ExitCode.PASS
    for one in played.found:
        print_fitting(f"{one.kind}: {one.what}", hanging=2)
    print("\n".join(timeline(played.faulty.history)))
    return ExitCode.FAIL


def patience_of(text: str) -> float:
    try:
        patience_ms = cast(int, duration_ms(text))
    except ValueError as error:
        raise UsageError(f"--patience: {error}") from error
    if not _PATIENCE_MS[0] <= patience_ms <= _PATIENCE_MS[1]:
        raise UsageError(f"--patience {text}: from 1s to 10m")
    return patience_ms / 1_000
