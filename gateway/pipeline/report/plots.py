"""The plots of the page: who owned each partition when, and bars. They are boxes, whose colours are
classes of style.css."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import htpy as h
from htpy import Element

from gateway.pipeline.fold.rows import OwnershipRow
from gateway.readable import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    date_time,
    format_duration,
    format_timestamp,
    visible,
)

COLOURS = 8
"""Colours of owners; further ones are striped, then both repeat: the number tells them apart."""
TICK_SHARE = 0.12
"""The width of a label of the time axis, as a share of the axis."""
_NAME_MAX = 25
_STEPS_MS = (
    *(unit * count for unit in (1, 10, 100) for count in (1, 2, 5)),
    *(count * SECOND_MS for count in (1, 2, 5, 10, 15, 30)),
    *(count * MINUTE_MS for count in (1, 2, 5, 10, 15, 30)),
    *(count * HOUR_MS for count in (1, 2, 3, 6, 12)),
    *(count * DAY_MS for count in (1, 2, 7, 14, 28, 91, 365)),
)


class Tick(NamedTuple):
    """A round moment on the time axis."""

    share: float
    """Where it is, as a share of the axis."""
    time: str
    date: str
    """Empty if it is that of the tick before."""


class Axis(NamedTuple):
    """A time axis."""

    from_ms: int
    to_ms: int

    def share(self, at_ms: int) -> float:
        """The place of a moment; moments outside are moved to the nearer end."""
        share = (at_ms - self.from_ms) / max(self.to_ms - self.from_ms, 1)
        return min(max(share, 0.0), 1.0)

    def ticks(self) -> Iterator[Tick]:
        """Round moments, as many as have room."""
        room_ms = max(self.to_ms - self.from_ms, 10) * TICK_SHARE
        step_ms = next((step for step in _STEPS_MS if step >= room_ms), int(room_ms) + 1)
        date = ""
        for at_ms in range(-(-self.from_ms // step_ms) * step_ms, self.to_ms + 1, step_ms):
            time = _time(at_ms, step_ms) if step_ms < DAY_MS else ""
            is_same = date == (date := f"{date_time(at_ms):%Y-%m-%d}")
            yield Tick(self.share(at_ms), time, "" if is_same else date)


def _time(at_ms: int, step_ms: int) -> str:
    at = date_time(at_ms)
    if step_ms >= MINUTE_MS:
        return f"{at:%H:%M}"
    return f"{at:%H:%M:%S}" if step_ms >= SECOND_MS else f"{at:%H:%M:%S}.{at_ms % SECOND_MS:03}"


def owner_class(number: int) -> str:
    """The CSS classes of the member with this number."""
    style = (number - 1) % (2 * COLOURS)
    return f"owner owner-{style % COLOURS}" + (" striped" if style >= COLOURS else "")


def ownership_map(rows: Sequence[OwnershipRow], members: Mapping[str, int], axis: Axis) -> Element:
    """Who owned each partition when; `members` are numbered."""
    lanes: dict[tuple[str, int], list[OwnershipRow]] = {}
    for row in rows:
        lanes.setdefault((row.topic, row.partition), []).append(row)
    return h.div(".plot", role="img", aria_label="Owners of partitions over time")[
        h.div(".lanes")[
            h.div(".ticks")[(_draw_tick(tick) for tick in axis.ticks())],
            (
                h.div(".lane")[
                    h.bdi(".name")[visible(f"{topic}-{number}", _NAME_MAX)],
                    h.div(".track")[(_draw_interval(row, members, axis) for row in partition_rows)],
                ]
                for (topic, number), partition_rows in lanes.items()
            ),
        ]
    ]


def _draw_tick(tick: Tick) -> Element:
    is_last = tick.share + TICK_SHARE / 2 > 1
    return h.span(class_="tick last" if is_last else "tick", style=f"left:{tick.share:.2%}")[
        h.span[tick.time, h.br, tick.date]
    ]


def _draw_interval(row: OwnershipRow, members: Mapping[str, int], axis: Axis) -> Element:
    from_ms = axis.from_ms if row.from_ms is None else row.from_ms
    to_ms = axis.to_ms if row.to_ms is None else row.to_ms
    left, right = axis.share(from_ms), axis.share(to_ms)
    lasted = f"{format_duration(max(to_ms - from_ms, 0))} from {format_timestamp(from_ms)}"
    number, class_, who = "", "gap", "no member"
    if row.member_id is not None:
        number = str(members[row.member_id])
        class_, who = owner_class(members[row.member_id]), f"{number} ({row.member_id})"
    return h.span(
        class_=f"interval {class_}",
        style=f"left:{left:.3%};width:{right - left:.3%}",
        title=visible(f"{row.topic}-{row.partition}: {who} for {lasted}", 300),
    )[number]


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
