"""Small drawings of the front page as inline SVG: they need no script, they print, and CSS gives them their colours.

A drawing is stretched to the width of its place; strokes keep their own width (`vector-effect`).
"""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from reports.figures.overview.small_timeline import SmallTimeline

_WIDTH, _HEIGHT, _ROOM = 200, 34, 2  # The size of the viewBox. The room above keeps the highest point's stroke inside.
_BAND_WIDTH_MIN: Final = 1.5  # a fault of a moment is still seen


def timeline_svg(own: SmallTimeline, label: str) -> Markup:
    """Throughput as an area, faults as bands behind it."""
    bands = Markup("").join(
        Markup('<rect class="band" x="{}" y="0" width="{}" height="{}"><title>{}</title></rect>').format(
            round(band.start * _WIDTH, 1),
            round(max(_BAND_WIDTH_MIN, (band.end - band.start) * _WIDTH), 1),
            _HEIGHT,
            band.label,
        )
        for band in own.bands
    )
    line = _line(own)
    return Markup(
        '<svg class="small-time" viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        '{bands}<path class="area" d="M0 {h}L{line}L{w} {h}Z"/><path class="line" d="M{line}"/></svg>'
    ).format(w=_WIDTH, h=_HEIGHT, label=label, bands=bands, line=line)


def _line(own: SmallTimeline) -> str:
    """A step a rate: `x y` pairs."""
    step = _WIDTH / len(own.rates)
    points: list[str] = []
    for place, rate in enumerate(own.rates):
        y = round(_HEIGHT - (_HEIGHT - _ROOM) * rate / own.top, 1)
        points += [f"{place * step:.1f} {y:g}", f"{(place + 1) * step:.1f} {y:g}"]
    return "L".join(points)
