"""The front page in Chromium: nothing is wider than the page, no column is hidden, and it can be used by keyboard."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from reports.render.page import render, vega
from tests.patience import run_command
from tests.reports.overview_runs import every_kind

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS = (1280, 360)
# Waits until the page has stood for a moment, then tells what sticks out of it. Charts further down are not asked for.
PROBE = """<script>
addEventListener("load", () => setTimeout(() => {
  const name = e => `${e.tagName.toLowerCase()}.${e.getAttribute("class") || ""} ${e.textContent.trim().slice(0, 30)}`;
  const all = [...document.querySelectorAll("header.top *, nav *, .front *, #cells *")];
  const own = all.filter(e => !e.closest("svg *"));
  const drawn = own.filter(e => e.getClientRects().length && getComputedStyle(e).visibility !== "hidden");
  const out = drawn.filter(e => {
    const {left, right} = e.getBoundingClientRect();
    return right > document.documentElement.clientWidth + 0.5 || left < -0.5;
  });
  const clipped = drawn.filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== "visible");
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const overlaid = [
    ...[...document.querySelectorAll(".forest tbody td")].filter(td => {
      const dot = td.querySelector("circle"), text = td.querySelector("span");
      return dot && meet(dot.getBoundingClientRect(), text.getBoundingClientRect());
    }),
    ...[...document.querySelectorAll(".axis span + span")].filter(
      tick => meet(tick.previousElementSibling.getBoundingClientRect(), tick.getBoundingClientRect())),
  ];
  const folded = document.querySelector(".group-head button[aria-expanded=false]");
  const group = folded && document.getElementById(folded.getAttribute("aria-controls"));
  const wasHidden = group ? !group.getClientRects().length : null;
  if (folded) folded.click();
  const box = [...document.querySelectorAll("[data-column]")].find(own => !own.checked);
  const column = box && document.querySelector(`td[data-col="${box.dataset.column}"]`);
  const wasOff = column ? column.hidden : null;
  if (box) box.click();
  const overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  document.querySelectorAll("details").forEach(own => { own.open = true; });
  const wide = [...document.querySelectorAll("main *")].filter(
    e => !e.closest(".scroll, pre, svg")
      && e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5);
  parent.postMessage({
    run: location.hash.slice(1), width: innerWidth,
    overflow, opened: wide.map(name),
    out: out.map(name), clipped: clipped.map(name),
    folds: folded ? [wasHidden, !group.getClientRects().length] : null,
    chooses: column ? [wasOff, column.hidden] : null,
    unreachable: [...document.querySelectorAll(".front [data-copy], .group-head button, a.struck")]
      .filter(e => { e.focus(); return document.activeElement !== e; }).map(name),
    overlaid: overlaid.map(name),
    timelines: document.querySelectorAll(".small-time").length,
  }, "*");
}, 1500));
</script>
</body>"""
# Chromium makes no window narrower than 500 pixels; a frame may be.
FRAMES = """<!doctype html><title>frames</title><body>
<script>addEventListener("message", event => {
  const out = document.createElement("output");
  out.textContent = JSON.stringify(event.data);
  document.body.append(out);
});</script>FRAMES"""


def without_charts(page: str) -> str:
    """The page without the charts further down, which take seconds each and are a test of their own."""
    page = page.replace(f"<script>{vega()}</script>", "")
    return re.sub(
        r'(<script id="payload"[^>]*>).*?</script>', r'\1{"charts":{},"specs":{}}</script>', page, flags=re.DOTALL
    )


def probed(directory: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """What each page said of itself in a frame of each width; and all messages of the console."""
    assert CHROMIUM is not None
    frames = []
    for name, figures in every_kind().items():
        head, _, tail = without_charts(render(figures)).rpartition("</body>")
        (directory / f"{name}.html").write_text(head + PROBE + tail, encoding="utf-8")
        frames += [
            f'<iframe src="{name}.html#{name}" width="{w}" height="900" style="border:0"></iframe>' for w in WIDTHS
        ]
    page = directory / "frames.html"
    page.write_text(FRAMES.replace("FRAMES", "".join(frames)), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += [f"--user-data-dir={directory / 'profile'}", "--window-size=1400,1300", "--virtual-time-budget=15000"]
    command += ["--enable-logging=stderr", "--dump-dom", page.as_uri()]
    done = run_command(command, check=True)
    seen = [json.loads(html.unescape(found)) for found in re.findall(r"<output>(.*?)</output>", done.stdout)]
    assert len(seen) == len(frames), done.stderr[-2000:]
    return seen, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.chromium
@pytest.mark.slow
def test_no_run_has_a_front_that_is_wider_than_the_page_or_hides_a_column(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH")
    seen, console = probed(tmp_path)
    assert console == []
    assert {own["width"] for own in seen} == set(WIDTHS)
    for own in seen:
        at = own["run"], own["width"]
        assert (*at, own["overflow"], own["out"], own["clipped"]) == (*at, 0, [], [])
        assert (*at, own["opened"]) == (*at, []), "nor with everything unfolded"
        assert (*at, own["overlaid"]) == (*at, []), "no dot lies on its figure, and no tick on another"
        assert (*at, own["unreachable"]) == (*at, []), "all that can be clicked can be reached by keyboard"
    for own in (own for own in seen if own["run"] == "demo"):
        assert own["timelines"] == 7
        assert own["folds"] == [True, False], "the sweep is folded until somebody asks for it"
        assert own["chooses"] == [True, False], "a column that waits is shown when it is chosen"
    assert {own["folds"] for own in seen if own["run"] == "sweep"} == {None}
