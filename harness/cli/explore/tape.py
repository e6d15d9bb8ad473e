"""`harness tape record`: a finding as a file that shows it with no broker.

Shown by tests/harness/test_harness_tape_cli.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness.cli.clients.own_client import first_line, own_client, words_for
from harness.cli.environment.descriptors import require_descriptors
from harness.cli.explore.explore import read_trial
from harness.cli.explore.search_cluster import Place, place_of, started_bench
from harness.cli.explore.tape_play import patience_of
from harness.errors import ExitCode, UsageError
from harness.explore.execution.bench import Evidence
from harness.explore.oracles.oracles import Suspicion, suspicions
from harness.explore.trial.model import Trial
from harness.output_places import check_output_file
from harness.tape.model import BYTES_MAX, FRAMES_MAX, Tape, to_text
from harness.tape.play import Played, play, play_side
from harness.tape.record import NotTaped, check, cut, tape_of
from harness.terminal.signals import StopFlag, signals_set
from harness.terminal.tables import print_fitting
from reports.render.files import replace_text
from workloads.clients.process.build import Built

FRAME_BYTES_MAX: Final = 1 << 20
TRIES: Final = 3  # to see the finding on a cluster
BROKERS: Final = (1, 3)  # of the clusters that are tried: the fewer there are, the easier a tape is to read
CONFIRMED: Final = 2  # plays that show it, of those with the tape that is kept
PLAYS_MAX: Final = 6  # A bug that is a race does not show every time.


def record(
    file: Path, command: Sequence[str], *, trial_file: Path, client: str | None, engine: str, patience: str
) -> ExitCode:
    """`patience` is for the plays against the peer. On the cluster a client has the patience of a search."""
    program = own_client(command, client, what="be recorded", asked_by="tape record")
    patience_s = patience_of(patience)
    check_output_file("tape record", file)
    place = place_of(engine)
    trial = read_trial(trial_file, "--trial")
    try:
        check(trial)
    except NotTaped as error:
        raise UsageError(f"--trial {trial_file}: {error}") from error
    require_descriptors()
    ready = first_line(program)
    stop = StopFlag()
    with signals_set(stop):
        seen = _seen(program, trial, replace(place, releases=place.releases[:1]), stop)
        if seen is None:
            return ExitCode.INTERRUPTED if stop.is_set() else ExitCode.INCONCLUSIVE
        try:
            tape = tape_of(
                seen.trial,
                seen.shown,
                seen.disturbed.history.exchanges,
                seen.quiet.history.exchanges,
                client=f"{ready.client} {ready.version}".rstrip(),
                names=[_name(seen.disturbed), _name(seen.quiet)],
            )
        except NotTaped as error:
            print_fitting(f"no tape: {error}")
            return ExitCode.INCONCLUSIVE
        return _keep(file, tape, program, words_for(command, client), patience_s, stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What showed on a cluster. `trial` has no disturbance if it showed without one too."""

    trial: Trial
    shown: Suspicion
    disturbed: Evidence
    quiet: Evidence


def _seen(program: Built, trial: Trial, place: Place, stop: StopFlag) -> _Seen | None:
    """None, and it is told, if it does not show."""
    for brokers in BROKERS:
        started = started_bench(
            program.command, program.environment, place, kind="tape", brokers=brokers, frame_bytes_max=FRAME_BYTES_MAX
        )
        with started as (bench, _):
            quiet = bench.run(trial.control, 1)
            if quiet.history.problem:
                print_fitting(f"no tape: {quiet.history.problem}")
                return None
            without = suspicions(trial.control, quiet.history)
            _tell(f"with {_of(brokers)}, without a disturbance: {_words(without)}")
            if without and trial.disturbance is None:
                return _Seen(trial=trial, shown=without[0], disturbed=quiet, quiet=quiet)
            for number in range(TRIES):
                if stop.is_set():
                    return None
                evidence = bench.run(trial, number + 2)
                found = suspicions(trial, evidence.history)
                _tell(f"with {_of(brokers)}, try {number + 1}: {_words(found)}")
                if found:
                    return _seen_in(trial, found, evidence, without, quiet)
    print_fitting(f"no tape: {TRIES} tries each with {' and '.join(map(_of, BROKERS))} do not show it")
    return None


def _seen_in(
    trial: Trial, found: Sequence[Suspicion], evidence: Evidence, without: Sequence[Suspicion], quiet: Evidence
) -> _Seen:
    """What the disturbance adds, or else what shows without it too."""
    quiet_kinds = {one.kind for one in without}
    new = [one for one in found if one.kind not in quiet_kinds]
    if new:
        return _Seen(trial=trial, shown=new[0], disturbed=evidence, quiet=quiet)
    same = next(one for one in without if one.kind is found[0].kind)
    return _Seen(trial=trial.control, shown=same, disturbed=quiet, quiet=quiet)


def _of(brokers: int) -> str:
    return "a cluster of one broker" if brokers == 1 else f"one of {brokers} brokers"


def _keep(file: Path, tape: Tape, program: Built, words: str, patience_s: float, stop: StopFlag) -> ExitCode:
    """Cut down, tried beside its healthy twin, and written."""

    def shows(candidate: Tape) -> bool:
        side = play_side(candidate, program.command, program.environment, patience_s=patience_s)
        is_shown = any(one.kind is tape.kind for one in side.found)
        _tell(f"a tape of {len(candidate.frames)} frames: {_words(side.found)}")
        return is_shown and not stop.is_set()

    smaller = cut(tape, shows)
    shown = plays = 0
    while shown < CONFIRMED:
        if stop.is_set():
            return ExitCode.INTERRUPTED
        played = play(smaller, program.command, program.environment, patience_s=patience_s)
        plays += 1
        shown += played.shown is not None
        if PLAYS_MAX - plays < CONFIRMED - shown:
            print_fitting(f"no tape: against the scripted peer {why_no_tape(played)}")
            return ExitCode.INCONCLUSIVE
    text = to_text(smaller, name=str(file), client=words, plays=f"{shown} of {plays}")
    if len(smaller.frames) > FRAMES_MAX or len(text) > BYTES_MAX:
        print_fitting(
            f"no tape: {len(smaller.frames)} frames and {len(text):,} bytes are left, "
            f"at most {FRAMES_MAX} and {BYTES_MAX:,} are a tape"
        )
        return ExitCode.INCONCLUSIVE
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, text)
    print_fitting(f"{smaller.kind}: {len(smaller.frames)} frames, {len(text):,} bytes, {shown} of {plays} plays")
    print(file)
    return ExitCode.PASS


def why_no_tape(played: Played) -> str:
    """Goes on after `against the scripted peer`."""
    if played.is_unproved:
        return f"nothing is proved: {played.why_unproved}; on a busy host try again with more --patience"
    if not played.found:
        return f"the client does as it should, and does not show: {played.tape.kind}"
    return f"the client shows {_words(played.found)}, and not: {played.tape.kind}"


def _words(found: Sequence[Suspicion]) -> str:
    return "; ".join(f"{one.kind}: {one.what}" for one in found) or "as it should"


def _name(evidence: Evidence) -> str:
    """Of the run's topic, which is its client id too."""
    return next((each.client_id for each in evidence.history.exchanges), "")


def _tell(text: str) -> None:
    print_fitting(text, to_stderr=True, hanging=2)
