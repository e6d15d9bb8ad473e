"""The front page in Chromium: nothing is wider than the page, no column is hidden, and it can be used by keyboard."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reports.render.page import render
from tests.reports.overview_runs import every_kind

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
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
  const folded = document.querySelector(".group-head button[aria-expanded=false]");
  const group = folded && document.getElementById(folded.getAttribute("aria-controls"));
  const wasHidden = group ? !group.getClientRects().length : null;
  if (folded) folded.click();
  const box = [...document.querySelectorAll("[data-column]")].find(own => !own.checked);
  const column = box && document.querySelector(`td[data-col="${box.dataset.column}"]`);
  const wasOff = column ? column.hidden : null;
  if (box) box.click();
  parent.postMessage({
    run: location.hash.slice(1),
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    out: out.map(name), clipped: clipped.map(name),
    folds: folded ? [wasHidden, !group.getClientRects().length] : null,
    chooses: column ? [wasOff, column.hidden] : null,
    unreachable: [...document.querySelectorAll(".front [data-copy], .group-head button, a.struck")]
      .filter(e => { e.focus(); return document.activeElement !== e; }).map(name),
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


def probed(directory: Path, *, width: int) -> tuple[dict[str, Any], list[str]]:
    """Run -> what its page said of itself in a frame of this width; and all messages of the console."""
    assert CHROMIUM is not None
    frames = []
    for name, figures in every_kind().items():
        head, _, tail = render(figures).rpartition("</body>")
        (directory / f"{name}.html").write_text(head + PROBE + tail, encoding="utf-8")
        frames.append(f'<iframe src="{name}.html#{name}" width="{width}" height="900" style="border:0"></iframe>')
    page = directory / "frames.html"
    page.write_text(FRAMES.replace("FRAMES", "".join(frames)), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += [f"--user-data-dir={directory / 'profile'}", "--window-size=1400,1300", "--virtual-time-budget=20000"]
    command += ["--enable-logging=stderr", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    seen = [json.loads(html.unescape(found)) for found in re.findall(r"<output>(.*?)</output>", done.stdout)]
    assert len(seen) == len(frames), done.stderr[-2000:]
    return {one["run"]: one for one in seen}, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.chromium
@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390, 360])
def test_no_run_has_a_front_that_is_wider_than_the_page_or_hides_a_column(tmp_path: Path, width: int) -> None:
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH")
    seen, console = probed(tmp_path, width=width)
    assert console == []
    for run, own in seen.items():
        assert (run, own["overflow"], own["out"], own["clipped"]) == (run, 0, [], [])
        assert (run, own["unreachable"]) == (run, [])
    assert seen["demo"]["timelines"] == 7
    assert seen["demo"]["folds"] == [True, False], "the sweep is folded until somebody asks for it"
    assert seen["demo"]["chooses"] == [True, False], "a column that waits is shown when it is chosen"
    assert seen["sweep"]["folds"] is None
