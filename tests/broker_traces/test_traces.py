"""Stories of quorum and replication as text: the cores answer what the files say. See traces.py for the form."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from broker.mutants import applied

sys.path.insert(0, str(Path(__file__).parent))
from traces import HERE, LINE, difference, files, main, replayed


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(HERE).with_suffix("")))
def test_the_cores_answer_what_the_trace_says(path: Path) -> None:
    found = difference(path)
    assert found == "", f"{found}\nif this is right: python tests/broker_traces/traces.py --rewrite {path}"


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_a_trace_says_first_what_it_shows_and_ends_with_the_state(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# "), "a sentence that says what the trace shows"
    assert lines[1].startswith("# Source: "), "the KIP or the section of the paper"
    commands = [before for before, line in itertools.pairwise(lines) if line == LINE]
    assert commands[-1] == "state"


def test_there_are_at_least_ten_of_them() -> None:
    assert len(files()) >= 10


def test_a_changed_answer_is_shown_and_rewriting_restores_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = files()[0].read_text()
    path = tmp_path / files()[0].parent.name / "changed.txt"
    path.parent.mkdir()
    path.write_text(whole.replace("epoch 1", "epoch 7"))
    assert main([str(path)]) == 1
    assert "-  1 is leader in epoch 7" in capsys.readouterr().out
    assert main(["--rewrite", str(path)]) == 0
    assert path.read_text() == whole == replayed(files()[0])
    assert main([str(path)]) == 0


@pytest.mark.parametrize(
    ("mutant", "trace"),
    [
        ("commit_of_earlier_epoch", "quorum/earlier_epoch_is_not_committed_by_counting"),
        ("vote_for_a_shorter_log", "quorum/shorter_log_loses"),
        ("metadata_log_not_truncated", "quorum/diverging_log_is_cut"),
        ("commit_by_majority", "replication/isr_shrinks_and_expands"),
        ("isr_never_shrinks", "replication/isr_shrinks_and_expands"),
        ("isr_counts_before_the_log_tells_it", "replication/minimum_raised_unheard"),
        ("expansion_without_catching_up", "replication/isr_shrinks_and_expands"),
        ("leader_epoch_not_checked", "replication/follower_with_an_old_epoch"),
        ("broker_epoch_ignored", "replication/fenced_replica"),
        ("min_insync_replicas_ignored", "replication/min_insync_replicas"),
        ("acknowledge_before_replication", "replication/truncation_by_leader_epoch"),
    ],
)
def test_a_wrong_broker_tells_another_story(mutant: str, trace: str) -> None:
    path = HERE / f"{trace}.txt"
    with applied(mutant):
        try:
            found = difference(path)
        except (AssertionError, RuntimeError, StopIteration, IndexError) as error:
            found = repr(error)  # a core refused what it was told, or a message that the trace awaits never came
    assert found
