"""Renders report.html: one offline file, Vega inlined once, styles and script inlined, a table behind every chart."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from reports import chart_data, generator, search, waterfall
from reports.anomalies import ANOMALIES, BY_NAME
from reports.asked import achieved_ratio, unsent
from reports.charts import specifications
from reports.criteria import Criteria
from reports.definitions import DEFINITIONS
from reports.lawful import TYPICAL, Configuration, configuration_of, rule, table
from reports.model import PREDICTED_KINDS, CellFacts, Json, Run, Story
from reports.narrative import Step, story_steps, verdict_sentences
from reports.noise import disturbance
from reports.outputs import Judged, overall
from reports.publication import PAGE
from reports.redelivery import redelivery_sentences
from reports.replica_logs import pictures
from reports.sweep import charts as sweep_charts
from reports.sweep import view as sweep_view
from reports.sweep.analysis import analyse_sweep
from reports.verdict import PASS, expectation, is_any_allowed

RANGES_SHOWN = 60
TABLE_ROWS_MAX = 150  # longer time tables are in results/time.csv
# Only the embedder is called from the page.
VEGA_GLOBALS = "window.vegaEmbed = vegaEmbed;"
_SIGNS = {"pass": "✓", "fail": "✗", "inconclusive": "?"}


def render(run: Run, judged: Sequence[Judged]) -> str:
    """The whole page."""
    environment = Environment(
        loader=PackageLoader("reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=_number, ms=_ms, percent=_percent, json_text=json_text)
    sweep = chart_data.sweep_data(judged)
    price = chart_data.price_data(judged)
    cells = [_cell_view(item) for item in judged]
    charts: dict[str, Json] = {"price": {"spec": "price", "data": price}} if price["price"] else {}
    for knob, rows in sweep.items():
        for measure in ("throughput", "p99", "records_per_batch"):
            charts[f"sweep-{measure}-{knob}"] = {"spec": f"sweep_{measure}", "data": {"sweep": rows}}
    for item in judged:
        cell_id = item.facts.cell.cell_id
        time, curve = chart_data.time_data(item.facts), chart_data.curve_data(item.facts)
        charts[f"time-{cell_id}"] = {"spec": chart_data.time_specification(time), "data": time}
        if curve["curve"]:
            charts[f"curve-{cell_id}"] = {"spec": "curve", "data": curve}
    analysis = analyse_sweep(judged)
    charts.update(sweep_view.charts(analysis) if analysis else {})
    charts.update(generator.chart(judged))
    charts.update(waterfall.charts(judged))
    found = search.read_search(Path(run.directory))
    charts.update(search.charts(found, judged) if found else {})
    payload = {
        "specs": {
            **specifications(**_limits(sweep)),
            "generator": generator.specification(),
            "waterfall": waterfall.specification(),
            **(search.specifications() if found else {}),
            **sweep_charts.specifications(**sweep_view.ratio_limits(analysis)),
        },
        "charts": {name: {"spec": c["spec"], "data": _columns(c["data"])} for name, c in charts.items()},
    }
    return environment.get_template("report.html.j2").render(
        run=run,
        title=run.manifest.get("suite") or run.manifest.get("run_id") or Path(run.directory).name,
        manifest=run.manifest,
        overall=overall(judged, run.problems),
        signs=_SIGNS,
        sentences=verdict_sentences(judged, analysis),
        recommendation=sweep_view.recommendation_view(analysis) if analysis else None,
        generator=generator.view(judged, run.manifest),
        search=search.view(found, judged) if found else None,
        waterfall=waterfall.view(judged),
        criteria=Criteria(),
        analysis=sweep_view.view(analysis) if analysis else None,
        cells=cells,
        charts=charts,
        kinds=PREDICTED_KINDS,
        price=price["price"],
        sweep=sweep,
        anomalies=ANOMALIES,
        typical=TYPICAL,
        lawfulness=table(),
        definitions=DEFINITIONS,
        settings=_settings(judged),
        command=shlex.join(str(word) for word in run.manifest.get("argv", [])),
        payload=payload,
        vega=Markup(script_safe(vl_convert.javascript_bundle(VEGA_GLOBALS))),
    )


def write_page(run: Run, judged: Sequence[Judged], *, into: Path | None = None) -> Path:
    path = (into or Path(run.directory)) / PAGE
    temporary = path.with_name(f".{PAGE}.tmp")
    temporary.write_text(render(run, judged), encoding="utf-8")
    os.replace(temporary, path)
    return path


def _limits(sweep: Mapping[str, list[Json]]) -> dict[str, float]:
    rows = [row for group in sweep.values() for row in group]

    def top(name: str) -> float:
        return max([float(row[name]) for row in rows if row[name] is not None], default=1.0) * 1.05

    return {
        "p99_max_ms": top("p99_high"),
        "throughput_max": top("throughput_high"),
        "records_per_batch_max": top("records_per_batch"),
    }


def _columns(data: Mapping[str, list[Json]]) -> dict[str, Json]:
    """Rows as columns: the page is half as large, and a line of script turns them back."""
    return {
        name: {column: [row.get(column) for row in rows] for column in dict.fromkeys(k for row in rows for k in row)}
        for name, rows in data.items()
    }


def script_safe(text: str) -> str:
    """Nothing inside a script element may look like its end or like a comment's start."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def json_text(value: object) -> Markup:
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def _number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _ms(value: float | None) -> str:
    """Microseconds as milliseconds, three significant digits."""
    if value is None:
        return "–"
    milliseconds = value / 1000
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value * 100:.0f} %"


_CATALOGUE: Final = re.compile(r"S\d+")
_EXPECTED_WORDS: Final = {
    "none": "none",
    "exact": "exactly those that the evidence predicts",
    "predicted": "exactly those that the evidence predicts, and more than none",
    "any": "any number",
}


def _about(facts: CellFacts) -> Json:
    """What a reader must know before the figures: what is done to the cluster, why this outcome, where it is from."""
    cell = facts.cell
    kinds: dict[str, list[str]] = {}
    for kind in PREDICTED_KINDS:
        kinds.setdefault(_EXPECTED_WORDS[expectation(facts, kind)], []).append(kind)
    return {
        "scenario": cell.text("about"),
        "because": cell.text("note"),
        "expected": "; ".join(f"{', '.join(names)}: {words}" for words, names in kinds.items()),
        "source": cell.text("source").rstrip("."),
        "catalogue": ", ".join(str(tag) for tag in cell.document.get("tags") or () if _CATALOGUE.fullmatch(str(tag))),
    }


def _cell_view(item: Judged) -> Json:
    """What the templates show of one cell."""
    facts = item.facts
    cell = facts.cell
    configuration = configuration_of(cell)
    start_us, end_us = cell.window_us()
    observed_time = facts.gap_start_us
    return {
        "id": cell.cell_id,
        "stages": waterfall.cell_rows(item),
        "stages_drawn": any(waterfall.in_order(waterfall.waterfalls(item))),
        "title": cell.title,
        "kind": cell.kind,
        "facts": facts,
        "verdict": item.verdict,
        "about": _about(facts) if cell.kind == "chaos" else None,
        "brief": configuration.text() if cell.kind == "chaos" else "",
        "settings": chart_data.settings_text(cell) or configuration.text(),
        "configuration": configuration,
        "corrected": facts.latency["corrected"],
        "uncorrected": facts.latency["uncorrected"],
        "end_to_end": facts.latency["end_to_end"],
        "lag": facts.latency["schedule_lag"],
        "window_s": (end_us - start_us) / 1e6,
        "gap_at_s": None if observed_time is None else (observed_time - cell.span_us()[0]) / 1e6,
        "faults": chart_data.fault_windows(cell),
        "steps": chart_data.timeline_steps(cell),
        "sets": {kind: _set_view(facts, kind) for kind in PREDICTED_KINDS},
        "rulings": {kind: rule(kind, configuration) for kind in PREDICTED_KINDS},
        "others": _other_anomalies(facts, configuration),
        "looked_for": len(ANOMALIES) - len(PREDICTED_KINDS),
        "recovery": _recovery_view(facts),
        "pictures": pictures(facts),
        "stories": [_story_view(facts, story) for story in facts.stories],
        "time_rows": _time_rows(facts),
        "achieved": achieved_ratio(facts),
        "health": {k: v for k, v in (cell.outcome.get("health") or {}).items() if isinstance(v, int | float)},
        "redelivery": redelivery_sentences(cell.outcome.get("health") or {}),
        "host": _host_noise(facts),
        "disturbed": disturbance(facts),
        "open": cell.kind == "chaos" or item.verdict.result != PASS,
        "censored": facts.counts.failed + facts.counts.unknown,
        "never_sent": unsent(cell),
    }


def _other_anomalies(facts: CellFacts, configuration: Configuration) -> list[Json]:
    """Those that were seen, beside the three that are predicted."""
    return [
        {
            "count": facts.anomaly_count(anomaly.name),
            "title": anomaly.title.lower(),
            "lawful": rule(anomaly.name, configuration).lawful,
            "example": next(iter(facts.findings[anomaly.name].examples), "") if anomaly.name in facts.findings else "",
        }
        for anomaly in ANOMALIES
        if anomaly.name not in PREDICTED_KINDS and facts.anomaly_count(anomaly.name)
    ]


def _recovery_view(facts: CellFacts) -> list[tuple[str, str]]:
    found = facts.recovery
    if found is None:
        return []
    times = (
        ("detected after", found.detect_us),
        ("new leader after", found.elect_us),
        ("first acknowledgement after", found.first_ack_us),
        ("service back after", found.recover_us),
    )
    rows = [(name, "not seen" if value is None else f"{value / 1e6:.2f} s") for name, value in times]
    area = found.area_record_seconds
    return [*rows, ("area of violation", "not seen" if area is None else f"{area:,.0f} record-seconds")]


def _set_view(facts: CellFacts, kind: str) -> Json:
    comparison = facts.predictions[kind]
    parts = []
    for name, words in (
        ("only_predicted", "only predicted"),
        ("both", "both"),
        ("only_observed", "only observed"),
    ):
        identities = getattr(comparison, name)
        shown = identities.ranges[:RANGES_SHOWN]
        parts.append(
            {
                "name": words,
                "count": identities.count,
                "ranges": [item.text() for item in shown],
                "more": identities.count - sum(item.count for item in shown),
                "hash": identities.as_json()["hash"],
            }
        )
    return {
        "parts": parts,
        "predicted": comparison.predicted.count,
        "observed": facts.lost if kind == "lost" else comparison.observed.count,
        "how": comparison.how,
        "equal": comparison.equal,
        "allowed": is_any_allowed(facts, kind),
    }


def _story_view(facts: CellFacts, story: Story) -> Json:
    first_us = facts.cell.span_us()[0]
    steps: list[Step] = story_steps(facts, story)
    return {
        "kind": story.kind,
        "title": story.kind if story.kind in PREDICTED_KINDS else BY_NAME[story.kind].title,
        "identity": f"{story.producer}/{story.incarnation}/{story.seq}",
        "steps": [
            {
                "at": "end" if step.t_us is None else f"{(step.t_us - first_us) / 1e6:.6f} s",
                "what": step.what,
                "detail": step.detail,
                "bad": step.bad,
            }
            for step in steps
        ],
    }


def _time_rows(facts: CellFacts) -> list[list[str]]:
    rows: list[list[str]] = []
    if facts.slots.empty:
        return rows
    first_us = facts.cell.span_us()[0]
    for record in facts.slots.head(TABLE_ROWS_MAX).to_dict("records"):
        values: list[str] = [f"{(record['t_us'] - first_us) / 1e6:.1f}"]
        values += [str(int(record[name])) for name in ("intended", "sent", "acked", "received")]
        for name in ("corrected_mean_us", "corrected_p99_us", "corrected_max_us", "uncorrected_p99_us"):
            value = record[name]
            values.append("–" if value != value else _ms(float(value)))
        rows.append(values)
    return rows


def _host_noise(facts: CellFacts) -> dict[str, tuple[float, float]]:
    """Mean and maximum of what the host sampler measured."""
    samples: dict[str, list[float]] = {}
    for line in facts.cell.stats:
        if not str(line.get("source", "")).startswith("host"):
            continue
        values = line.get("values") if isinstance(line.get("values"), dict) else {line.get("name"): line.get("value")}
        for name, value in (values or {}).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                samples.setdefault(str(name), []).append(float(value))
    return {name: (sum(found) / len(found), max(found)) for name, found in sorted(samples.items())[:12]}


def _settings(judged: Sequence[Judged]) -> Json:
    """Effective settings: those that all cells share, and a table of those that differ."""
    flat: dict[str, dict[str, str]] = {}
    for item in judged:
        cell = item.facts.cell
        effective = cell.outcome.get("effective") or {}
        topic = {**cell.part("topic"), **(effective.get("topic") or {})}
        config = topic.pop("config", None)
        topic.update(config if isinstance(config, dict) else {})
        groups = {"client": cell.effective_client, "topic": topic, "broker": effective.get("broker") or {}}
        groups["workload"] = cell.part("workload")
        groups["cell"] = {k: cell.document.get(k) for k in ("client", "engine", "path", "seed")}
        flat[cell.cell_id] = {
            f"{group}: {name}": json.dumps(value) if isinstance(value, dict | list) else str(value)
            for group, values in groups.items()
            for name, value in values.items()
        }
    names = sorted({name for values in flat.values() for name in values})
    shared: list[tuple[str, str]] = []
    different: list[str] = []
    for name in names:
        found = {values.get(name, "–") for values in flat.values()}
        if len(found) == 1:
            shared.append((name, found.pop()))
        else:
            different.append(name)
    rows = [(item.facts.cell, [flat[item.facts.cell.cell_id].get(name, "–") for name in different]) for item in judged]
    return {"shared": shared, "different": different, "rows": rows}
