"""The page: one small offline file that Chromium opens without a console message, light and dark, wide and narrow."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from reports.figures.figures import figures_of
from reports.figures.over_time import LATENCIES, LATENCIES_UNACKNOWLEDGED, OverTime, over_time
from reports.figures.settings import settings_of
from reports.figures.story import story_steps
from reports.judge.judged import Judged
from reports.judge.verdict import judge
from reports.read.cell import Cell
from reports.read.model import Basis, Latency
from reports.render.page import render
from tests.patience import run_command
from tests.reports.cells import changed, document_of
from tests.reports.conftest import Planted
from tests.reports.sweep_facts import cell_facts
from tests.reports.sweep_facts import judged as judged_facts

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PAGE_BYTES_MAX = 5_000_000
# Opens everything, waits for the charts and writes down what it saw.
PROBE = """<script>
document.querySelectorAll("details").forEach(d => { d.open = true; });
setTimeout(() => {
  const charts = [...document.querySelectorAll("[data-chart]")];
  setTimeout(() => {
    parent.postMessage({
      charts: charts.length,
      drawn: charts.filter(c => c.querySelector("svg.marks")).length,
      overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      width: innerWidth,
      ground: getComputedStyle(document.body).backgroundColor,
    }, "*");
  }, 20000);
}, 1000);
</script>
</body>"""
# Chromium makes no window narrower than 500 pixels; a frame may be.
FRAME = """<!doctype html><meta name="color-scheme" content="light dark"><title>frame</title><body>
<script>addEventListener("message", event => {
  const out = document.createElement("output");
  out.id = "probe";
  Object.assign(out.dataset, event.data);
  document.body.append(out);
});</script><iframe src="REPORT" width="WIDTH" height="1200" style="border: 0"></iframe>"""


@pytest.fixture(scope="module")
def judged(planted: Planted) -> list[Judged]:
    return [Judged(facts=item, verdict=judge(item)) for item in planted.facts]


@pytest.fixture(scope="module")
def page(planted: Planted, judged: list[Judged]) -> str:
    more = [unanswered(judged[0], "acks-0"), unanswered(judged[0], "mute", "end_to_end")]
    more += [on_two_hosts(unanswered(judged[0], "far-acks-0")), on_two_hosts(judged[0], "far")]
    return render(figures_of(planted.run, [*judged, *more]))


def on_two_hosts(item: Judged, cell_id: str = "") -> Judged:
    """The same cell, if its records had gone from one load host to another."""
    hosts = [
        {
            "name": name, "state": "done", "producers": [number], "consumers": [number],
            "clock": {"offset_us": 0.0, "error_us": 900.0, "samples": 9, "round_trip_us_min": 9.0},
        }
        for number, name in enumerate("ab")
    ]  # fmt: skip
    document = document_of(item.facts.cell)
    name = cell_id or item.facts.cell.cell_id
    document |= {"cell_id": name, "outcome": {**document["outcome"], "load_hosts": hosts}}
    facts = replace(item.facts, cell=changed(item.facts.cell, cell_id=name, document=document))
    return Judged(facts=facts, verdict=item.verdict)


def unanswered(item: Judged, cell_id: str, *more: str) -> Judged:
    """The same cell without latencies of acknowledgements, as with acks=0, and without those of the kinds `more`."""
    gone = ("corrected", "uncorrected", *more)
    slots = item.facts.slots.copy()
    for column in slots.columns:
        if column.startswith(tuple(f"{kind}_" for kind in gone)):
            slots[column] = float("nan")
    cell = changed(item.facts.cell, cell_id=cell_id, document={**document_of(item.facts.cell), "cell_id": cell_id})
    latency = {kind: Latency() if kind in gone else found for kind, found in item.facts.latency.items()}
    facts = replace(item.facts, cell=cell, slots=slots, latency=latency, throughput_basis=Basis.IN_LOG)
    return Judged(facts=facts, verdict=item.verdict)


@pytest.mark.spark
def test_latency_over_time_is_from_end_to_end_where_nobody_acknowledges(judged: list[Judged]) -> None:
    def of(item: Judged) -> OverTime:
        return over_time(item.facts, ())

    answered, silent = of(judged[0]), of(unanswered(judged[0], "acks-0"))
    assert (answered.latencies, silent.latencies) == (LATENCIES, LATENCIES_UNACKNOWLEDGED)
    assert {point.series for point in silent.latency} == {"end to end p99", "end to end mean"}
    assert silent.spread != ()
    assert of(unanswered(judged[0], "mute", "end_to_end")).latencies == ()


@pytest.mark.spark
def test_the_page_is_one_file_that_asks_the_network_for_nothing(page: str) -> None:
    assert len(page.encode()) < PAGE_BYTES_MAX
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", markup)
    assert "url(http" not in page
    assert "@import" not in markup
    assert page.count("window.vegaEmbed") == 1


@pytest.mark.spark
def test_every_chart_has_its_data_and_a_table(page: str, judged: list[Judged]) -> None:
    wanted = set(re.findall(r'data-chart="([^"]+)"', page))
    assert {f"time-{item.facts.cell.cell_id}" for item in judged} < wanted
    for name in wanted:
        assert f'"{name}":' in page
    assert page.count("Table behind the chart") >= len(judged)


@pytest.mark.spark
def test_the_front_page_tells_the_damage_of_every_cell_as_it_was_found(planted: Planted, judged: list[Judged]) -> None:
    front = figures_of(planted.run, judged).overview
    failed = sum(item.verdict.result == "fail" for item in judged)
    assert front.head.cells.startswith(f"{failed} failed")
    told = {
        cell.cell_id: [finding.text for finding in cell.findings]
        for row in front.damage.rows
        for cell in (*row.permits, *row.does_not)
    }
    struck = [item for item in judged if item.facts.lost and item.facts.cell.kind == "chaos"]
    assert struck != []
    for item in struck:
        assert f"{item.facts.lost:,} lost" in told[item.facts.cell.cell_id]


@pytest.mark.spark
def test_a_chaos_cell_says_what_is_done_and_why_it_must_end_so_before_its_figures(page: str) -> None:
    about = page.index("The leader dies &amp; a &lt;follower&gt; takes over.")
    assert about < page.index("It never had the tail.", about) < page.index("Source: a system test", about)
    assert page.index("Source: a system test", about) < page.index('<ul class="reasons">', about)


@pytest.mark.spark
def test_the_story_of_a_lost_record_goes_from_intended_to_lost(judged: list[Judged]) -> None:
    facts = next(item for item in judged if item.facts.cell.cell_id == "all-2").facts
    steps = {story.kind: [step.what for step in story_steps(facts, story)] for story in facts.stories}
    lost = steps["lost"]
    assert lost[:2] == ["intended", "sent"]
    assert lost[-1] == "lost"
    assert lost.index("acknowledged") < lost.index("leader change") < lost.index("truncated")
    assert steps["duplicated"].count("appended") == 2
    assert steps["duplicated"].count("attempt 1") == 1
    assert steps["duplicated"][-1] == "duplicated"
    assert "attempt 2" in steps["reordered"]


def _with(item: Judged, **parts: object) -> Judged:
    """The same with other parts of its cell's document."""
    cell = changed(item.facts.cell, document={**document_of(item.facts.cell), **parts})
    return replace(item, facts=replace(item.facts, cell=cell))


@pytest.mark.spark
def test_titles_from_a_suite_cannot_become_markup(planted: Planted, judged: list[Judged]) -> None:
    titled = [_with(item, title="</script><script>alert(1)</script>") for item in judged]
    page = render(figures_of(planted.run, titled))
    assert "alert(1)" in page
    assert "<script>alert(1)" not in page


@pytest.mark.spark
def test_damage_of_which_any_number_is_allowed_is_set_against_no_prediction(
    planted: Planted, judged: list[Judged]
) -> None:
    item = next(item for item in judged if item.facts.set_count("reordered"))
    given = _with(item, expect={**document_of(item.facts.cell)["expect"], "reordered": "any"})
    page = render(figures_of(planted.run, [given]))
    assert f"{item.facts.set_count('reordered'):,}<small>allowed</small>" in page
    assert "allowed: any number is accepted, and none is predicted" in page


def open_page(path: Path, *, width: int, dark: bool) -> tuple[dict[str, str], list[str]]:
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory() as profile:
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
        command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        command += [f"--user-data-dir={profile}", "--window-size=1400,1300", "--virtual-time-budget=30000"]
        command += [f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--enable-logging=stderr"]
        frame = path.with_name("frame.html")
        frame.write_text(FRAME.replace("REPORT", path.name).replace("WIDTH", str(width)), encoding="utf-8")
        command += ["--dump-dom", frame.as_uri()]
        done = run_command(command, check=True)
    probe = re.search(r'<output id="probe"([^>]*)>', done.stdout)
    assert probe, done.stderr[-2000:]
    seen = dict(re.findall(r'data-(\w+)="([^"]*)"', probe.group(1)))
    return seen, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.spark
@pytest.mark.chromium
@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "dark"),
    [
        pytest.param(1300, True, id="1300-dark", marks=pytest.mark.long),
        pytest.param(360, False, id="360-light"),
        pytest.param(1300, False, id="1300-light", marks=pytest.mark.long),
        pytest.param(360, True, id="360-dark", marks=pytest.mark.long),
    ],
)
def test_chromium_draws_every_chart_without_a_console_message(
    page: str, tmp_path: Path, width: int, dark: bool
) -> None:
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH")
    path = tmp_path / "report.html"
    head, _, tail = page.rpartition("</body>")
    path.write_text(head + PROBE + tail, encoding="utf-8")
    seen, console = open_page(path, width=width, dark=dark)
    assert console == []
    assert int(seen["charts"]) > 20
    assert seen["drawn"] == seen["charts"]
    assert int(seen["overflow"]) <= 0, "the page is wider than the window"
    assert (seen["ground"] == "rgb(255, 255, 255)") is not dark
    assert int(seen["width"]) == width


@pytest.mark.spark
def test_a_chart_between_two_load_hosts_has_the_bound_of_their_clocks_as_a_band(page: str) -> None:
    text = page.partition('<script id="payload" type="application/json">')[2].partition("</script>")[0]
    charts = json.loads(text)["charts"]
    assert charts["time-far-acks-0"]["data"]["clock"]["low"]
    assert charts["curve-far"]["data"]["clock"]["low"]
    assert charts["curve-acks-0"]["data"]["clock"] == charts["time-acks-0"]["data"]["clock"] == {}, "one clock"
    assert page.count("the grey band in the charts") == 2


def test_what_is_for_a_screen_alone_does_not_reach_paper() -> None:
    """Neither the dark colours nor the layout of a narrow window, and the headings of a table are no buttons there."""
    style = (Path(__file__).resolve().parents[2] / "reports" / "render" / "templates" / "style.css").read_text()
    assert "@media (prefers-color-scheme" not in style
    assert "@media (max-width:1099px)" not in style
    printed = style.partition("@media print{")[2]
    for rule in ("button:not(th button)", "table-layout:fixed", ".chart svg{max-width:100%", "tr,li,figure"):
        assert rule in printed
    assert ".scroll thead th button{white-space:normal" in printed, "headings of narrow columns lay upon each other"
    assert ".scroll thead th.words{width:" in printed, "a column of sentences as narrow as one of numbers took 13 pages"
    assert ".multiples.wide{grid-template-columns:minmax(0,1fr)}" in printed, "two beside each other cannot be read"
    script = (Path(__file__).resolve().parents[2] / "reports" / "render" / "templates" / "page.js").read_text()
    assert '"beforeprint", () => document.querySelectorAll("details.on-paper, .card details")' in script
    assert "details.cell[open]{break-before:page}" in printed


@pytest.mark.spark
def test_paper_has_the_cells_under_faults_and_each_setting_that_differs_in_a_line(page: str) -> None:
    """A table with a column for each setting was broken letter by letter there, a page for each cell."""
    opened = re.findall(r'<details class="cell( on-paper)?" id="cell-([^"]+)"', page)
    assert {cell for paper, cell in opened if paper}
    assert all(paper for paper, cell in opened if not cell.startswith("sweep"))
    words = page.partition('<dl class="pairs paper">')[2].partition("</dl>")[0]
    assert '<div class="scroll screen" tabindex="0"><table><thead><tr><th>cell</th>' in page
    assert "<dt>workload: producers</dt>" in words


def test_a_setting_that_differs_names_the_cells_of_its_rarer_values() -> None:
    sweep = [cell_facts({"linger.ms": value}, p99_us=9_000, repetition=n) for n in (1, 2) for value in ("5", "50", "5")]
    (one,) = [words for name, words in settings_of(judged_facts(sweep)).in_words if name == "client: linger.ms"]
    assert one == "50 in linger.ms=50; 5 in the others"


def test_settings_that_a_test_is_about_come_first_and_ports_stand_apart() -> None:
    sweep = [
        cell_facts({"linger.ms": value, "acks": acks}, p99_us=9_000) for value, acks in (("5", "1"), ("50", "all"))
    ]
    ports = (
        {"listeners": "INTERNAL://127.0.0.1:1", "log.flush": "a"},
        {"listeners": "INTERNAL://127.0.0.1:2", "log.flush": "b"},
    )
    made = [replace(item, cell=_with_broker(item.cell, own)) for item, own in zip(sweep, ports, strict=True)]
    found = settings_of(judged_facts(made))
    assert found.different[0] == "client: acks"
    assert "broker: log.flush" in found.different
    assert [name for name, _ in found.places if name.startswith("broker")] == ["broker: listeners"]


def _with_broker(cell: Cell, broker: dict[str, str]) -> Cell:
    effective = replace(cell.record.outcome.effective, broker=broker)
    return replace(cell, record=replace(cell.record, outcome=replace(cell.record.outcome, effective=effective)))
