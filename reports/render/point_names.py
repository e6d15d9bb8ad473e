"""Names of points in a chart, and the thin lines that lead to them. `reports.figures.point_names` says where they
stand."""

from __future__ import annotations

from typing import Any

import altair as alt

Chart = Any  # Altair's chart classes share no useful base type
_ASIDE = 9  # pixels
_IS_RIGHT = "datum.is_right"


def point_names(x: str, y: Any, at: Any, *, down: str) -> tuple[Chart, Chart]:
    """Two layers over the data set `names`. `y` is the height of the point and `at` that of its name. `down`: pixels
    from there to the name, as an expression."""
    aside, below = alt.expr(f"{_IS_RIGHT} ? {-_ASIDE} : {_ASIDE}"), alt.expr(down)
    base = alt.Chart(alt.NamedData("names"))
    words = base.mark_text(
        style="point-name", align=alt.expr(f"{_IS_RIGHT} ? 'right' : 'left'"), dx=aside, dy=below
    ).encode(x=x, y=at, text="name:N")
    lines = base.mark_rule(style="name-line", x2Offset=aside, y2Offset=below).encode(
        x=x, x2=x, y=y, y2=at if isinstance(at, str) else alt.Y2(at.shorthand)
    )
    return lines, words
