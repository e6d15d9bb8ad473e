"""In a real browser no name of the price of safety, or of the durability surface, lies on another, wide and narrow,
light and dark."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html import unescape
from itertools import combinations
from pathlib import Path

import pytest

from reports.figures.figures import Figures, figures_of
from reports.figures.price import PricePoint
from reports.figures.price_names import price_names
from reports.figures.sweep.figures import SurfacePoint
from reports.figures.sweep.surface_names import ON_FRONT, surface_names
from reports.render.page import render
from tests.patience import run_command
from tests.reports.cells import make_run
from tests.reports.test_reports_capacity import analysed, two_windows

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHARTS = ("price", "surface-p99")
# Where the names are, as soon as the charts are there. Chromium's virtual time ends the wait, not a clock.
PROBE = """<script>
const look = () => {
  const seen = CHARTS.map(chart => [...document.querySelectorAll(`[data-chart="${chart}"] svg text`)]
    .filter(text => text.closest('[class*="mark-text"][class*="layer"]')));
  if (!seen.every(names => names.length)) { setTimeout(look, 100); return; }
  const out = document.createElement("output");
  out.id = "probe";
  out.dataset.seen = JSON.stringify(seen.map(names => names.map(text => {
    const box = text.getBoundingClientRect();
    return [text.textContent, box.left, box.top, box.right, box.bottom];
  })));
  document.body.append(out);
};
document.querySelectorAll("details").forEach(d => { d.open = true; });
look();
</script>
</body>"""


def figures() -> Figures:
    """Eighteen configurations: most of them hardly differ, as those of a real sweep do. On the surface they have two
    lanes."""
    _, items = analysed(two_windows())
    made = figures_of(make_run("r", manifest={}, cells=tuple(item.facts.cell for item in items)), items)
    points: list[PricePoint] = []
    for index in range(18):
        p99, rate = (20.0 + index % 3 * 0.01, 30_000.0 + index) if index < 12 else (40.0 * index, 2_500.0 * index)
        bounds = {"rate_low": rate * 0.9, "rate_high": rate * 1.1, "p99_low": p99 * 0.9, "p99_high": p99 * 1.1}
        own = replace(made.price.points[0], rate=rate, p99=p99, front=index in (0, 17), **bounds)
        points.append(replace(own, title=f"setting.number={index} (with others)"))
    assert made.sweep is not None
    drawn = [
        SurfacePoint(
            title=point.title, settings="", lane=f"loses none|{'nothing damaged' if index < 12 else 'lost some'}",
            damage="", x=point.p99, low=point.p99 * 0.9, high=point.p99 * 1.1,
            front=ON_FRONT if point.front else "beaten by another", share=0.5, figure="",
        )
        for index, point in enumerate(points)
    ]  # fmt: skip
    names = surface_names(drawn, is_log=True)
    sweep = replace(made.sweep, surface={"p99": tuple(drawn)}, surface_names={"p99": names})
    return replace(made, price_drawn=tuple(points), price_names=price_names(points), sweep=sweep)


@pytest.mark.chromium
@pytest.mark.slow
@pytest.mark.parametrize(
    "dark", [pytest.param(False, id="light"), pytest.param(True, id="dark", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.long), 500])
def test_no_drawn_name_lies_on_another(tmp_path: Path, width: int, dark: bool) -> None:
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH")
    head, _, tail = render(figures()).rpartition("</body>")
    path = tmp_path / "report.html"
    path.write_text(head + PROBE.replace("CHARTS", json.dumps(CHARTS)) + tail, encoding="utf-8")
    done = run_command(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         f"--window-size={width},1200", f"--blink-settings=preferredColorScheme={0 if dark else 1}",
         f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=60000", "--dump-dom", path.as_uri()],
    )  # fmt: skip
    found = re.search(r'id="probe" data-seen="([^"]*)"', done.stdout)
    assert found, done.stderr[-2000:]
    for chart, boxes in zip(CHARTS, json.loads(unescape(found.group(1))), strict=True):
        assert sorted(box[0] for box in boxes) == sorted(f"setting.number={index}" for index in range(18)), chart
        for one, other in combinations(boxes, 2):
            over = min(one[4], other[4]) - max(one[2], other[2])  # of two lines: their letters' boxes are taller
            assert over < 2 or min(one[3], other[3]) <= max(one[1], other[1]), f"{chart}: {one} lies on {other}"
