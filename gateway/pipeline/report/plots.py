"""The plots of the page: who owned each partition when, and bars. SVG without scripts; colours are
classes of style.css."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import htpy as h
from htpy import Element, Node

from gateway.pipeline.fold.rows import OwnershipRow
from gateway.pipeline.report.wording import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    date_time,
    duration,
    visible,
)
from gateway.readable import moment

WIDTH = 1000
LEFT = 190
"""The left end of a plot, next to the names."""
RIGHT = 990
COLOURS = 8
"""Colours of owners; further ones are striped, then both repeat: the number tells them apart."""
_LINE_HEIGHT = 17
_BOX_HEIGHT = 14
_TOP = 12
_LABELS_HEIGHT = 32
_NAME_MAX = 25
_DIGIT_WIDTH = 8
_STEPS_MS = (
    *(unit * count for unit in (1, 10, 100) for count in (1, 2, 5)),
    *(count * SECOND_MS for count in (1, 2, 5, 10, 15, 30)),
    *(count * MINUTE_MS for count in (1, 2, 5, 10, 15, 30)),
    *(count * HOUR_MS for count in (1, 2, 3, 6, 12)),
    *(count * DAY_MS for count in (1, 2, 7, 14, 28, 91, 365)),
)
LABEL_WIDTH = 92


def svg(name: str, children: Node = None, **attributes: str | float) -> Element:
    """An element of SVG."""
    names = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    return Element(name)(
        {"viewBox" if key == "viewbox" else key: _value(value) for key, value in names.items()}
    )[children]


def _value(value: str | float) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def picture(height: float, label: str, children: Node) -> Element:
    """A picture; `label` describes it to screen readers."""
    drawn = svg("svg", children, viewbox=f"0 0 {WIDTH} {height:.0f}", role="img", aria_label=label)
    return h.div(".plot")[drawn]


def box(x_from: float, x_to: float, y: float, *, class_: str, title: str) -> Element:
    """A rectangle with a minimum width and a tooltip."""
    width = max(x_to - x_from, 1.0)
    tooltip = svg("title", visible(title, 300))
    return svg("rect", tooltip, x=x_from, y=y, width=width, height=_BOX_HEIGHT, class_=class_)


def words(text: str, x: float, y: float, *, class_: str, anchor: str = "middle") -> Element:
    """A text."""
    return svg("text", text, x=x, y=y, class_=class_, text_anchor=anchor)


def patterns() -> Element:
    """The pattern fills, defined once for all pictures of the page."""
    stripes = [_stripes("gap", "gap-back", "gap-line", 5)]
    stripes += [
        _stripes(f"owner-{n}-striped", f"owner-{n}", "owner-line", 6) for n in range(COLOURS)
    ]
    return svg(
        "svg", svg("defs", stripes), width=0, height=0, class_="patterns", aria_hidden="true"
    )


def _stripes(name: str, back: str, line: str, size: int) -> Element:
    parts = [
        svg("rect", width=size, height=size, class_=back),
        svg("rect", width=size / 3, height=size, class_=line),
    ]
    how = {"patternUnits": "userSpaceOnUse", "patternTransform": "rotate(45)"}
    pattern = Element("pattern")({"id": name, "width": str(size), "height": str(size), **how})
    return pattern[parts]


@dataclass(frozen=True, slots=True)
class Axis:
    """A time axis as wide as the plots."""

    from_ms: int
    to_ms: int

    def x(self, at_ms: int) -> float:
        """The position of a moment; moments outside are moved to the nearer end."""
        share = (at_ms - self.from_ms) / max(self.to_ms - self.from_ms, 1)
        return LEFT + (RIGHT - LEFT) * min(max(share, 0.0), 1.0)

    def drawn(self, top: float, bottom: float) -> Iterator[Element]:
        """Vertical lines at round moments, with labels below."""
        length_ms = max(self.to_ms - self.from_ms, 10)
        room_ms = length_ms * LABEL_WIDTH / (RIGHT - LEFT)
        step_ms = next((step for step in _STEPS_MS if step >= room_ms), int(room_ms) + 1)
        date = ""
        for at_ms in range(-(-self.from_ms // step_ms) * step_ms, self.to_ms + 1, step_ms):
            x, at = self.x(at_ms), date_time(at_ms)
            anchor = "middle" if x + LABEL_WIDTH / 2 <= WIDTH else "end"
            yield svg("line", class_="grid", x1=x, x2=x, y1=top, y2=bottom)
            if step_ms < DAY_MS:
                yield words(_time(at_ms, step_ms), x, bottom + 13, class_="tick", anchor=anchor)
            if date != (date := f"{at:%Y-%m-%d}"):
                y = bottom + (26 if step_ms < DAY_MS else 13)
                yield words(date, x, y, class_="tick", anchor=anchor)


def _time(at_ms: int, step_ms: int) -> str:
    at = date_time(at_ms)
    if step_ms >= MINUTE_MS:
        return f"{at:%H:%M}"
    return f"{at:%H:%M:%S}" if step_ms >= SECOND_MS else f"{at:%H:%M:%S}.{at_ms % SECOND_MS:03}"


def owner_class(number: int) -> str:
    """The CSS class of the member with this number."""
    style = (number - 1) % (2 * COLOURS)
    return f"owner-{style % COLOURS}" + ("-striped" if style >= COLOURS else "")


def swatch(number: int) -> Element:
    """The colour and number of a member."""
    parts = [
        svg("rect", x=0, y=0, width=26, height=16, class_=owner_class(number)),
        words(str(number), 13, 12, class_="on-owner"),
    ]
    return svg("svg", parts, viewbox="0 0 26 16", class_="swatch", aria_hidden="true")


def ownership_map(rows: Sequence[OwnershipRow], members: dict[str, int], axis: Axis) -> Element:
    """Who owned each partition when. The rows are sorted by partition; `members` are numbered."""
    places = list(dict.fromkeys((row.topic, row.partition) for row in rows))
    line_of = {place: n for n, place in enumerate(places)}
    bottom = _TOP + _LINE_HEIGHT * len(places)
    names = [
        words(
            visible(f"{topic}-{number}", _NAME_MAX),
            LEFT - 8,
            _y(n) + 11,
            class_="name",
            anchor="end",
        )
        for n, (topic, number) in enumerate(places)
    ]
    boxes = [_interval(row, members, axis, _y(line_of[row.topic, row.partition])) for row in rows]
    parts: Node = [list(axis.drawn(_TOP - 4, bottom)), names, boxes]
    return picture(bottom + _LABELS_HEIGHT, "Owners of partitions over time", parts)


def _y(line: int) -> float:
    return _TOP + _LINE_HEIGHT * line


def _interval(row: OwnershipRow, members: dict[str, int], axis: Axis, y: float) -> Node:
    from_ms = axis.from_ms if row.from_ms is None else row.from_ms
    to_ms = axis.to_ms if row.to_ms is None else row.to_ms
    x_from, x_to = axis.x(from_ms), axis.x(to_ms)
    place = f"{row.topic}-{row.partition}"
    lasted = f"{duration(max(to_ms - from_ms, 0))} from {moment(from_ms)}"
    if row.member_id is None:
        return box(x_from, x_to, y, class_="gap", title=f"{place}: no member for {lasted}")
    number = members[row.member_id]
    title = f"{place}: {number} ({row.member_id}) for {lasted}"
    drawn = box(x_from, x_to, y, class_=owner_class(number), title=title)
    text = str(number)
    if x_to - x_from < _DIGIT_WIDTH * len(text) + 4:
        return drawn
    return [drawn, words(text, (x_from + x_to) / 2, y + 11, class_="on-owner")]


def bar(parts: Sequence[tuple[int, str, str]], total: int) -> Element:
    """A bar of numbers; each part has a class and a meaning."""
    return h.span(".stack")[
        (
            h.span(
                class_=f"bar {class_}",
                style=f"width:{160 * count / max(total, 1):.0f}px",
                title=f"{count:,} {meaning}",
            )
            for count, class_, meaning in parts
            if count
        )
    ]
