"""Renders report.html: one offline file, Vega inlined once, styles and script inlined, a table behind every chart."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import vl_convert
from jinja2 import Environment
from markupsafe import Markup

from reports.figures.definitions import DEFINITIONS
from reports.figures.figures import Figures
from reports.figures.generator import CERTIFICATE_COLUMNS
from reports.figures.sweep.observations import MARGIN, MEASURES
from reports.figures.waterfall import SERIES
from reports.judge.anomalies import ANOMALIES
from reports.judge.lawful import TYPICAL, table
from reports.read.model import PREDICTED_KINDS
from reports.render.chart_payload import charts_of, payload
from reports.render.drawings import timeline_svg
from reports.render.files import replace_text
from reports.render.publication import PAGE
from reports.render.templating import environment_with
from reports.render.words import (
    SIGNS,
    in_form,
    in_rules,
    is_endless,
    json_text,
    ms,
    number,
    percent,
    script_safe,
    seconds,
    three_digits,
)
from runlog.quality.criteria import CRITERIA
from runlog.records.hosts import known_error_us

# Only the embedder is called from the page.
VEGA_GLOBALS: Final = "window.vegaEmbed = vegaEmbed;"


def write_page(figures: Figures, into: Path) -> Path:
    path = into / PAGE
    replace_text(path, render(figures))
    return path


@cache
def environment() -> Environment:
    """Jinja's environment with the templates, which take 0.2 s to compile."""
    made = environment_with(
        number=number,
        ms=ms,
        percent=percent,
        known_error=known_error_us,
        in_rules=in_rules,
        seconds=seconds,
        json_text=json_text,
        three_digits=three_digits,
        timeline_svg=timeline_svg,
        in_form=in_form,
    )
    made.tests["endless"] = is_endless
    return made


@cache
def vega() -> Markup:
    return Markup(script_safe(vl_convert.javascript_bundle(VEGA_GLOBALS)))


def render(figures: Figures) -> str:
    """The whole page."""
    charts = charts_of(figures)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            run=figures.run,
            signs=SIGNS,
            front=figures.overview,
            generator=figures.generator,
            certificate_columns=[column.heading for column in CERTIFICATE_COLUMNS],
            search=figures.search,
            waterfall=figures.waterfall,
            series=SERIES,
            criteria=CRITERIA,
            analysis=figures.sweep,
            measures=MEASURES,
            margin=f"{MARGIN * 100:.0f} %",
            cells=figures.cells,
            names={suite.cell.id: suite.name for suite in figures.suites.cells},
            charts=charts,
            kinds=PREDICTED_KINDS,
            price=figures.price_drawn,
            price_names=figures.price_names,
            price_at_ceilings=figures.price.at_ceilings,
            price_without=figures.price.without,
            knob_measures=figures.knob_measures,
            knob_batches=figures.knob_batches,
            sweep=figures.knobs,
            anomalies=ANOMALIES,
            typical=TYPICAL,
            lawfulness=table(),
            definitions=DEFINITIONS,
            settings=figures.settings,
            payload=payload(figures, charts),
            vega=vega(),
        )
    )
