"""What plots are made of: a picture with a column of names, boxes, patterns, and a time axis.

Pictures are SVG inside the page, without scripts. Colours are classes of style.css.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.pipeline.report.markup import Markup, Value, shortened, tag
from gateway.pipeline.report.wording import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, date_time

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


def row_name(text: str, y: float) -> Markup:
    """A name in the left column, on the base line `y`."""
    short = shortened(text, _NAME_LENGTH_MAX)
    parts = (short,) if short == text else (short, titled(text))
    return tag("text", *parts, x=LEFT - 8, y=y, class_="name", text_anchor="end")


def box(
    x_from: float, x_to: float, y: float, height: float, *, class_: str, title: str | None = None
) -> Markup:
    """A rectangle with a minimum width; its title is a tooltip."""
    width = max(x_to - x_from, _WIDTH_MIN)
    tooltip = () if title is None else (titled(title),)
    return tag("rect", *tooltip, x=x_from, y=y, width=width, height=height, class_=class_)


def titled(text: str) -> Markup:
    """A tooltip."""
    return tag("title", shortened(text, _TITLE_LENGTH_MAX))


def words(text: str, x: float, y: float, **attributes: Value) -> Markup:
    """A text."""
    return tag("text", text, x=x, y=y, **attributes)


def centred(text: str, x: float, y: float, class_: str) -> Markup:
    """A text around `x`."""
    return words(text, x, y, class_=class_, text_anchor="middle")


COLOURS = 8
"""Colours of owners."""


def patterns() -> Markup:
    """The pattern fills, defined once for all pictures of the page: of gaps, and of owners beyond
    the eighth."""
    owners = (
        _stripes(f"owner-{colour}-striped", f"owner-{colour}", "owner-line", 6)
        for colour in range(COLOURS)
    )
    return tag(
        "svg",
        tag("defs", _stripes("gap", "gap-back", "gap-line", 5), *owners),
        width=0,
        height=0,
        class_="patterns",
        aria_hidden="true",
    )


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


LABELS_HEIGHT = 32
"""Labels have two lines: the time, and the date where it changes."""

_LABEL_WIDTH = 92
_STEPS_MS = (
    *(unit * many for unit in (1, 10, 100) for many in (1, 2, 5)),
    *(many * SECOND_MS for many in (1, 2, 5, 10, 15, 30)),
    *(many * MINUTE_MS for many in (1, 2, 5, 10, 15, 30)),
    *(many * HOUR_MS for many in (1, 2, 3, 6, 12)),
    *(many * DAY_MS for many in (1, 2, 7, 14, 28, 91, 365)),
)
_LENGTH_MS_MIN = 10
"""The shortest span that is drawn, so that a single moment is visible."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A time axis as wide as the plots."""

    from_ms: int
    to_ms: int

    def x(self, at_ms: int) -> float:
        """The position of a moment; moments outside are moved to the nearer end."""
        share = (at_ms - self.from_ms) / self._length_ms
        return LEFT + (RIGHT - LEFT) * min(max(share, 0.0), 1.0)

    def drawn(self, top: float, bottom: float) -> Markup:
        """Vertical lines at round moments, with labels below."""
        step_ms, date, parts = self._step_ms, "", []
        for at_ms in self._ticks():
            x, at = self.x(at_ms), date_time(at_ms)
            parts.append(tag("line", class_="grid", x1=x, x2=x, y1=top, y2=bottom))
            if step_ms < DAY_MS:
                parts.append(centred(_time(at_ms, step_ms), x, bottom + 13, "tick"))
            if date != (date := f"{at:%Y-%m-%d}"):
                y = bottom + (26 if step_ms < DAY_MS else 13)
                parts.append(centred(date, x, y, "tick"))
        return tag("g", *parts, aria_hidden="true")

    def _ticks(self) -> Iterator[int]:
        step_ms = self._step_ms
        first_ms = -(-self.from_ms // step_ms) * step_ms
        yield from range(first_ms, self.from_ms + self._length_ms + 1, step_ms)

    @property
    def _step_ms(self) -> int:
        """A round step that is long enough for labels not to touch."""
        least = self._length_ms * _LABEL_WIDTH / (RIGHT - LEFT)
        of_years = -(-int(least) // _STEPS_MS[-1]) * _STEPS_MS[-1]
        return next((step_ms for step_ms in _STEPS_MS if step_ms >= least), of_years)

    @property
    def _length_ms(self) -> int:
        return max(self.to_ms - self.from_ms, _LENGTH_MS_MIN)


def _time(at_ms: int, step_ms: int) -> str:
    at = date_time(at_ms)
    if step_ms >= MINUTE_MS:
        return f"{at:%H:%M}"
    return f"{at:%H:%M:%S}" if step_ms >= SECOND_MS else f"{at:%H:%M:%S}.{at_ms % SECOND_MS:03}"
