"""`harness tape`: what it refuses, each with what was expected, and what it says of a tape that shows its fault."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.explore.tape import record, why_no_tape
from harness.cli.explore.tape_play import play_tape
from harness.errors import ExitCode, UsageError
from harness.explore.oracles.oracles import Kind, Suspicion
from harness.explore.trial.history import History
from harness.explore.trial.model import Do as MoveDo
from harness.explore.trial.model import Move, to_document
from harness.tape import play as play_module
from harness.tape.model import Tape, from_text, to_text
from harness.tape.play import Played, Side
from tests.harness.tapes import REFUSED, TRIAL, tape


def written(path: Path, text: str = "") -> Path:
    path.write_text(text or to_text(tape(REFUSED), name=path.name, client="--client confluent"))
    return path


@pytest.mark.parametrize(
    ("name", "client", "patience", "message"),
    [
        ("nothing.tape", "confluent", "6s", "nothing.tape: no tape: "),
        ("good.tape", "kafkjs", "6s", "--client kafkjs: no such client.*kafkajs"),
        ("good.tape", None, "6s", "tape play: no client, expected how it is started"),
        ("good.tape", "confluent", "soon", "--patience: 'soon' is no duration"),
        ("good.tape", "confluent", "20ms", "--patience 20ms: from 1s to 10m"),
        ("bad.tape", "confluent", "6s", "bad.tape: no tape: line 1: no JSON"),
    ],
)
def test_what_cannot_be_played_is_refused(
    tmp_path: Path, name: str, client: str | None, patience: str, message: str
) -> None:
    written(tmp_path / "good.tape")
    written(tmp_path / "bad.tape", "no json\n")
    with pytest.raises(UsageError, match=message):
        play_tape(tmp_path / name, [], client=client, patience=patience)


def test_a_trial_that_no_peer_can_carry_is_refused_before_anything_starts(tmp_path: Path) -> None:
    moves = (Move(do=MoveDo.LOSE, partition=0),)
    trial = replace(TRIAL, program=replace(TRIAL.program, moves=moves))
    (tmp_path / "trial.json").write_text(json.dumps(to_document(trial)))
    with pytest.raises(UsageError, match="do nothing by themselves: it cannot carry broker is lost"):
        record(
            tmp_path / "t.tape",
            [sys.executable],
            trial_file=tmp_path / "trial.json",
            client=None,
            engine="reference",
            patience="6s",
        )
    assert not (tmp_path / "t.tape").exists()


def test_a_recording_takes_the_patience_of_a_busy_host_and_says_why_there_is_no_tape(tmp_path: Path) -> None:
    """With 6 s alone a finding of a client that stands still made no tape at load 30: its healthy twin was late too."""
    (tmp_path / "trial.json").write_text(json.dumps(to_document(TRIAL)))
    with pytest.raises(UsageError, match="--patience 20ms: from 1s to 10m"):
        record(
            tmp_path / "t.tape", [sys.executable], trial_file=tmp_path / "trial.json", client=None, engine="reference",
            patience="20ms",
        )  # fmt: skip
    late = Suspicion(kind=Kind.STUCK, what="10 of 10 records unread", count=10)
    quiet, struck = side(), side(late)
    twice = why_no_tape(Played(tape=tape(REFUSED), faulty=struck, healthy=struck))
    assert twice.startswith("nothing is proved: it shows without the fault too")
    assert twice.endswith("on a busy host try again with more --patience")
    as_it_should = why_no_tape(Played(tape=tape(REFUSED), faulty=quiet, healthy=quiet))
    assert as_it_should == f"the client does as it should, and does not show: {tape(REFUSED).kind}"


def test_only_what_the_fault_adds_is_told_where_the_client_has_another_bug_too() -> None:
    """librdkafka 2.4.0 skips a record at each restart, with the fault and without it, and stands still with it only."""
    skipped = Suspicion(kind=Kind.SKIPPED, what="never handed out: offset 60", count=1)
    stuck = Suspicion(kind=Kind.STUCK, what="10 of 10 records unread", count=10)
    both = Played(tape=tape(REFUSED), faulty=side(skipped, stuck), healthy=side(skipped))
    assert (both.why_unproved, both.shown, both.found) == ("", stuck, (stuck,))
    other = Played(tape=tape(REFUSED), faulty=side(skipped), healthy=side(skipped))
    assert other.why_unproved.startswith("it shows without the fault too: skipped")


def test_a_client_that_stands_still_where_nothing_is_wrong_is_given_more_patience(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A busy host does that. With 6 s alone, three of twelve tapes proved nothing at load 40."""
    stuck = side(Suspicion(kind=Kind.STUCK, what="10 of 10 records unread", count=10))
    given: list[float] = []

    def busy(one: Tape, *_: object, patience_s: float) -> Side:
        given.append(patience_s)
        return side() if patience_s > 6 and not one.has_fault else stuck

    monkeypatch.setattr(play_module, "play_side", busy)
    with_fault = play_module.play(tape(REFUSED), ["client"], {}, patience_s=6)
    assert with_fault.shown is not None
    assert sorted(given) == [6, 6, 18, 18]
    given.clear()
    alone = play_module.play(tape(), ["client"], {}, patience_s=6)
    assert (alone.shown, given) == (None, [18]), "nothing beside it says that the host is too busy"


def test_a_tape_without_a_fault_is_believed_its_own_claim_and_nothing_else() -> None:
    """There is no run beside it that would show that the peer is a good enough broker."""
    stuck = Suspicion(kind=Kind.STUCK, what="10 of 10 records unread", count=10)
    lost = Suspicion(kind=Kind.LOST, what="record 1", count=1)
    assert Played(tape=tape(), faulty=side(stuck), healthy=None).shown == stuck
    assert Played(tape=tape(), faulty=side(), healthy=None).why_unproved == ""
    other = Played(tape=tape(), faulty=side(lost), healthy=None)
    assert other.shown is None
    assert "the client shows something else than it claims: acknowledged and lost" in other.why_unproved


def side(*found: Suspicion) -> Side:
    return Side(history=History(happened=(), log=()), found=found, met=1, missing=())


@pytest.mark.slow
def test_a_tape_tells_what_it_shows_and_when(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "stands-still.tape")
    assert play_tape(path, [], client="confluent", patience="15s") is ExitCode.FAIL
    told = capsys.readouterr().out
    assert told.startswith("no progress after healing: 10 of 10 records unread")
    assert "the disturbance has met a request" in told


@pytest.mark.slow
@pytest.mark.long
def test_a_finding_becomes_a_tape_of_few_frames_that_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a trial on a cluster of one broker to a tape that a peer plays."""
    monkeypatch.chdir(tmp_path)
    Path("trial.json").write_text(json.dumps(to_document(TRIAL)))
    made = record(
        Path("5586.tape"), [], trial_file=Path("trial.json"), client="confluent", engine="reference", patience="15s"
    )
    assert made is ExitCode.PASS, capsys.readouterr()
    text = Path("5586.tape").read_text()
    assert text.splitlines()[0] == "# harness tape play 5586.tape --client confluent"
    found = from_text(text)
    assert len(found.frames) < 20
    assert [(frame.api, frame.request) for frame in found.frames if frame.is_script] == [("OffsetFetch", 1)]
