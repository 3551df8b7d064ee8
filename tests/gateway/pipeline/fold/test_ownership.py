"""Owners of a partition side by side: overlaps, and gaps with the time without members."""

from collections.abc import Mapping

import pytest

from gateway.events.group_events import GroupCreated
from tests.support.event_writer import EventWriter, WriteHistory, lines_of, seconds
from tests.support.folded_lines import folded
from tests.support.group_events import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    gets,
    gives,
    group_goes,
    joins,
    leaves,
    says,
)
from tests.support.ownership import Histories, gap, overlap, owner

HISTORIES = Histories()
expects = HISTORIES.expects


@expects(owner(0, "a", 1, 3), gap(0, 3, 4.5), owner(0, "b", 4.5))
def a_partition_moves(writer: EventWriter) -> None:
    """Owner, gap, owner."""
    writer.tell(1, gets("a", 0))
    writer.tell(3, gives("a", 0))
    writer.tell(4.5, gets("b", 0))


@expects(
    owner(0, "a", 1, 2),
    overlap(0, "b", "a", 2, 2),
    owner(0, "b", 2),
    owner(1, "a", 1, 2),
    owner(1, "b", 2),
)
def two_owners_for_an_instant(writer: EventWriter) -> None:
    """The order of events counts, not the clock, even within a millisecond."""
    writer.tell(1, gets("a", 0, 1))
    writer.tell(2, gets("b", 0))
    writer.tell(2, gives("a", 0, 1), gets("b", 1))


@expects(
    owner(0, "a", 1),
    overlap(0, "b", "a", 2, 3),
    owner(0, "b", 2, 3),
    overlap(0, "c", "a", 4),
    owner(0, "c", 4),
)
def two_owners_until_one_ends(writer: EventWriter) -> None:
    """The overlap may never end. The longest owner is the other one."""
    writer.tell(1, gets("a", 0))
    writer.tell(2, gets("b", 0))
    writer.tell(3, gives("b", 0))
    writer.tell(4, gets("c", 0))


@pytest.mark.parametrize("name", HISTORIES.expected)
def test_owners_are_compared_in_the_order_of_their_events(name: str) -> None:
    """Each history states its own intervals."""
    assert HISTORIES.found(name) == HISTORIES.expected[name]


def an_empty_group(writer: EventWriter) -> None:
    """No member needs its partitions, so five seconds of the gap count separately."""
    writer.tell(0, joins("a"), joins("b"))
    writer.tell(1, gets("a", 0))
    writer.tell(2, gives("a", 0), leaves("a"))
    writer.tell(4, leaves("b"))
    writer.tell(9, joins("c"))
    writer.tell(10, gets("c", 0))


def a_member_that_was_there_before(writer: EventWriter) -> None:
    """It neither joins nor leaves, so the group is empty when all others have left."""
    writer.lose(3)
    writer.beside(0, says("old", 1))
    writer.tell(1, joins("a"), gets("a", 0))
    writer.tell(2, gives("a", 0), leaves("a"))
    writer.tell(9, joins("c"))
    writer.tell(10, gets("c", 0))


def a_member_that_a_restart_forgot(writer: EventWriter) -> None:
    """A member that joined a classic group, which was not complete when its gateway ended, is no
    longer in it. When all others have left, the group is empty."""
    writer.tell(0, GroupCreated(kind="classic"))
    writer.beside(0, joins("a"))
    writer.beside(1, group_goes(EMPTY, PREPARING), group_goes(PREPARING, COMPLETING))
    writer.tell(1, group_goes(COMPLETING, STABLE), gets("a", 0))
    writer.beside(2, joins("lost"), group_goes(STABLE, PREPARING))
    writer.process_id = "another"
    writer.beside(3, leaves("a"), group_goes(STABLE, PREPARING))
    writer.tell(4, group_goes(PREPARING, EMPTY), gives("a", 0))
    writer.beside(9, joins("b"), group_goes(EMPTY, PREPARING), group_goes(PREPARING, COMPLETING))
    writer.tell(10, group_goes(COMPLETING, STABLE), gets("b", 0))


EMPTY_MS: Mapping[WriteHistory, tuple[float, float, int]] = {
    an_empty_group: (2, 10, 5000),
    a_member_that_was_there_before: (2, 10, 0),
    a_member_that_a_restart_forgot: (4, 10, 5000),
}
"""The start, the end and the empty time of the only gap."""


@pytest.mark.parametrize("case", EMPTY_MS, ids=lambda case: case.__name__)
def test_the_time_without_members_is_counted_separately(case: WriteHistory) -> None:
    """Each history is explained where it is defined."""
    rows = folded(*lines_of({"group": case})).ownership
    gaps = [row for row in rows if row.kind == "gap"]
    assert [(seconds(row.from_ms), seconds(row.to_ms), row.empty_ms) for row in gaps] == [
        EMPTY_MS[case]
    ]
