"""Members that a restart has forgotten, or may have."""

import pytest

from gateway.events.event import GatewayEvent
from gateway.events.group_events import GroupConverted, GroupCreated
from tests.support.event_writer import EventWriter
from tests.support.group_events import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    becomes,
    gets,
    gives,
    group_goes,
    joins,
    leaves,
)
from tests.support.ownership import Histories, gap, overlap, owner, unsure

HISTORIES = Histories()
expects = HISTORIES.expects


def upgrades() -> GatewayEvent:
    return GroupConverted(
        direction="classic->consumer", is_live=True, group_epoch=2, members=1, cause="b joined"
    )


@expects(owner(0, "a", 1, 3), owner(0, "b", 3, 4), gap(0, 4, 6), owner(0, "e", 6))
def a_replacement_that_a_restart_forgot(writer: EventWriter) -> None:
    """A member that replaces another in a rebalance has no record before its end, but the removal
    of its predecessor has."""
    writer.beside(0, joins("a"), group_goes(EMPTY, PREPARING), group_goes(PREPARING, COMPLETING))
    writer.tell(1, group_goes(COMPLETING, STABLE), gets("a", 0))
    writer.beside(2, joins("c"), group_goes(STABLE, PREPARING))
    writer.tell(3, gives("a", 0), becomes("a", "b"), joins("b"), gets("b", 0))
    writer.beside(4, joins("d"))
    writer.process_id = "another"
    writer.beside(5, joins("e"), group_goes(PREPARING, COMPLETING))
    writer.tell(6, group_goes(COMPLETING, STABLE), gets("e", 0))


@expects(owner(0, "a", 1, 3), owner(0, "b", 3, 4), gap(0, 4, 6), owner(0, "e", 6))
def a_replacement_that_begins_a_rebalance_before_a_restart(writer: EventWriter) -> None:
    """The new member has no record either."""
    writer.beside(0, joins("a"), group_goes(EMPTY, PREPARING), group_goes(PREPARING, COMPLETING))
    writer.tell(1, group_goes(COMPLETING, STABLE), gets("a", 0))
    writer.tell(
        3, gives("a", 0), becomes("a", "b"), joins("b"), gets("b", 0), group_goes(STABLE, PREPARING)
    )
    writer.beside(4, joins("d"))
    writer.process_id = "another"
    writer.beside(5, joins("e"), group_goes(PREPARING, COMPLETING))
    writer.tell(6, group_goes(COMPLETING, STABLE), gets("e", 0))


@expects(
    owner(0, "a", 1, 3),
    owner(0, "b", 3),
    unsure(0, "e", "b", 6, 6),
    owner(0, "e", 6, 9),
    owner(0, "f", 9),
    owner(1, "a", 1, 3),
    owner(1, "b", 3, 8),
    owner(1, "e", 8),
)
def a_replacement_that_a_restart_may_have_forgotten(writer: EventWriter) -> None:
    """Either process may have written the replacement, and the new one would know the member."""
    writer.beside(0, joins("a"), group_goes(EMPTY, PREPARING), group_goes(PREPARING, COMPLETING))
    writer.tell(1, group_goes(COMPLETING, STABLE), gets("a", 0, 1))
    writer.beside(2, joins("c"), group_goes(STABLE, PREPARING))
    writer.tell(3, gives("a", 0, 1), becomes("a", "b"), joins("b"), gets("b", 0, 1))
    writer.process_id = "another"
    writer.beside(5, joins("e"), group_goes(PREPARING, COMPLETING))
    writer.tell(6, group_goes(COMPLETING, STABLE), gets("e", 0))
    writer.tell(8, gives("b", 1), gets("e", 1))
    writer.tell(9, gives("e", 0), gets("f", 0))


@expects(
    owner(0, "a", 1, 3),
    owner(0, "b", 3, 7),
    unsure(0, "e", "b", 6, 7),
    owner(0, "e", 6, 7),
    gap(0, 7, 9),
    owner(0, "f", 9),
)
def perhaps_forgotten_until_the_group_is_empty(writer: EventWriter) -> None:
    """No event says that the member left, so its ownership may have ended long before. An empty
    group ends it for certain."""
    writer.beside(0, joins("a"), group_goes(EMPTY, PREPARING), group_goes(PREPARING, COMPLETING))
    writer.tell(1, group_goes(COMPLETING, STABLE), gets("a", 0))
    writer.beside(2, joins("c"), group_goes(STABLE, PREPARING))
    writer.tell(3, gives("a", 0), becomes("a", "b"), joins("b"), gets("b", 0))
    writer.process_id = "another"
    writer.beside(5, joins("e"), group_goes(PREPARING, COMPLETING))
    writer.tell(6, group_goes(COMPLETING, STABLE), gets("e", 0))
    writer.tell(7, gives("e", 0), group_goes(STABLE, EMPTY))
    writer.tell(9, gets("f", 0))


@expects(owner(0, "a", 0, 2), owner(0, "b", 2), unsure(0, "d", "b", 5, 5), owner(0, "d", 5))
def perhaps_forgotten_by_a_process_without_a_line(writer: EventWriter) -> None:
    """The process that forgot the member may have written nothing but records."""
    writer.tell(0, group_goes(COMPLETING, STABLE), gets("a", 0))
    writer.beside(1, joins("e"), group_goes(STABLE, PREPARING))
    writer.tell(2, gives("a", 0), becomes("a", "b"), joins("b"), gets("b", 0))
    writer.tell(4, becomes("c", "d"), joins("d"), group_goes(PREPARING, COMPLETING))
    writer.tell(5, group_goes(COMPLETING, STABLE), gets("d", 0))


@expects(owner(0, "a", 0, 2), owner(0, "b", 2), unsure(0, "d", "b", 5, 5), owner(0, "d", 5))
def perhaps_forgotten_before_a_replacement_began_a_generation(writer: EventWriter) -> None:
    """Its line is among the records, and `c` rejoins without one. So either process may have
    written it: the new one has written nothing beside the records yet."""
    perhaps_forgotten_by_a_process_without_a_line(writer)
    writer.process_id = "another"
    writer.beside(6, joins("f"), group_goes(STABLE, PREPARING))


@expects(owner(0, "a", 0), owner(0, "b", 1), overlap(0, "b", "a", 1))
def an_overlap_without_any_process(writer: EventWriter) -> None:
    """Nothing hints at a restart."""
    writer.tell(0, group_goes(EMPTY, PREPARING), joins("a"), gets("a", 0))
    writer.tell(1, joins("b"), gets("b", 0))


@expects(owner(0, "a", 1, 2), gap(0, 2, 3), owner(0, "b", 3))
def an_instance_with_another_member(writer: EventWriter) -> None:
    """An instance has one member, so a restart has forgotten the first one, which joined in a
    rebalance. Members of consumer groups change their instances without an event."""
    writer.tell(0, group_goes(EMPTY, PREPARING))
    writer.tell(1, joins("a", instance_id="i"), gets("a", 0))
    writer.tell(2, joins("b", instance_id="i"))
    writer.tell(3, gets("b", 0))


@expects(owner(0, "a", 1, 2), owner(0, "b", 2))
def a_forgotten_instance_that_comes_with_a_conversion(writer: EventWriter) -> None:
    """The new process converts the group, which writes a record of each member that it knows, and
    lets another member have the instance in the same moment."""
    writer.tell(0, group_goes(EMPTY, PREPARING))
    writer.tell(1, joins("a", instance_id="i"), gets("a", 0))
    writer.tell(2, upgrades(), joins("b", instance_id="i"), gets("b", 0))


@expects(owner(0, "a", 1), unsure(0, "b", "a", 2, 2), owner(0, "b", 2))
def perhaps_forgotten_before_a_conversion(writer: EventWriter) -> None:
    """The old process may have converted the group, which would have written a record of the
    member, or the new one, which would not know it."""
    writer.beside(0, joins("c"), group_goes(EMPTY, PREPARING))
    writer.tell(1, joins("a"), gets("a", 0))
    writer.tell(2, upgrades(), gets("b", 0))
    writer.process_id = "another"
    writer.beside(2, joins("b"))


@expects(owner(0, "a", 1), unsure(0, "b", "a", 2, 2), owner(0, "b", 2))
def perhaps_forgotten_although_its_process_went_on(writer: EventWriter) -> None:
    """The old process wrote another line after the join, but still no record of the member."""
    writer.beside(0, joins("c"), group_goes(EMPTY, PREPARING))
    writer.tell(1, joins("a"), gets("a", 0))
    writer.beside(1, joins("d"))
    writer.tell(2, upgrades(), gets("b", 0))
    writer.process_id = "another"
    writer.beside(2, joins("b"))


@expects(owner(0, "a", 1), unsure(0, "b", "a", 2, 2), owner(0, "b", 2))
def perhaps_forgotten_after_it_joined_the_old_process(writer: EventWriter) -> None:
    writer.beside(0, joins("c"), group_goes(EMPTY, PREPARING))
    writer.beside(1, joins("a"), gets("a", 0))
    writer.tell(2, upgrades(), gets("b", 0))
    writer.process_id = "another"
    writer.beside(2, joins("b"))


@expects(owner(0, "a", 1, 2), gap(0, 2, 5), owner(0, "c", 5))
def a_forgotten_instance_that_joins_after_a_generation(writer: EventWriter) -> None:
    """The record of that generation is the new process's, which does not know the first member. So
    this one was gone when the old process ended."""
    writer.beside(0, joins("c"), group_goes(EMPTY, PREPARING))
    writer.tell(1, joins("a", instance_id="i"), gets("a", 0))
    writer.tell(2, joins("d"))
    writer.process_id = "another"
    writer.beside(4, group_goes(PREPARING, COMPLETING))
    writer.tell(5, group_goes(COMPLETING, STABLE), gets("c", 0))
    writer.beside(7, joins("b", instance_id="i"), group_goes(STABLE, PREPARING))


@expects(owner(0, "a", 2, 4), gap(0, 4, 5), owner(0, "b", 5), owner(1, "c", 0, 1), gap(1, 1))
def an_instance_in_a_rebalance_that_began_with_the_process(writer: EventWriter) -> None:
    """The place of `c` was kept when the old process ended, so the new one began a rebalance, and
    its end forgot `a` (DEV D61). No event says when it began."""
    writer.tell(0, group_goes(COMPLETING, STABLE), gets("c", 1))
    writer.tell(1, gives("c", 1), leaves("c"))
    writer.tell(2, becomes("x", "a"), joins("a", instance_id="i"), gets("a", 0))
    writer.process_id = "third"
    writer.beside(4, joins("b", instance_id="i"), group_goes(PREPARING, COMPLETING))
    writer.tell(5, group_goes(COMPLETING, STABLE), gets("b", 0))


@expects(
    owner(0, "x", 0, 2),
    owner(0, "a", 2),
    unsure(0, "b", "a", 5, 5),
    owner(0, "b", 5),
    owner(1, "c", 0, 1),
    gap(1, 1),
)
def perhaps_forgotten_in_a_rebalance_that_began_with_the_process(writer: EventWriter) -> None:
    """The same, but nobody comes back as the instance. If the group had been stable, there would be
    a record of `a`."""
    writer.tell(0, group_goes(COMPLETING, STABLE), gets("c", 1), gets("x", 0))
    writer.tell(1, gives("c", 1), leaves("c"))
    writer.tell(2, gives("x", 0), becomes("x", "a"), joins("a", instance_id="i"), gets("a", 0))
    writer.process_id = "third"
    writer.beside(4, joins("b"), group_goes(PREPARING, COMPLETING))
    writer.tell(5, group_goes(COMPLETING, STABLE), gets("b", 0))


@expects(owner(0, "x", 0, 2), owner(0, "a", 2), unsure(0, "b", "a", 4, 4), owner(0, "b", 4))
def perhaps_forgotten_before_a_conversion_of_a_group_at_rest(writer: EventWriter) -> None:
    """The same, but the third process converts the group, before any event shows that a
    rebalance had begun. If the first one had let `a` take the instance, the group would have been
    stable, and the conversion would have written a record of `a`."""
    writer.beside(0, group_goes(PREPARING, COMPLETING))
    writer.tell(0, group_goes(COMPLETING, STABLE), gets("x", 0))
    writer.tell(2, gives("x", 0), becomes("x", "a"), joins("a", instance_id="i"), gets("a", 0))
    writer.tell(4, upgrades(), gets("b", 0))
    writer.process_id = "third"
    writer.beside(5, joins("d"))


@expects(owner(0, "x", 0, 2), owner(0, "a", 2), unsure(0, "b", "a", 5, 5), owner(0, "b", 5))
def perhaps_forgotten_after_a_downgrade_at_rest(writer: EventWriter) -> None:
    """No event says so, but the group is stable then, until the next process begins a
    rebalance because somebody had left."""
    down = GroupConverted(direction="consumer->classic", is_live=True, members=2, cause="n left")
    writer.tell(0, gets("x", 0))
    writer.tell(1, down)
    writer.tell(2, gives("x", 0), becomes("x", "a"), joins("a", instance_id="i"), gets("a", 0))
    writer.process_id = "third"
    writer.beside(4, joins("b"), group_goes(PREPARING, COMPLETING))
    writer.tell(5, group_goes(COMPLETING, STABLE), gets("b", 0))


@expects(owner(0, "x", 0, 2), owner(0, "a", 2), overlap(0, "b", "a", 4), owner(0, "b", 4))
def an_overlap_in_a_conversion_by_the_same_process(writer: EventWriter) -> None:
    """Its next line shows that it went on, so it would have written the beginning of a
    rebalance."""
    writer.beside(0, group_goes(PREPARING, COMPLETING))
    writer.tell(0, group_goes(COMPLETING, STABLE), gets("x", 0))
    writer.tell(2, gives("x", 0), becomes("x", "a"), joins("a", instance_id="i"), gets("a", 0))
    writer.tell(4, upgrades(), gets("b", 0))
    writer.beside(5, joins("d"))


@expects(owner(0, "x", 0, 2), owner(0, "a", 2), overlap(0, "b", "a", 4), owner(0, "b", 4))
def an_overlap_in_a_conversion_during_a_told_rebalance(writer: EventWriter) -> None:
    """The group was stable until then, so it has a record of `a`."""
    writer.beside(0, group_goes(PREPARING, COMPLETING))
    writer.tell(0, group_goes(COMPLETING, STABLE), gets("x", 0))
    writer.tell(2, gives("x", 0), becomes("x", "a"), joins("a", instance_id="i"), gets("a", 0))
    writer.beside(3, joins("e"), group_goes(STABLE, PREPARING))
    writer.tell(4, upgrades(), gets("b", 0))
    writer.process_id = "third"
    writer.beside(5, joins("d"))


@expects(owner(0, "a", 1), overlap(0, "b", "a", 4), owner(0, "b", 4))
def an_overlap_in_a_conversion_after_an_adoption(writer: EventWriter) -> None:
    """The members of an adopted group have records. An empty consumer group was left here."""
    left = GroupConverted(direction="consumer->classic", is_live=False, members=1, cause="")
    writer.tell(1, left, group_goes(EMPTY, STABLE), joins("a"), gets("a", 0))
    writer.beside(2, joins("c"), group_goes(STABLE, PREPARING))
    writer.process_id = "another"
    writer.tell(4, upgrades(), gets("b", 0))
    writer.beside(5, joins("d"))


@expects(owner(0, "a", 1), overlap(0, "b", "a", 4), owner(0, "b", 4))
def an_overlap_soon_after_an_adoption(writer: EventWriter) -> None:
    """Its members seem to join a stable group, but their records are those of the adoption."""
    writer.tell(
        1, GroupCreated(kind="classic"), group_goes(EMPTY, STABLE), joins("a"), gets("a", 0)
    )
    writer.process_id = "another"
    writer.tell(4, upgrades(), gets("b", 0))
    writer.beside(5, joins("d"))


@expects(owner(0, "a", 2), overlap(0, "b", "a", 5), owner(0, "b", 5))
def an_overlap_in_a_rebalance_of_the_same_process(writer: EventWriter) -> None:
    """An event shows its beginning, so the group was stable when `a` joined, and has a record."""
    writer.tell(
        2,
        group_goes(COMPLETING, STABLE),
        becomes("x", "a"),
        joins("a", instance_id="i"),
        gets("a", 0),
    )
    writer.beside(4, joins("b"), group_goes(STABLE, PREPARING), group_goes(PREPARING, COMPLETING))
    writer.tell(5, group_goes(COMPLETING, STABLE), gets("b", 0))


@pytest.mark.parametrize("name", HISTORIES.expected)
def test_a_restart_forgets_members_without_a_record(name: str) -> None:
    """Each history states its own intervals."""
    assert HISTORIES.found(name) == HISTORIES.expected[name]
