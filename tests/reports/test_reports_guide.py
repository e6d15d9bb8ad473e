"""Every command of docs/guide/analysis.md runs in its order, as a user types it into one shell."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.clusters.ports import free_port
from tests.patience import wait_process
from tests.reports.synthetic_run import Damage, SyntheticCell, write_run

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "guide" / "analysis.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
STANDALONE_START, STANDALONE_REPORT, STANDALONE_END, CONNECT_START, CONNECT_REPORT, EXAMPLES = range(6)

WHOLE = "set -e\n{block}\nset +e\n"
# A verdict is an answer, whichever it is: 2, 3 and 5 are none.
REPORT = "{block}\ncase $? in 0|1|4) ;; *) exit 9 ;; esac\n"
WAIT = "until grep -q {text!r} shell.log; do jobs -r | grep -q . || exit 8; sleep 0.5; done\n"


def said(text: str) -> str:
    """What a server says when it can work, as the page names it."""
    assert f"`{text}`" in PAGE
    return WAIT.format(text=text)


def shell(directory: Path, script: str, ports: dict[str, int]) -> None:
    """One bash in a directory like a checkout with one run; what it still has in the background goes with it."""
    for standard, port in ports.items():
        assert standard in script
        script = script.replace(standard, str(port))
    (directory / "examples").symlink_to(ROOT / "examples")
    (directory / "runs").mkdir()
    write_run(directory / "runs" / "RUN", [SyntheticCell(cell_id="lossy", damage=Damage(lost_batches=3)).build()])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "XDG_STATE_HOME": str(directory / "state")}
    with (directory / "shell.log").open("w") as log:
        bash = subprocess.Popen(
            ["bash", "-c", script], cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = wait_process(bash, "the end of the commands", seen=lambda: (directory / "shell.log").stat().st_size)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(bash.pid, signal.SIGKILL)
            bash.wait()
    assert code == 0, (directory / "shell.log").read_text()[-4_000:]


def test_each_block_of_commands_is_run_by_a_test_of_this_file() -> None:
    assert len(BLOCKS) == EXAMPLES + 1
    kinds = {"Master": STANDALONE_START, "SparkConnectServer": CONNECT_START, "kill": STANDALONE_END}
    assert all(word in BLOCKS[number] for word, number in kinds.items())
    assert "spark://" in BLOCKS[STANDALONE_REPORT]
    assert "sc://" in BLOCKS[CONNECT_REPORT]
    assert set(re.findall(r"with_\w+\.py", BLOCKS[EXAMPLES])) == {
        path.name for path in (ROOT / "examples" / "analysis").glob("*.py")
    }


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_a_master_and_a_worker_are_started_analyse_a_run_and_end(tmp_path: Path) -> None:
    script = (
        WHOLE.format(block=BLOCKS[STANDALONE_START])
        + said("Successfully registered with master")
        + REPORT.format(block=BLOCKS[STANDALONE_REPORT])
        + WHOLE.format(block=BLOCKS[EXAMPLES])
        + WHOLE.format(block=BLOCKS[STANDALONE_END])
    )
    shell(tmp_path, script, {"7077": free_port()})
    run_dir = tmp_path / "runs" / "RUN"
    assert (run_dir / "report.html").is_file()
    told = (tmp_path / "shell.log").read_text()
    assert "reports: 1 cells, Spark on spark://127.0.0.1:" in (run_dir / "report.stderr.log").read_text()
    assert re.search(r"\|lossy\s*\|[1-9]", told), "with_spark.py names the lost ones"
    assert not (tmp_path / "spark-work").exists()


@pytest.mark.connect
def test_a_connect_server_is_started_and_analyses_a_run(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    script = (
        WHOLE.format(block=BLOCKS[CONNECT_START])
        + said("Spark Connect server started")
        + REPORT.format(block=BLOCKS[CONNECT_REPORT])
        + "kill $(jobs -p)\nwait\n"
    )
    shell(tmp_path, script, {"15002": free_port()})
    assert "Spark on sc://127.0.0.1:" in (tmp_path / "runs" / "RUN" / "report.stderr.log").read_text()
