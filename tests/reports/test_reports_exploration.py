"""The page of a search: what stands on it, live and afterwards, with nothing, much and hostile things found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reports.figures.exploration import LEFT, WIDTH, exploration_figures
from reports.render.exploration import render, write_exploration_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FINDING = {
    "number": 1,
    "stage": "confirmed",
    "signature": "duplicated (producer, Produce)",
    "api": "Produce",
    "what": "in the log twice: record 7",
    "shown": 3,
    "tried": 3,
    "controls_shown": 0,
    "controls_tried": 3,
    "steps": 2,
    "disturbance": "one Produce: late answer by 3000 ms",
    "found_after_s": 30.0,
    "again": "harness explore --again runs/x/findings/1/trial.json -- ./client",
    "files": ["findings/1/trial.json"],
}
TRIES = [
    [10.0, 2.0, "new", "Fetch", "late answer", "as it should", "", 4],
    [30.0, 2.0, "new", "Produce", "late answer", "suspicious", "duplicated", 8],
]
COUNTS = [
    {"lane": "Fetch", "how": "late answer", "result": "as it should", "count": 1},
    {"lane": "Produce", "how": "late answer", "result": "suspicious", "count": 1},
]


def document(**others: Any) -> dict[str, Any]:
    return {
        "client": "a client",
        "version": "1.0",
        "cluster": "reference",
        "cluster_version": "0",
        "seed": 7,
        "is_running": False,
        "is_interrupted": False,
        "elapsed_s": 60.0,
        "budget_s": 120.0,
        "trials": 2,
        "disturbances_that_met_nothing": 0,
        "single_disturbances_not_tried": 3,
        "not_tried_by_api": {"Metadata": 3},
        "features_met": 8,
        "features_unseen_at_least": 1.5,
        "exchange_log_bytes_dropped": 0,
        "trials_given_up": 0,
        "trials_that_proved_nothing": [],
        "findings": [],
        "causes": [],
        "diary": {"shown_of_ordinary": 1, "tries": TRIES, "counts": COUNTS},
        **others,
    }


FOUND = document(findings=[FINDING], causes=[{"cause": "duplicated (producer)", "findings": [1], "known": ""}])
KNOWN = document(findings=[FINDING], causes=[{"cause": "duplicated (producer)", "findings": [1], "known": "issue 7"}])


@pytest.mark.parametrize(
    ("of", "result", "badge", "state"),
    [
        (document(), "nothing found", "pass", "ended"),
        (document(is_running=True), "nothing found yet", "inconclusive", "running"),
        (document(trials_that_proved_nothing=["a", "b"]), "most trials proved nothing", "inconclusive", "ended"),
        (FOUND, "1 found", "fail", "ended"),
        (KNOWN, "nothing found", "pass", "ended"),
        (document(is_interrupted=True), "nothing found", "pass", "interrupted"),
    ],
)
def test_the_result_is_what_was_confirmed_and_is_not_known(
    of: dict[str, Any], result: str, badge: str, state: str
) -> None:
    figures = exploration_figures(of)
    assert (figures.result, figures.badge, figures.state) == (result, badge, state)


def test_a_trial_stands_at_its_time_in_the_row_of_its_api_and_what_was_not_tried_has_a_row_too() -> None:
    figures = exploration_figures(FOUND)
    assert [(row.name, row.tried, row.left) for row in figures.rows] == [
        ("Fetch", 1, 0),
        ("Metadata", 0, 3),
        ("Produce", 1, 0),
    ]
    right, wrong = figures.dots
    assert (wrong.style, wrong.x) == ("suspicious", LEFT + WIDTH / 4)
    assert abs(right.y - figures.rows[0].y) < 10
    assert [one.x for one in figures.found_at] == [LEFT + WIDTH / 4]


@pytest.mark.parametrize("budget_s", [10, 60, 600, 3_600, 86_400])
def test_the_axis_has_few_ticks_whatever_the_budget(budget_s: int) -> None:
    ticks = exploration_figures(document(budget_s=budget_s, elapsed_s=1)).ticks
    assert 2 <= len(ticks) <= 9
    assert len({tick.label for tick in ticks}) == len(ticks)


def test_only_the_page_of_a_search_that_runs_loads_itself_anew() -> None:
    assert 'http-equiv="refresh"' in render(document(is_running=True), {})
    assert 'http-equiv="refresh"' not in render(document(), {})


def test_the_page_tells_the_finding_its_command_and_its_story() -> None:
    page = render(FOUND, {1: "0.250 acknowledged record 7"})
    for text in (FINDING["what"], FINDING["again"], FINDING["disturbance"], "0.250 acknowledged record 7"):
        assert str(text) in page


def test_a_client_that_lies_about_its_name_writes_no_markup() -> None:
    page = render(document(client="<script>alert(1)</script>\x00"), {})
    assert "<script" not in page
    assert "\x00" not in page


def test_the_page_is_one_file_that_asks_for_nothing_and_stays_small(tmp_path: Path) -> None:
    diary = {"shown_of_ordinary": 2, "tries": TRIES * 2_000, "counts": COUNTS}
    text = write_exploration_page({**FOUND, "diary": diary}, {1: "story"}, tmp_path).read_text()
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', text)
    assert len(text) < 1_000_000


@pytest.mark.chromium
@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1240])
def test_a_browser_draws_it_and_the_page_is_no_wider_than_the_window(tmp_path: Path, width: int) -> None:
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH")
    page = write_exploration_page(FOUND, {1: "a story " * 200}, tmp_path)
    frame = tmp_path / "frame.html"
    # A frame, because a headless window has a width of at least 500.
    frame.write_text(
        f'<iframe id="f" width="{width}" height="900" src="{page.name}"></iframe><pre id="out"></pre><script>'
        "f.onload = () => { const d = f.contentDocument.documentElement;"
        "out.textContent = JSON.stringify([d.scrollWidth, d.clientWidth,"
        "f.contentDocument.querySelectorAll('circle').length]); };</script>"
    )
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]
    told = subprocess.run(
        [CHROMIUM, *arguments, "--virtual-time-budget=5000", frame.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout
    found = re.search(r'id="out">(\[.*?\])<', told)
    assert found is not None, told
    scrolled, shown, circles = json.loads(found[1])
    assert scrolled <= shown
    assert circles == len(TRIES) + 4, "the trials, and the legend"
