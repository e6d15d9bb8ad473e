"""Names of points in a chart, beside their points. Vega-Lite cannot place labels by itself, so neighbours take turns
above and below, and a name on the right half ends at its point: beyond the plot stand other words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

Chart = Any  # Altair's chart classes share no useful base type


def point_names(
    base: Chart, x: Chart, y: Chart, *, across: str, order: str, lane: Sequence[str] = (), turns: Sequence[int], dx: int
) -> Chart:
    """A layer. `across` is the field of x, `order` that of neighbours, `lane` the field that has points side by
    side, `turns` are pixels down, `dx` pixels away.

    One layer with expressions, and not a filtered one for each turn: Vega warns of a layer without data.
    """
    turn = f"[{', '.join(map(str, turns))}][datum.rank % {len(turns)}]"
    return (
        base.transform_window(rank="row_number()", groupby=list(lane), sort=[alt.SortField(order)], frame=[None, None])
        .transform_joinaggregate(least=f"min({across})", most=f"max({across})")
        .transform_calculate(
            name="split(datum.title, ' (')[0]", is_right=f"2 * datum.{across} > datum.least + datum.most"
        )
        .mark_text(
            style="point-name",
            dy=alt.expr(turn),
            align=alt.expr("datum.is_right ? 'right' : 'left'"),
            dx=alt.expr(f"datum.is_right ? {-dx} : {dx}"),
        )
        .encode(x=x, y=y, text="name:N")
    )
