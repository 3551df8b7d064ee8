"""Hand-written histories with the owners that the ownership table is expected to have."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from gateway.pipeline.fold.ownership import OwnershipRow
from tests.support.event_writer import WriteHistory, lines_of, seconds
from tests.support.folded_lines import folded

Interval: TypeAlias = tuple[int, str, str, str | None, str | None, float | None, float | None]
"""Partition, basis, kind, member, other member, start and end in seconds."""


def owner(number: int, member_id: str, from_s: float | None, to_s: float | None = None) -> Interval:
    """The engine granted the partition to the member. No end: it still has it."""
    return (number, "granted", "owner", member_id, None, from_s, to_s)


def gap(number: int, from_s: float, to_s: float | None = None) -> Interval:
    """Nobody had it."""
    return (number, "granted", "gap", None, None, from_s, to_s)


def overlap(
    number: int, member_id: str, other_id: str, from_s: float, to_s: float | None = None
) -> Interval:
    """The member got it while the other one had it."""
    return (number, "granted", "overlap", member_id, other_id, from_s, to_s)


def unsure(number: int, member_id: str, other_id: str, from_s: float, to_s: float) -> Interval:
    """Perhaps both had it."""
    return (number, "granted", "unsure", member_id, other_id, from_s, to_s)


def claim(number: int, member_id: str, from_s: float, to_s: float) -> Interval:
    """The member claimed it, from the first time to the last."""
    return (number, "stated", "owner", member_id, None, from_s, to_s)


def claims_overlap(
    number: int, member_id: str, other_id: str, from_s: float, to_s: float
) -> Interval:
    """Both claimed it."""
    return (number, "stated", "overlap", member_id, other_id, from_s, to_s)


class Histories:
    """The histories of one test module."""

    def __init__(self) -> None:
        self.expected: dict[str, Sequence[Interval]] = {}
        self._told: dict[str, WriteHistory] = {}

    def expects(self, *expected: Interval) -> Callable[[WriteHistory], WriteHistory]:
        """Marks a function that writes the history of one group with the expected intervals."""

        def keep(write: WriteHistory) -> WriteHistory:
            self.expected[write.__name__] = sorted(expected, key=str)
            self._told[write.__name__] = write
            return write

        return keep

    def found(self, name: str) -> Sequence[Interval]:
        """The intervals of a history."""
        rows = folded(*lines_of({name: self._told[name]})).ownership
        return sorted(map(_interval, rows), key=str)


def _interval(row: OwnershipRow) -> Interval:
    times = seconds(row.from_ms), seconds(row.to_ms)
    return (row.partition, row.basis, row.kind, row.member_id, row.other_member_id, *times)
