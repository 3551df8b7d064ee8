"""Compares the intervals of owners: finds overlaps, and gaps between them.

Intervals have positions besides their times, because events of one millisecond still have an order.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gateway.pipeline.history import Moment

ENDLESS = (1 << 63) - 1
"""The `to_position` of an interval without an end."""

Kind: TypeAlias = Literal["owner", "gap", "overlap", "unsure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A member owned the partition."""

    member_id: str
    from_position: int
    from_ms: int | None
    """Null if it began before the first event."""
    to_position: int
    to_ms: int | None
    leaves_gap: bool
    """Whether no member owns the partition from the end to the next interval."""
    begun: Moment | None = None
    ended: Moment | None = None
    """The events of the beginning and the end, if there are any."""
    may_be_over: bool = False
    """Whether a restart may have forgotten the member, which no event tells."""

    @property
    def order(self) -> tuple[int, int, str]:
        """By beginning."""
        return self.from_position, self.to_position, self.member_id

    @property
    def reach(self) -> tuple[int, int, int, str, bool]:
        """By end."""
        to_ms, from_ms = (-1 if each is None else each for each in (self.to_ms, self.from_ms))
        return self.to_position, to_ms, from_ms, self.member_id, self.leaves_gap


@dataclass(frozen=True, slots=True)
class Span:
    """One row of the comparison."""

    kind: Kind
    member_id: str | None
    other_member_id: str | None
    from_ms: int | None
    to_ms: int | None


def side_by_side(
    intervals: Iterable[Interval], is_open: Callable[[Moment, Moment], bool]
) -> Iterator[Span]:
    """The intervals of one partition as owners, with an overlap where an interval begins before an
    earlier one of another owner has ended, and a gap from the end of all earlier intervals to the
    next one. If the last interval leaves a gap, the gap after it never ends. `is_open` tells
    whether two events may have happened in either order: then it is unsure whether two members
    owned the partition at once, as after an interval that may be over."""
    in_order: Sequence[Interval] = sorted(intervals, key=lambda each: each.order)
    reached: Interval | None = None
    for each in in_order:
        yield Span("owner", each.member_id, None, each.from_ms, each.to_ms)
        if reached is not None:
            is_unsure = reached.member_id != each.member_id and (
                reached.may_be_over
                or (
                    reached.ended is not None
                    and each.begun is not None
                    and is_open(reached.ended, each.begun)
                )
            )
            if is_unsure:
                both_ms = sorted(filter(None, (each.from_ms, reached.to_ms)))
                yield Span("unsure", each.member_id, reached.member_id, both_ms[0], both_ms[-1])
            yield from _between(reached, each, is_unsure=is_unsure)
        if reached is None or reached.may_be_over:
            reached = each
        reached = max(reached, each, key=lambda one: one.reach)
    if reached is not None and reached.to_position < ENDLESS and reached.leaves_gap:
        yield Span("gap", None, None, reached.to_ms, None)


def _between(reached: Interval, each: Interval, *, is_unsure: bool) -> Iterator[Span]:
    if reached.to_position > each.from_position:
        if reached.member_id != each.member_id and not is_unsure:
            from_ms = reached.from_ms if each.from_ms is None else each.from_ms
            ends_ms = [end for end in (each.to_ms, reached.to_ms) if end is not None]
            both = (each.member_id, reached.member_id)
            yield Span("overlap", *both, from_ms, min(ends_ms, default=None))
    elif reached.to_position < each.from_position and reached.leaves_gap:
        has_length = None not in (reached.to_ms, each.from_ms) and reached.to_ms != each.from_ms
        if has_length:
            yield Span("gap", None, None, reached.to_ms, each.from_ms)
