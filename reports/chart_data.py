"""The data sets behind the charts, from facts: what the page inlines beside the specifications. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from reports.lawful import IMPOSSIBLE, LAWFUL, configuration_of, rule
from reports.model import Cell, CellFacts, Json
from reports.outputs import Judged

LANES_MAX = 6
LATENCIES = ("corrected p99", "corrected mean", "uncorrected p99")
LATENCIES_UNACKNOWLEDGED = ("end to end p99", "end to end mean")  # with acks=0
KNOBS = ("batch.size", "linger.ms", "compression.type", "acks", "max.in.flight.requests.per.connection")
_STATE_AFTER = {
    "started": "up",
    "resumed": "up",
    "restarted": "up",
    "killed": "down",
    "stopped": "down",
    "terminated": "down",
    "paused": "paused",
}
Rows = list[Json]


def time_data(facts: CellFacts) -> dict[str, Rows]:
    """Data sets of the chart over time of one cell; seconds count from the cell's start."""
    first_us, last_us = facts.cell.span_us()
    slots = facts.slots
    per_second = 1e6 / facts.slot_us
    rates: Rows = []
    latency: Rows = []
    spread: Rows = []
    if len(slots):
        seconds = ((slots["t_us"] - first_us) / 1e6).round(3)
        for column, series in (("intended", "asked"), ("sent", "sent"), ("acked", "acked"), ("received", "received")):
            rates += [
                {"t": t, "rate": round(n * per_second), "series": series}
                for t, n in zip(seconds.tolist(), slots[column].tolist(), strict=True)
            ]
        is_answered = facts.throughput_basis == "acknowledged"
        names = LATENCIES if is_answered else LATENCIES_UNACKNOWLEDGED
        for series in names:
            column = f"{series.replace(' ', '_')}_us"
            latency += [
                {"t": t, "ms": None if pd.isna(us) else max(round(us / 1000, 3), 0.001), "series": series}
                for t, us in zip(seconds.tolist(), slots[column].tolist(), strict=True)
            ]
        kind = "corrected" if is_answered else "end_to_end"
        columns = (seconds.tolist(), slots[f"{kind}_min_us"].tolist(), slots[f"{kind}_max_us"].tolist())
        spread = [
            {"t": t, "low": max(round(low / 1000, 3), 0.001), "high": max(round(high / 1000, 3), 0.001)}
            for t, low, high in zip(*columns, strict=True)
            if not pd.isna(low)
        ]
    return {
        "rates": rates,
        "latency": latency,
        "spread": spread,
        "faults": fault_windows(facts.cell),
        "isr": _isr(facts.cell, first_us, last_us),
        "leaders": _leaders(facts.cell, first_us, last_us),
        "brokers": _brokers(facts.cell, first_us, last_us),
    }


def time_specification(data: Mapping[str, Rows]) -> str:
    """The one that fits: with acks=0 latency is from end to end, and where nothing was measured there is none."""
    measured = {str(row["series"]) for row in data["latency"] if row["ms"] is not None}
    if not measured:
        return "time_without_latency"
    return "time" if measured & set(LATENCIES) else "time_end_to_end"


def fault_windows(cell: Cell) -> Rows:
    """One window a fault, from applied to healed (or the end), with what proved it; numbered as in `timeline_steps`."""
    return [step for step in timeline_steps(cell) if not step["wait"]]


def timeline_steps(cell: Cell) -> Rows:
    """What the timeline did: faults as windows, awaited conditions as the moment in which they were met."""
    first_us, last_us = cell.span_us()
    steps: dict[str, Json] = {}
    for line in cell.faults:
        is_wait = line.get("kind") == "wait"
        step = steps.setdefault(
            str(line.get("id")),
            {
                "t": _seconds(line, first_us),
                "t_end": _seconds(line, first_us) if is_wait else round((last_us - first_us) / 1e6, 3),
                "label": _fault_label(line),
                "proof": "not proved",
                "proved": False,
                "wait": is_wait,
            },
        )
        phase = line.get("phase")
        if phase == "healed":
            step["t_end"] = _seconds(line, first_us)
        elif phase == "proved":
            step["proved"], step["proof"] = True, detail_text(line.get("detail"))
        elif phase == "not_effective":
            step["proof"] = f"had no effect: {detail_text(line.get('detail'))}"
    ordered = sorted(steps.values(), key=lambda step: float(step["t"]))
    for number, step in enumerate(ordered, start=1):
        step["number"] = str(number)
    return ordered


def _seconds(line: Json, first_us: int) -> float:
    return round((int(line.get("t_us", first_us)) - first_us) / 1e6, 3)


def _fault_label(line: Json) -> str:
    target, resolved = line.get("target"), line.get("resolved")
    if line.get("kind") == "wait":
        return f"condition: {target}"
    names = ", ".join(map(str, resolved)) if isinstance(resolved, list | tuple) else str(resolved or "")
    at = f" on {target}" if target not in (None, "") else ""
    label = line.get("detail", {}).get("label") if isinstance(line.get("detail"), dict) else None
    return f"{label or line.get('kind')}{at}" + (f" ({names})" if names not in ("", str(target)) else "")


# For plots and for the programs that read the file; the words beside the chart say the same.
_NOT_TOLD = frozenset({"label", "colour", "took_us"})


def detail_text(detail: object) -> str:
    """Facts of a fault in words: `name value; name value`, microseconds as seconds."""
    if not isinstance(detail, dict):
        return str(detail) if detail else "proved"
    told = []
    for key, value in detail.items():
        if key in _NOT_TOLD:
            continue
        if key.endswith("_us") and isinstance(value, int | float):
            told.append(f"{key.removesuffix('_us').replace('_', ' ')} {value / 1e6:.2f} s")
        elif isinstance(value, dict):
            told.append(f"{key}: {', '.join(f'{name} {item}' for name, item in value.items())}")
        elif isinstance(value, list | tuple):
            told.append(f"{key} {', '.join(map(str, value))}")
        else:
            told.append(f"{key} {value}")
    return "; ".join(told) or "proved"


def _topic_events(cell: Cell, *kinds: str) -> list[Json]:
    topic = cell.part("topic").get("name")
    return [
        event
        for event in cell.events
        if event.get("kind") in kinds
        and isinstance(event.get("partition"), int)
        and (topic is None or event.get("topic", topic) == topic)
    ]


def _chosen_partitions(events: Sequence[Json]) -> list[int]:
    """The partitions with most events: there something happened."""
    counts: dict[int, int] = {}
    for event in events:
        counts[event["partition"]] = counts.get(event["partition"], 0) + 1
    return sorted(sorted(counts, key=lambda partition: (-counts[partition], partition))[:LANES_MAX])


def _isr(cell: Cell, first_us: int, last_us: int) -> Rows:
    events = [event for event in _topic_events(cell, "isr_changed", "leader") if isinstance(event.get("isr"), list)]
    end = round((last_us - first_us) / 1e6, 3)
    rows: Rows = []
    for partition in _chosen_partitions(events):
        last: Json | None = None
        for event in events:
            if event["partition"] != partition:
                continue
            members = ", ".join(str(member) for member in event["isr"])
            row = {
                "t": max(0.0, _seconds(event, first_us)),
                "size": len(event["isr"]),
                "members": members,
                "partition": f"partition {partition}",
            }
            if last is None or last["members"] != members:
                rows.append(row)
                last = row
        if last is not None:
            rows.append({**last, "t": end})
    return rows


def _leaders(cell: Cell, first_us: int, last_us: int) -> Rows:
    """Who led each partition when: by the journals if they say so, else by the probe."""
    journal = _topic_events(cell, "became_leader")
    events = journal or _topic_events(cell, "leader")
    end = round((last_us - first_us) / 1e6, 3)
    rows: Rows = []
    for partition in _chosen_partitions(events):
        open_row: Json | None = None
        for event in events:
            if event["partition"] != partition:
                continue
            broker = str(event.get("leader", event.get("broker")))
            label = f"{broker}, epoch {event.get('leader_epoch', '?')}"
            if open_row is not None and open_row["label"] == label:
                continue
            at = max(0.0, _seconds(event, first_us))
            if open_row is not None:
                open_row["t_end"] = at
            open_row = {"lane": f"p{partition}", "t": at, "t_end": end, "broker": broker, "label": label}
            rows.append(open_row)
    return rows


def _brokers(cell: Cell, first_us: int, last_us: int) -> Rows:
    end = round((last_us - first_us) / 1e6, 3)
    open_rows: dict[str, Json] = {}
    rows: Rows = []
    own = [event for event in cell.events if event.get("kind") in _STATE_AFTER and event.get("broker") is not None]
    process = [event for event in own if event.get("source") == "process"]
    for event in process or own:
        broker = str(event["broker"])
        state = _STATE_AFTER[str(event["kind"])]
        before = open_rows.get(broker)
        if before is not None and before["state"] == state:
            continue
        at = max(0.0, _seconds(event, first_us))
        if before is not None:
            before["t_end"] = at
        elif at > 0 and state != "up":
            rows.append({"lane": broker, "t": 0.0, "t_end": at, "state": "up", "label": "up"})
        row: Json = {"lane": broker, "t": at, "t_end": end, "state": state, "label": state}
        open_rows[broker] = row
        rows.append(row)
    return sorted(rows, key=lambda row: (str(row["lane"]), float(row["t"])))


def curve_data(facts: CellFacts) -> dict[str, Rows]:
    rows: Rows = []
    for kind, series in (("corrected", "corrected"), ("uncorrected", "uncorrected"), ("end_to_end", "end to end")):
        latency = facts.latency.get(kind)
        rows += [
            {
                "inverse": round(1 / (1 - quantile), 2),
                "percentile": round(quantile * 100, 4),
                "ms": max(round(us / 1000, 3), 0.001),
                "series": series,
            }
            for quantile, us in (latency.curve if latency else ())
        ]
        if latency and latency.curve and latency.max_us is not None:
            # The largest of n samples stands at 1 - 1/n: beyond what carries a percentile, but the user felt it.
            place = min(1 - 1 / max(2, latency.n), latency.quantile_of_maximum)
            rows.append(
                {
                    "inverse": round(1 / (1 - place), 2),
                    "percentile": round(place * 100, 5),
                    "ms": max(round(latency.max_us / 1000, 3), 0.001),
                    "series": series,
                }
            )
    return {"curve": rows}


def p99_us(facts: CellFacts) -> tuple[float | None, tuple[float, float] | None, str]:
    """The p99 that a cell can offer: corrected, or end to end where nobody acknowledges."""
    kind = "end_to_end" if facts.throughput_basis != "acknowledged" else "corrected"
    latency = facts.latency[kind]
    return latency.quantiles.get("p99"), latency.p99_interval_us, kind.replace("_", " ")


def price_data(judged: Sequence[Judged]) -> dict[str, Rows]:
    """One point a sweep cell; `front` marks those that no other beats in both throughput and p99."""
    rows: Rows = []
    for item in judged:
        facts = item.facts
        p99, interval, basis = p99_us(facts)
        if facts.cell.kind != "sweep" or p99 is None or not facts.throughput_records_per_s:
            continue
        ruling = rule("lost", configuration_of(facts.cell)).lawful
        safety = {LAWFUL: "may lose acknowledged records", IMPOSSIBLE: "promises nothing (acks=0)"}
        rows.append(
            {
                "title": facts.cell.title,
                "settings": settings_text(facts.cell),
                "safety": safety.get(ruling, "loses none by contract"),
                "throughput": facts.throughput_records_per_s,
                "p99": round(p99 / 1000, 3),
                "p99_low": round((interval[0] if interval else p99) / 1000, 3),
                "p99_high": round((interval[1] if interval else p99) / 1000, 3),
                "basis": f"{basis} latency, n = {facts.latency[basis.replace(' ', '_')].n}",
            }
        )
    for row in rows:
        row["front"] = not any(
            other["throughput"] >= row["throughput"]
            and other["p99"] <= row["p99"]
            and other is not row
            and (other["throughput"] > row["throughput"] or other["p99"] < row["p99"])
            for other in rows
        )
    return {"price": rows}


def tables(judged: Sequence[Judged]) -> dict[str, tuple[list[str], list[list[object]]]]:
    """File below results/ -> header and rows of the table behind a chart; none without rows."""
    by_knob = [{"knob": knob, **row} for knob, found in sweep_data(judged).items() for row in found]
    found = {"price.csv": price_data(judged)["price"], "knobs.csv": by_knob}
    return {name: (list(rows[0]), [list(row.values()) for row in rows]) for name, rows in found.items() if rows}


def settings_text(cell: Cell) -> str:
    return " ".join(f"{name}={value}" for name, value in cell.part("knobs").items())


def sweep_data(judged: Sequence[Judged]) -> dict[str, Rows]:
    """Knob -> rows: the baseline cells and those that differ from the baseline in this knob alone."""
    sweep = [item.facts for item in judged if item.facts.cell.kind == "sweep" and item.facts.cell.part("knobs")]
    baselines = [facts for facts in sweep if facts.cell.document.get("baseline") is True]
    if not baselines:
        return {}
    reference = _knobs(baselines[0].cell)
    changed = [str(facts.cell.document.get("changed") or "") for facts in sweep]
    others = dict.fromkeys(name for name in changed if name and name not in reference)
    result: dict[str, Rows] = {}
    for knob in (*reference, *others):
        rows = [_sweep_row(facts, knob) for facts in sweep if _differs_only_in(knob, facts.cell, reference)]
        if len({row["value"] for row in rows}) > 1:
            result[knob] = sorted(rows, key=_by_value)
    return {knob: result[knob] for knob in (*KNOBS, *(k for k in result if k not in KNOBS)) if knob in result}


def _differs_only_in(knob: str, cell: Cell, reference: Mapping[str, str]) -> bool:
    """By the plan's word where it is there: `acks` may need another setting with it, which is no knob of its own."""
    if cell.document.get("baseline") is True:
        return True
    if cell.document.get("changed"):
        return str(cell.document["changed"]) == knob
    return all(_knobs(cell).get(other) == value for other, value in reference.items() if other != knob)


def _knobs(cell: Cell) -> dict[str, str]:
    return {str(name): str(value) for name, value in cell.part("knobs").items()}


def _by_value(row: Mapping[str, object]) -> tuple[int, float, str]:
    text = str(row["value"])
    try:
        return (0, float(text), "")
    except ValueError:
        return (1, 0.0, {"none": ""}.get(text, text))


def _sweep_row(facts: CellFacts, knob: str) -> Json:
    p99, interval, basis = p99_us(facts)
    low, high = facts.throughput_interval or (facts.throughput_records_per_s, facts.throughput_records_per_s)
    milliseconds = None if p99 is None else round(p99 / 1000, 3)
    return {
        "title": facts.cell.title,
        "cell_id": facts.cell.cell_id,
        "value": _knobs(facts.cell).get(knob) or str(facts.cell.part("properties").get(knob, "")),
        "role": "baseline" if facts.cell.document.get("baseline") is True else "changed",
        "throughput": facts.throughput_records_per_s,
        "throughput_low": low,
        "throughput_high": high,
        "p99": milliseconds,
        "p99_low": round(interval[0] / 1000, 3) if interval else milliseconds,
        "p99_high": round(interval[1] / 1000, 3) if interval else milliseconds,
        "basis": basis,
        "records_per_batch": facts.records_per_batch,
        "records_per_batch_low": facts.records_per_batch,
        "records_per_batch_high": facts.records_per_batch,
        "compression_ratio": facts.compression_ratio,
    }
