"""`harness.explore.generators.extremes`: programs at a limit, and what they are crossed with."""

from __future__ import annotations

import json

import pytest

from harness.explore.generators.extremes import crossed, extremes
from harness.explore.generators.shrink import is_lawful
from harness.explore.trial.model import Do, How, Program, Role, Trial, from_document, to_document
from harness.explore.trial.requests_sent import Use
from workloads.clients.process.messages import LINE_BYTES_MAX, Ability, records_per_poll

ALL = [str(word) for word in Ability]
USES = {api: Use(requests=9, version=12) for api in ("Produce", "Metadata", "Fetch", "OffsetFetch", "OffsetCommit")}
OF_COPIERS = ("AddOffsetsToTxn", "TxnOffsetCommit")


def takes_all(side: str, name: str) -> bool:
    return True


def uses_of(program: Program) -> dict[str, Use]:
    of_producers = {"Produce", "Metadata"}
    if program.role is Role.COPIER:
        return {**USES, **dict.fromkeys(OF_COPIERS, Use(requests=6, version=3))}
    return {api: use for api, use in USES.items() if (api in of_producers) == (program.role is Role.PRODUCER)}


def test_every_program_is_lawful_and_is_read_back_from_its_file() -> None:
    programs = extremes(ALL, takes_all)
    assert len({program.name for program in programs}) == len(programs)
    for program in programs:
        assert is_lawful(program, program.moves), program.name
        trial = Trial(program=program)
        assert from_document(json.loads(json.dumps(to_document(trial)))) == trial


@pytest.mark.parametrize("can", [["produce"], ["subscribe"], ["subscribe", "commit"], ["transactions"]])
def test_a_client_is_asked_for_what_it_can_do(can: list[str]) -> None:
    programs = extremes(can, lambda side, name: False)
    does = {move.do for program in programs for move in program.moves}
    assert (Do.SEND in does) == bool({"produce", "transactions"} & set(can))
    assert (Do.SUBSCRIBE in does) == ("subscribe" in can)
    assert (Do.COMMIT in does) == ("commit" in can)
    assert Do.PAUSE not in does
    assert (Do.BEGIN in does) == ("transactions" in can)
    assert programs


def test_the_first_round_refuses_each_program_until_it_is_healed() -> None:
    programs = extremes(ALL, takes_all)
    first = crossed(programs, uses_of, 3)[: len(programs)]
    assert [trial.program for trial in first] == programs
    for trial in first:
        assert trial.disturbance is not None
        assert (trial.disturbance.how, trial.disturbance.count) == (How.ERROR_BEFORE, 0), str(trial)
        assert trial.disturbance.api in ("Produce", "Fetch"), str(trial)


def test_each_program_runs_quietly_once_and_nothing_is_tried_twice() -> None:
    programs = extremes(ALL, takes_all)
    trials = crossed(programs, uses_of, 3)
    quiet = [trial.program for trial in trials if trial.disturbance is None]
    assert sorted(program.name for program in quiet) == sorted(program.name for program in programs)
    assert len({str(trial) for trial in trials}) == len(trials)
    assert trials == crossed(programs, uses_of, 3)
    assert trials != crossed(programs, uses_of, 4)
    assert {10, 18} <= {trial.disturbance.code for trial in trials if trial.disturbance}  # because of a size


def test_leader_epochs_are_asked_for_only_where_a_leader_moves() -> None:
    trials = crossed(extremes(ALL, takes_all), uses_of, 1)
    moved = {trial.program.name for trial in trials if trial.disturbance and "LeaderEpoch" in trial.disturbance.api}
    assert moved == {"group, new leader epochs", "copies, new leader epochs"}


def test_records_of_a_poll_fit_a_line_however_large_they_are() -> None:
    for program in extremes(ALL, takes_all):
        largest = program.record_bytes_max
        assert records_per_poll(largest) * (largest * 4 // 3 + 250) < LINE_BYTES_MAX


def test_each_refusal_after_the_work_meets_each_producer_once() -> None:
    """Which of them is taken for one before the work differs from library to library, and so does what that breaks."""
    trials = crossed(extremes(["produce"], takes_all), uses_of, 1)
    for name in {trial.program.name for trial in trials}:
        mine = [trial.disturbance for trial in trials if trial.program.name == name and trial.disturbance]
        codes = [one.code for one in mine if one.how is How.ERROR_AFTER]
        assert sorted(codes) == [6, 7, 20, 56], name


def test_the_offsets_of_a_copiers_transaction_are_refused_until_it_is_healed_too() -> None:
    programs = [program for program in extremes(ALL, takes_all) if program.role is Role.COPIER]
    assert len(programs) == 4
    trials = crossed(programs, uses_of, 1)
    for api in OF_COPIERS:
        met = {trial.program.name for trial in trials if trial.disturbance and trial.disturbance.api == api}
        assert met == {program.name for program in programs}, api
    assert not any(
        program.role is Role.COPIER for program in extremes(ALL, lambda side, name: name != "isolation.level")
    )


def test_copies_are_as_large_as_what_is_copied_and_in_many_partitions() -> None:
    copiers = [program for program in extremes(ALL, takes_all) if program.role is Role.COPIER]
    largest = {max(move.size_bytes for move in program.moves if move.do is Do.COPY) for program in copiers}
    assert max(largest) == 200_000
    assert max(program.partitions for program in copiers) == 24
    assert any(move.do is Do.MOVE_LEADER for program in copiers for move in program.changes)
