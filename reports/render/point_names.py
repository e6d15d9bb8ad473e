"""Names of points in a chart, beside their points. Vega-Lite cannot place labels by itself, so neighbours take turns
above and below, and a name on the right half ends at its point: beyond the plot stand other words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

Chart = Any  # Altair's chart classes share no useful base type


def point_names(
    base: Chart, x: Chart, y: Chart, *, across: str, lane: Sequence[str] = (), turns: Sequence[int]
) -> list[Chart]:
    """Layers. `across` is the field of x, `lane` the field that has points side by side, `turns` are pixels down."""
    ranked = (
        base.transform_window(rank="row_number()", groupby=list(lane), sort=[alt.SortField(across)], frame=[None, None])
        .transform_joinaggregate(least=f"min({across})", most=f"max({across})")
        .transform_calculate(
            name="split(datum.title, ' (')[0]", is_right=f"2 * datum.{across} > datum.least + datum.most"
        )
    )
    return [
        ranked.transform_filter(f"datum.rank % {len(turns)} == {place} && datum.is_right == {is_right}")
        .mark_text(style="point-name", dy=dy, align=align, dx=dx)
        .encode(x=x, y=y, text="name:N")
        for place, dy in enumerate(turns)
        for is_right, align, dx in (("true", "right", 5), ("false", "left", -5))
    ]
