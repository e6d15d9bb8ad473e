"""Results appear whole, of one analysis, at any moment at which the process may be killed; and nobody else's do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reports.render.publication import BEFORE, PUBLISHED, BusyError, Publication, is_analysis_id, new_analysis_id

OLD, NEW, NEXT = "0" * 16, "1" * 16, "2" * 16
FILES = ("junit.xml", "summary.md", "report.html", "results/verdicts.json", "results/cells.csv")
STEPS_MAX = 200


def write(directory: Path, analysis_id: str) -> None:
    (directory / "results").mkdir(exist_ok=True)
    for name in FILES:
        (directory / name).write_text(analysis_id * 100)


def shown(run_dir: Path) -> dict[str, str]:
    """Known name -> content, of those that are there."""
    return {name: (run_dir / name).read_text() for name in FILES if (run_dir / name).exists()}


def publish(run_dir: Path, analysis_id: str) -> None:
    with Publication(run_dir, analysis_id) as publication:
        write(publication.aside, analysis_id)
        publication.publish()


def killed_at(step: int, run_dir: Path) -> bool:
    """Publishes in a child that kills itself at its `step`-th change of the disk; False when it came to its end."""
    pid = os.fork()
    if pid == 0:
        left = [step]

        def counted(call: Callable[..., object]) -> Callable[..., object]:
            def wrapper(*arguments: object, **named: object) -> object:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*arguments, **named)

            return wrapper

        for name in ("rename", "fsync", "mkdir", "unlink", "rmdir", "open"):
            setattr(os, name, counted(getattr(os, name)))
        publish(run_dir, NEW)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.slow
@pytest.mark.thorough
def test_a_kill_at_any_step_leaves_results_of_one_analysis_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)  # a step like others, and no disk to wait for
    seen: set[tuple[str, int]] = set()
    for step in range(STEPS_MAX):
        run_dir = tmp_path / str(step)
        run_dir.mkdir()
        publish(run_dir, OLD)
        assert set(shown(run_dir).values()) == {OLD * 100}
        was_killed = killed_at(step, run_dir)
        texts = shown(run_dir)
        assert set(texts.values()) in ({OLD * 100}, {NEW * 100}, set()), f"step {step}: {sorted(texts)}"
        seen.add((next(iter(texts.values()), "")[:1], len(texts)))
        if not was_killed:
            assert len(texts) == len(FILES)
            break
        publish(run_dir, NEXT)  # what was left in the middle hinders nobody
        assert shown(run_dir) == dict.fromkeys(FILES, NEXT * 100)
        assert not list(run_dir.glob(".analysis-*"))
        assert not (run_dir / BEFORE).exists()
    else:
        raise AssertionError("it never came to its end")
    assert {("", 0), ("0", 5), ("1", 5)} <= seen, "before, between and after were met"


def test_an_analysis_that_fails_leaves_nothing_at_the_known_names(tmp_path: Path) -> None:
    publish(tmp_path, OLD)
    with pytest.raises(OSError, match="full"), Publication(tmp_path, NEW) as publication:
        write(publication.aside, NEW)
        raise OSError("full")
    assert shown(tmp_path) == {}
    assert shown(tmp_path / BEFORE) == dict.fromkeys(FILES, OLD * 100), "it is kept, under a name that nobody reads"
    assert sorted(path.name for path in tmp_path.iterdir()) == [BEFORE]


def test_a_second_analysis_at_the_same_time_is_refused(tmp_path: Path) -> None:
    publish(tmp_path, OLD)
    with Publication(tmp_path, NEW) as publication:
        with pytest.raises(BusyError, match="another process"):
            publish(tmp_path, NEXT)
        write(publication.aside, NEW)
        publication.publish()
    assert shown(tmp_path) == dict.fromkeys(FILES, NEW * 100)


@pytest.mark.slow
def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from reports.render.publication import Publication\n"
        f"Publication(Path({str(tmp_path)!r}), {OLD!r}).begin(); print(1, flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"1\n"
        with pytest.raises(BusyError):
            Publication(tmp_path, NEW).begin()
    finally:
        process.kill()
        process.communicate()
    publish(tmp_path, NEW)
    assert set(shown(tmp_path).values()) == {NEW * 100}


def test_what_other_commands_made_of_results_is_kept(tmp_path: Path) -> None:
    publish(tmp_path, OLD)
    for name in ("confirm.json", "compare-base.json", "compare-base.html"):
        (tmp_path / "results" / name).write_text("theirs")
    publish(tmp_path, NEW)
    names = sorted(path.name for path in (tmp_path / "results").iterdir())
    assert names == ["cells.csv", "compare-base.html", "compare-base.json", "confirm.json", "verdicts.json"]


@pytest.mark.parametrize("name", [*PUBLISHED, BEFORE])
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "verdicts.json").write_text("not ours")
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / name).symlink_to(foreign)
    publish(run_dir, NEW)
    assert shown(run_dir) == dict.fromkeys(FILES, NEW * 100)
    assert [path.name for path in foreign.iterdir()] == ["verdicts.json"]
    assert (foreign / "verdicts.json").read_text() == "not ours"


def test_ids_differ_and_are_known_by_their_form() -> None:
    first, second = new_analysis_id(), new_analysis_id()
    assert first != second
    assert is_analysis_id(first)
    assert not is_analysis_id("../../../../etc/")
