"""Common elements of the plots: width, the column of names, rectangles with titles, and patterns.

Pictures are SVG inside the page, without scripts. Colours are classes of style.css.
"""

from gateway.pipeline.report.markup import Markup, Value, shortened, tag

WIDTH = 1000
LEFT = 190
"""The left end of the plot, next to the names."""
RIGHT = 905
"""The right end of the plot; figures are behind it."""

_WIDTH_MIN = 1.0
_TITLE_LENGTH_MAX = 300
_NAME_LENGTH_MAX = 25


def picture(height: float, *parts: str, says: str) -> Markup:
    """`says` describes the picture to screen readers."""
    return tag(
        "div",
        tag(
            "svg",
            *parts,
            viewBox=f"0 0 {WIDTH} {height:.0f}",
            role="group",
            aria_label=says,
        ),
        class_="plot",
    )


def name(text: str, y: float) -> Markup:
    """A name in the left column, on the base line `y`."""
    short = shortened(text, _NAME_LENGTH_MAX)
    parts = (short,) if short == text else (short, titled(text))
    return tag("text", *parts, x=LEFT - 8, y=y, class_="name", text_anchor="end")


def box(
    x_from: float, x_to: float, y: float, height: float, *, class_: str, title: str | None = None
) -> Markup:
    """A rectangle with a minimum width; its title is a tooltip."""
    width = max(x_to - x_from, _WIDTH_MIN)
    if title is None:
        return tag("rect", x=x_from, y=y, width=width, height=height, class_=class_)
    return tag("rect", titled(title), x=x_from, y=y, width=width, height=height, class_=class_)


def titled(text: str) -> Markup:
    """A tooltip."""
    return tag("title", shortened(text, _TITLE_LENGTH_MAX))


def words(text: str, x: float, y: float, **attributes: Value) -> Markup:
    """A text."""
    return tag("text", text, x=x, y=y, **attributes)


def patterns() -> Markup:
    """The pattern fills, defined once for all pictures of the page."""
    return tag(
        "svg",
        tag("defs", _stripes("gap", "gap-back", "gap-line", 5), *map(_owner_stripes, range(8))),
        width=0,
        height=0,
        class_="patterns",
        aria_hidden="true",
    )


def _owner_stripes(colour: int) -> Markup:
    """The striped colours for owners beyond the eighth."""
    return _stripes(f"owner-{colour}-striped", f"owner-{colour}", "owner-line", 6)


def _stripes(name: str, back: str, line: str, size: int) -> Markup:
    return tag(
        "pattern",
        tag("rect", width=size, height=size, class_=back),
        tag("rect", width=size / 3, height=size, class_=line),
        id=name,
        width=size,
        height=size,
        patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )
