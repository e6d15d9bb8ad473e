"""CPU of a JVM's compiler and collector from /proc, on lines of a real Apache Kafka broker and with real threads."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from harness.run.recording.jvm_threads import JvmThreads, ThreadStat, kind_of, parse_stat

# A broker of Apache Kafka 4.3.1 on OpenJDK 17 with G1, seven minutes old: the threads of its JVM and two of its own.
# The fields after the 15th are cut off, in the first line after the 21st; 100 ticks are a second.
KAFKA = """\
28527 (java) S 27744 28527 28527 0 -1 4194304 1627 0 0 0 1 0 0 0 25 5 105 0
28531 (GC Thread#0) S 27744 28527 28527 0 -1 4194368 7890 0 0 0 40 2 0
28532 (G1 Main Marker) S 27744 28527 28527 0 -1 4194368 5 0 0 0 0 0 0
28533 (G1 Conc#0) S 27744 28527 28527 0 -1 4194368 4110 0 0 0 3 1 0
28535 (G1 Refine#0) S 27744 28527 28527 0 -1 4194368 73 0 0 0 44 1 0
28536 (G1 Service) S 27744 28527 28527 0 -1 4194368 3 0 0 0 5 1 0
28548 (VM Thread) S 27744 28527 28527 0 -1 4194368 98 0 0 0 6 2 0
28557 (C2 CompilerThre) S 27744 28527 28527 0 -1 4194368 15658 0 0 0 1890 32 0
28560 (C1 CompilerThre) S 27744 28527 28527 0 -1 4194368 7815 0 0 0 283 24 0
28561 (Sweeper thread) S 27744 28527 28527 0 -1 4194368 8 0 0 0 11 0 0
28631 (GC Thread#1) S 27744 28527 28527 0 -1 4194368 7064 0 0 0 41 2 0
28720 (G1 Refine#1) S 27744 28527 28527 0 -1 4194368 5 0 0 0 11 0 0
28729 (kafka-1-raft-io) S 27744 28527 28527 0 -1 4194368 466 0 2 0 108 33 0
"""


def processes(root: Path, lines: str = KAFKA) -> Path:
    """A directory like /proc with these threads; those it had before are gone."""
    directory = root / "28527" / "task"
    for old in directory.glob("*/stat"):
        old.unlink()
        old.parent.rmdir()
    for line in lines.splitlines():
        path = directory / line.split()[0] / "stat"
        path.parent.mkdir(parents=True)
        path.write_text(line + "\n")
    return root


def test_a_line_of_the_kernel_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.run.recording.jvm_threads._TICKS_PER_S", 100)
    found = [parse_stat(line) for line in KAFKA.splitlines()]
    assert found[0] == ThreadStat(name="java", cpu_s=0.01)
    assert found[7] == ThreadStat(name="C2 CompilerThre", cpu_s=19.22)
    kinds = {one.name: kind_of(one.name) for one in found}
    assert [name for name, kind in kinds.items() if kind == "compiler"] == ["C2 CompilerThre", "C1 CompilerThre"]
    assert [name for name, kind in kinds.items() if kind is None] == [
        "java", "VM Thread", "Sweeper thread", "kafka-1-raft-io"
    ]  # fmt: skip
    odd = parse_stat("7 (a ) S 1 (b) R 1 7 7 0 -1 0 0 0 0 0 100 50 0 0 20")
    assert odd == ThreadStat(name="a ) S 1 (b", cpu_s=1.5)


@pytest.mark.parametrize("text", ["", "12 java S 1 2", "12 (java) S 1 2", ")("])
def test_what_is_no_such_line_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_stat(text)


def test_the_parts_of_a_broker_are_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.run.recording.jvm_threads._TICKS_PER_S", 100)
    found = JvmThreads(28527, processes(tmp_path)).look()
    assert found is not None
    assert found.compiler_s == pytest.approx(19.22 + 3.07)
    assert found.collector_s == pytest.approx(0.42 + 0.0 + 0.04 + 0.45 + 0.06 + 0.43 + 0.11)


def test_a_compiler_thread_that_ended_stays_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.run.recording.jvm_threads._TICKS_PER_S", 100)
    jvm = JvmThreads(28527, processes(tmp_path))
    before = jvm.look()
    assert before is not None
    second = "28999 (C2 CompilerThre) S 1 1 1 0 -1 0 0 0 0 0 500 0 0 0\n"
    processes(tmp_path, KAFKA + second)
    assert (more := jvm.look()) is not None
    assert more.compiler_s == pytest.approx(before.compiler_s + 5.0)
    processes(tmp_path)
    assert jvm.look() == more
    processes(tmp_path, KAFKA + second.replace(" 500 ", " 100 "))  # its number again, by another that began later
    assert (again := jvm.look()) is not None
    assert again.compiler_s == pytest.approx(more.compiler_s + 1.0)


def test_a_thread_that_bore_its_parents_name_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.run.recording.jvm_threads._TICKS_PER_S", 100)
    born = "28560 (java) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0\n"
    jvm = JvmThreads(28527, processes(tmp_path, born))
    assert jvm.look() is None, "not yet seen to be a JVM"
    processes(tmp_path, born.replace("java", "C1 CompilerThre").replace("-1 0 0 0 0 0 0", "-1 0 0 0 0 0 7"))
    found = jvm.look()
    assert found is not None
    assert found.compiler_s == pytest.approx(0.07)


def test_a_thread_that_waits_long_for_its_first_turn_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy host it has its parent's name until then, for any number of looks."""
    monkeypatch.setattr("harness.run.recording.jvm_threads._TICKS_PER_S", 100)
    born = "28560 (java) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0\n"
    jvm = JvmThreads(28527, processes(tmp_path, born))
    for _ in range(20):
        assert jvm.look() is None
    ran = born.replace("java", "C2 CompilerThre").replace("-1 0 0 0 0 0 0", "-1 0 0 0 0 0 9")
    processes(tmp_path, ran)
    found = jvm.look()
    assert found is not None
    assert found.compiler_s == pytest.approx(0.09)


def test_cpu_of_real_threads_is_seen_by_their_name_and_kept_after_their_end() -> None:
    own = JvmThreads(os.getpid())
    assert own.look() is None, "Python has no compiler thread"
    named, done = threading.Event(), threading.Event()

    def compile_for_ever() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("C2 CompilerThread7")
        named.set()
        while not done.is_set():
            sum(range(1_000))

    thread = threading.Thread(target=compile_for_ever)
    thread.start()
    assert named.wait(120)  # a thread that has its parent's name for two looks is not looked at again
    try:
        deadline_s = time.monotonic() + 120
        while ((seen := own.look()) is None or seen.compiler_s < 0.05) and time.monotonic() < deadline_s:
            time.sleep(0.01)
    finally:
        done.set()
        thread.join()
    assert seen is not None
    assert seen.compiler_s >= 0.05
    assert seen.collector_s == 0.0
    after = own.look()
    assert after is not None
    assert after.compiler_s >= seen.compiler_s


def test_a_process_that_is_gone_has_no_figures() -> None:
    assert JvmThreads(2**22 + 1).look() is None
