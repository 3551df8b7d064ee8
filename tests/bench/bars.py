"""Draws bars as an SVG that reads on light and on dark pages."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, TOP, BAR_HEIGHT, LINE, GAP = 720, 28, 18, 26, 12
LETTER, FIGURE_WIDTH = 7, 60
_STYLE = "text{font:13px sans-serif;fill:#808890}.head{font-weight:bold}"


class BarRow(NamedTuple):
    """A bar in each column."""

    name: str
    colour: str
    figures: Sequence[float]


def draw_bars(
    title: str,
    columns: Sequence[str],
    blocks: Sequence[tuple[str, Sequence[BarRow]]],
    *,
    scale_by_block: bool = False,
) -> str:
    """Rows in blocks that have a name, or "". A column's longest bar is its highest figure: of all
    blocks, or of each."""
    rows = [row for _, block in blocks for row in block]
    left = LETTER * max(len(row.name) for row in rows) + 20
    width = (WIDTH - left) // len(columns)
    starts = [left + width * number for number in range(len(columns))]
    parts = [
        f'<text x="{start}" y="16" class="head">{escape(column)}</text>'
        for start, column in zip(starts, columns, strict=True)
    ]
    y = TOP
    for name, block in blocks:
        if name:
            parts.append(f'<text x="4" y="{y + 14}" class="head">{escape(name)}</text>')
            y += LINE
        scaled = block if scale_by_block else rows
        highest = [max(row.figures[number] for row in scaled) for number in range(len(columns))]
        for row in block:
            parts.append(f'<text x="4" y="{y + 14}">{escape(row.name)}</text>')
            for start, figure, longest in zip(starts, row.figures, highest, strict=True):
                length = round((width - FIGURE_WIDTH) * figure / longest) if longest else 0
                parts.append(
                    f'<rect x="{start}" y="{y}" width="{max(1, length)}" height="{BAR_HEIGHT}"'
                    f' fill="{row.colour}"/>'
                    f'<text x="{start + length + 6}" y="{y + 14}">{_format(figure)}</text>'
                )
            y += LINE
        y += GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img"'
        f' aria-label="{escape(title)}"><style>{_STYLE}</style>{"".join(parts)}</svg>\n'
    )


def _format(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 1_000 else f"{figure:.3g}"
