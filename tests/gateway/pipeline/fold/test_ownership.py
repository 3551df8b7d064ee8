"""Owners of partitions: in hand-written histories, and in the simulator, which knows the truth."""

import random
from collections.abc import Mapping, Sequence
from functools import partial

import pytest

from coordinator.interface.records import RemovalCause
from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    GroupConverted,
    GroupCreated,
    GroupDeleted,
    GroupStateMoved,
    TopicsGone,
)
from gateway.events.member_events import (
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    PartitionsAssigned,
    PartitionsReleased,
    PartitionsStated,
)
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted
from gateway.pipeline.fold.ownership import OwnershipRow
from tests.support.event_writer import START_MS, EventWriter, WriteHistory, lines_of, seconds
from tests.support.folded_lines import folded
from tests.support.group_events import COMPLETING, EMPTY, PREPARING, STABLE
from tests.support.simulated_events import SimulatedStep, simulated

Interval = tuple[int, str, str, str | None, str | None, float | None, float | None]
"""Partition, basis, kind, member, other member, start, end."""

SEEDS = range(6)
HOLES = 8
"""The number of runs per seed with missing lines."""


def gets(member_id: str, *numbers: int) -> GatewayEvent:
    return PartitionsAssigned(member_id=member_id, member_epoch=1, partitions={"t": numbers})


def gives(member_id: str, *numbers: int) -> GatewayEvent:
    return PartitionsReleased(member_id=member_id, member_epoch=1, partitions={"t": numbers})


def says(member_id: str, *numbers: int) -> GatewayEvent:
    partitions = {"t": numbers} if numbers else {}
    return PartitionsStated(member_id=member_id, member_epoch=1, partitions=partitions)


def joins(member_id: str, instance_id: str | None = None) -> GatewayEvent:
    return MemberJoined(
        member_id=member_id,
        client_id="c",
        client_host="/h",
        instance_id=instance_id,
        protocol="classic",
    )


def rejoins() -> GatewayEvent:
    return GroupStateMoved(
        from_state=ClassicPhase.STABLE, to_state=ClassicPhase.PREPARING_REBALANCE, generation=1
    )


def goes(was: ClassicPhase, to: ClassicPhase) -> GatewayEvent:
    return GroupStateMoved(from_state=was, to_state=to, generation=1)


def upgrades() -> GatewayEvent:
    return GroupConverted(
        direction="classic->consumer", is_live=True, group_epoch=2, members=1, cause="b joined"
    )


def leaves(member_id: str) -> GatewayEvent:
    return MemberLeft(member_id=member_id, cause=RemovalCause.LEFT)


def commits(member_id: str, from_s: float, to_s: float, *numbers: int) -> GatewayEvent:
    offsets = [CommittedOffsets(partition=n, commits=2, first=1, lowest=1, last=2) for n in numbers]
    return OffsetsCommitted(
        member_id=member_id,
        is_transactional=False,
        from_ms=START_MS + round(from_s * 1000),
        to_ms=START_MS + round(to_s * 1000),
        offsets={"t": tuple(offsets)},
    )


def a_partition_moves(writer: EventWriter) -> None:
    """Owner, gap, owner."""
    writer.tell(1, gets("a", 0))
    writer.tell(3, gives("a", 0))
    writer.tell(4.5, gets("b", 0))


def two_owners_for_an_instant(writer: EventWriter) -> None:
    """The order of events counts, not the clock, even within a millisecond."""
    writer.tell(1, gets("a", 0, 1))
    writer.tell(2, gets("b", 0))
    writer.tell(2, gives("a", 0, 1), gets("b", 1))


def two_owners_until_one_ends(writer: EventWriter) -> None:
    """The overlap may never end. The longest owner is the other one."""
    writer.tell(1, gets("a", 0))
    writer.tell(2, gets("b", 0))
    writer.tell(3, gives("b", 0))
    writer.tell(4, gets("c", 0))


def given_again(writer: EventWriter) -> None:
    """A revocation was withdrawn."""
    writer.tell(1, gets("a", 0))
    writer.tell(2, gets("a", 0))


def a_replacement_that_a_restart_forgot(writer: EventWriter) -> None:
    """A member that replaces another in a rebalance has no record before its end, but the removal
    of its predecessor has."""
    writer.beside(0, joins("a"), goes(EMPTY, PREPARING), goes(PREPARING, COMPLETING))
    writer.tell(1, goes(COMPLETING, STABLE), gets("a", 0))
    writer.beside(2, joins("c"), goes(STABLE, PREPARING))
    replaced = MemberReplaced(member_id="a", replaced_by="b")
    writer.tell(3, gives("a", 0), replaced, joins("b"), gets("b", 0))
    writer.beside(4, joins("d"))
    writer.process_id = "another"
    writer.beside(5, joins("e"), goes(PREPARING, COMPLETING))
    writer.tell(6, goes(COMPLETING, STABLE), gets("e", 0))


def a_replacement_that_begins_a_rebalance_before_a_restart(writer: EventWriter) -> None:
    """The new member has no record either."""
    writer.beside(0, joins("a"), goes(EMPTY, PREPARING), goes(PREPARING, COMPLETING))
    writer.tell(1, goes(COMPLETING, STABLE), gets("a", 0))
    replaced = MemberReplaced(member_id="a", replaced_by="b")
    writer.tell(3, gives("a", 0), replaced, joins("b"), gets("b", 0), goes(STABLE, PREPARING))
    writer.beside(4, joins("d"))
    writer.process_id = "another"
    writer.beside(5, joins("e"), goes(PREPARING, COMPLETING))
    writer.tell(6, goes(COMPLETING, STABLE), gets("e", 0))


def a_replacement_that_a_restart_may_have_forgotten(writer: EventWriter) -> None:
    """The old process may have told it, or the new one, which would know the member."""
    writer.beside(0, joins("a"), goes(EMPTY, PREPARING), goes(PREPARING, COMPLETING))
    writer.tell(1, goes(COMPLETING, STABLE), gets("a", 0, 1))
    writer.beside(2, joins("c"), goes(STABLE, PREPARING))
    replaced = MemberReplaced(member_id="a", replaced_by="b")
    writer.tell(3, gives("a", 0, 1), replaced, joins("b"), gets("b", 0, 1))
    writer.process_id = "another"
    writer.beside(5, joins("e"), goes(PREPARING, COMPLETING))
    writer.tell(6, goes(COMPLETING, STABLE), gets("e", 0))
    writer.tell(8, gives("b", 1), gets("e", 1))
    writer.tell(9, gives("e", 0), gets("f", 0))


def perhaps_forgotten_until_the_group_is_empty(writer: EventWriter) -> None:
    """No event tells that it left, so it may have been over long before. After that it is."""
    writer.beside(0, joins("a"), goes(EMPTY, PREPARING), goes(PREPARING, COMPLETING))
    writer.tell(1, goes(COMPLETING, STABLE), gets("a", 0))
    writer.beside(2, joins("c"), goes(STABLE, PREPARING))
    replaced = MemberReplaced(member_id="a", replaced_by="b")
    writer.tell(3, gives("a", 0), replaced, joins("b"), gets("b", 0))
    writer.process_id = "another"
    writer.beside(5, joins("e"), goes(PREPARING, COMPLETING))
    writer.tell(6, goes(COMPLETING, STABLE), gets("e", 0))
    writer.tell(7, gives("e", 0), goes(STABLE, EMPTY))
    writer.tell(9, gets("f", 0))


def perhaps_forgotten_by_a_process_without_a_line(writer: EventWriter) -> None:
    """It may have told only what it wrote, and then nothing."""
    writer.tell(0, goes(COMPLETING, STABLE), gets("a", 0))
    writer.beside(1, joins("e"), goes(STABLE, PREPARING))
    replaced = MemberReplaced(member_id="a", replaced_by="b")
    writer.tell(2, gives("a", 0), replaced, joins("b"), gets("b", 0))
    replaced = MemberReplaced(member_id="c", replaced_by="d")
    writer.tell(4, replaced, joins("d"), goes(PREPARING, COMPLETING))
    writer.tell(5, goes(COMPLETING, STABLE), gets("d", 0))


def perhaps_forgotten_before_a_replacement_began_a_generation(writer: EventWriter) -> None:
    """Its line is among the records, and `c` rejoins without one. So either process may have
    told it, before the new one has told anything beside the records."""
    perhaps_forgotten_by_a_process_without_a_line(writer)
    writer.process_id = "another"
    writer.beside(6, joins("f"), goes(STABLE, PREPARING))


def an_overlap_without_any_process(writer: EventWriter) -> None:
    """Nothing hints at a restart."""
    writer.tell(0, goes(EMPTY, PREPARING), joins("a"), gets("a", 0))
    writer.tell(1, joins("b"), gets("b", 0))


def an_instance_with_another_member(writer: EventWriter) -> None:
    """An instance has one member, so a restart has forgotten the first one, which joined in a
    rebalance. Members of consumer groups change their instances without an event."""
    writer.tell(0, goes(EMPTY, PREPARING))
    writer.tell(1, joins("a", "i"), gets("a", 0))
    writer.tell(2, joins("b", "i"))
    writer.tell(3, gets("b", 0))


def a_forgotten_instance_that_comes_with_a_conversion(writer: EventWriter) -> None:
    """The new process converts the group, which writes a record of each member that it knows, and
    lets another member have the instance in the same moment."""
    writer.tell(0, goes(EMPTY, PREPARING))
    writer.tell(1, joins("a", "i"), gets("a", 0))
    writer.tell(2, upgrades(), joins("b", "i"), gets("b", 0))


def perhaps_forgotten_before_a_conversion(writer: EventWriter) -> None:
    """The old process may have converted the group, which would have written a record of the
    member, or the new one, which would not know it."""
    writer.beside(0, joins("c"), goes(EMPTY, PREPARING))
    writer.tell(1, joins("a"), gets("a", 0))
    writer.tell(2, upgrades(), gets("b", 0))
    writer.process_id = "another"
    writer.beside(2, joins("b"))


def perhaps_forgotten_although_its_process_went_on(writer: EventWriter) -> None:
    """The old process told another line after the join, and wrote no record of it either."""
    writer.beside(0, joins("c"), goes(EMPTY, PREPARING))
    writer.tell(1, joins("a"), gets("a", 0))
    writer.beside(1, joins("d"))
    writer.tell(2, upgrades(), gets("b", 0))
    writer.process_id = "another"
    writer.beside(2, joins("b"))


def perhaps_forgotten_after_it_joined_the_old_process(writer: EventWriter) -> None:
    writer.beside(0, joins("c"), goes(EMPTY, PREPARING))
    writer.beside(1, joins("a"), gets("a", 0))
    writer.tell(2, upgrades(), gets("b", 0))
    writer.process_id = "another"
    writer.beside(2, joins("b"))


def a_forgotten_instance_that_joins_after_a_generation(writer: EventWriter) -> None:
    """The record of that generation is the new process's, which does not know the first member. So
    this one was gone when the old process ended."""
    writer.beside(0, joins("c"), goes(EMPTY, PREPARING))
    writer.tell(1, joins("a", "i"), gets("a", 0))
    writer.tell(2, joins("d"))
    writer.process_id = "another"
    writer.beside(4, goes(PREPARING, COMPLETING))
    writer.tell(5, goes(COMPLETING, STABLE), gets("c", 0))
    writer.beside(7, joins("b", "i"), goes(STABLE, PREPARING))


def an_instance_in_a_rebalance_that_began_with_the_process(writer: EventWriter) -> None:
    """The place of `c` was kept when the old process ended, so the new one began a rebalance, and
    its end forgot `a` (DEV D61). No event tells when it began."""
    writer.tell(0, goes(COMPLETING, STABLE), gets("c", 1))
    writer.tell(1, gives("c", 1), leaves("c"))
    writer.tell(2, MemberReplaced(member_id="x", replaced_by="a"), joins("a", "i"), gets("a", 0))
    writer.process_id = "third"
    writer.beside(4, joins("b", "i"), goes(PREPARING, COMPLETING))
    writer.tell(5, goes(COMPLETING, STABLE), gets("b", 0))


def perhaps_forgotten_in_a_rebalance_that_began_with_the_process(writer: EventWriter) -> None:
    """The same, but nobody comes back as the instance. A process that was stable would have written
    a record of `a`."""
    writer.tell(0, goes(COMPLETING, STABLE), gets("c", 1), gets("x", 0))
    writer.tell(1, gives("c", 1), leaves("c"))
    replaced = MemberReplaced(member_id="x", replaced_by="a")
    writer.tell(2, gives("x", 0), replaced, joins("a", "i"), gets("a", 0))
    writer.process_id = "third"
    writer.beside(4, joins("b"), goes(PREPARING, COMPLETING))
    writer.tell(5, goes(COMPLETING, STABLE), gets("b", 0))


def perhaps_forgotten_before_a_conversion_of_a_group_at_rest(writer: EventWriter) -> None:
    """The same, but the third process converts the group, before anything tells that a rebalance
    had begun. If the first one had let `a` take the instance, the group would have been stable, and
    the conversion have a record of `a`."""
    writer.beside(0, goes(PREPARING, COMPLETING))
    writer.tell(0, goes(COMPLETING, STABLE), gets("x", 0))
    replaced = MemberReplaced(member_id="x", replaced_by="a")
    writer.tell(2, gives("x", 0), replaced, joins("a", "i"), gets("a", 0))
    writer.tell(4, upgrades(), gets("b", 0))
    writer.process_id = "third"
    writer.beside(5, joins("d"))


def perhaps_forgotten_after_a_downgrade_at_rest(writer: EventWriter) -> None:
    """No event tells that the group is stable then, but it is, until the next process begins a
    rebalance because somebody had left."""
    down = GroupConverted(direction="consumer->classic", is_live=True, members=2, cause="n left")
    writer.tell(0, gets("x", 0))
    writer.tell(1, down)
    replaced = MemberReplaced(member_id="x", replaced_by="a")
    writer.tell(2, gives("x", 0), replaced, joins("a", "i"), gets("a", 0))
    writer.process_id = "third"
    writer.beside(4, joins("b"), goes(PREPARING, COMPLETING))
    writer.tell(5, goes(COMPLETING, STABLE), gets("b", 0))


def an_overlap_in_a_conversion_by_the_same_process(writer: EventWriter) -> None:
    """Its next line shows that it had not ended, so it had told the beginning of a rebalance."""
    writer.beside(0, goes(PREPARING, COMPLETING))
    writer.tell(0, goes(COMPLETING, STABLE), gets("x", 0))
    replaced = MemberReplaced(member_id="x", replaced_by="a")
    writer.tell(2, gives("x", 0), replaced, joins("a", "i"), gets("a", 0))
    writer.tell(4, upgrades(), gets("b", 0))
    writer.beside(5, joins("d"))


def an_overlap_in_a_conversion_during_a_told_rebalance(writer: EventWriter) -> None:
    """The group was stable until then, so it has a record of `a`."""
    writer.beside(0, goes(PREPARING, COMPLETING))
    writer.tell(0, goes(COMPLETING, STABLE), gets("x", 0))
    replaced = MemberReplaced(member_id="x", replaced_by="a")
    writer.tell(2, gives("x", 0), replaced, joins("a", "i"), gets("a", 0))
    writer.beside(3, joins("e"), goes(STABLE, PREPARING))
    writer.tell(4, upgrades(), gets("b", 0))
    writer.process_id = "third"
    writer.beside(5, joins("d"))


def an_overlap_in_a_conversion_after_an_adoption(writer: EventWriter) -> None:
    """The members of an adopted group have records. An empty consumer group was left here."""
    left = GroupConverted(direction="consumer->classic", is_live=False, members=1, cause="")
    writer.tell(1, left, goes(EMPTY, STABLE), joins("a"), gets("a", 0))
    writer.beside(2, joins("c"), goes(STABLE, PREPARING))
    writer.process_id = "another"
    writer.tell(4, upgrades(), gets("b", 0))
    writer.beside(5, joins("d"))


def an_overlap_soon_after_an_adoption(writer: EventWriter) -> None:
    """Its members seem to join a stable group, but their records are those of the adoption."""
    writer.tell(1, GroupCreated(kind="classic"), goes(EMPTY, STABLE), joins("a"), gets("a", 0))
    writer.process_id = "another"
    writer.tell(4, upgrades(), gets("b", 0))
    writer.beside(5, joins("d"))


def an_overlap_in_a_rebalance_of_the_same_process(writer: EventWriter) -> None:
    """Its beginning is told, so the group was stable when `a` joined, and has a record of it."""
    replaced = MemberReplaced(member_id="x", replaced_by="a")
    writer.tell(2, goes(COMPLETING, STABLE), replaced, joins("a", "i"), gets("a", 0))
    writer.beside(4, joins("b"), goes(STABLE, PREPARING), goes(PREPARING, COMPLETING))
    writer.tell(5, goes(COMPLETING, STABLE), gets("b", 0))


def an_emptied_group(writer: EventWriter) -> None:
    """Its members own nothing, even if no event tells how they went."""
    writer.tell(1, gets("a", 0))
    writer.tell(2, goes(PREPARING, EMPTY))
    writer.tell(3, gets("b", 0))


def adopted_twice(writer: EventWriter) -> None:
    """No event grants an adopted member what it has. It had nothing here while the group was with
    the cluster again."""
    writer.tell(0, GroupCreated(kind="classic"))
    writer.tell(1, gives("a", 0))
    writer.tell(2, GroupDeleted())
    writer.tell(4, gives("b", 0))


def a_late_start(writer: EventWriter) -> None:
    """A member that releases a partition owned it. A member that got it before that is a second
    owner."""
    writer.lose(5)
    writer.tell(1, gets("b", 1))
    writer.tell(2, gives("a", 0, 1))


def a_grant_is_missing(writer: EventWriter) -> None:
    """A member that releases a partition got it within the missing lines, and not before the first
    event."""
    writer.tell(0, GroupCreated(kind="consumer"))
    writer.tell(1, gets("a", 0))
    writer.tell(2, gives("a", 0))
    writer.tell(3, joins("b"))
    writer.lose()
    writer.tell(5, gives("b", 0))


def a_release_is_missing(writer: EventWriter) -> None:
    """Another member got it after that, so the time of the change is unknown, and so is whether
    there was a gap."""
    writer.tell(1, gets("a", 0, 1))
    writer.beside(2, says("a", 0, 1))
    writer.lose()
    writer.tell(4, gets("b", 0))
    writer.tell(5, gives("b", 0))


def a_release_and_a_grant_are_missing(writer: EventWriter) -> None:
    """Missing lines are in one place or in several. Each member's own events count."""
    writer.tell(1, gets("a", 0))
    writer.lose(2)
    writer.tell(4, gives("b", 0))
    writer.lose(2)
    writer.tell(6, gives("a", 0))
    writer.lose(4)
    writer.tell(8, gives("a", 0))


def a_release_beside_the_sequence_is_missing(writer: EventWriter) -> None:
    """A classic member left. Its group's sequence is complete."""
    writer.tell(1, gets("a", 0), gets("c", 1))
    writer.lose_beside()
    writer.beside(2, leaves("a"))
    writer.tell(4, gets("b", 0))
    writer.beside(5, MemberReplaced(member_id="c", replaced_by="d"))
    writer.tell(6, gets("d", 1))


def given_again_after_a_hole(writer: EventWriter) -> None:
    """It returned to its first owner."""
    writer.tell(1, gets("a", 0))
    writer.tell(2, joins("b"))
    writer.lose()
    writer.tell(4, gets("b", 0))
    writer.tell(5, gives("b", 0))
    writer.tell(6, gets("a", 0))
    writer.tell(8, gives("a", 0))


def two_owners_beside_a_hole(writer: EventWriter) -> None:
    """A member that releases it after another got it, without missing lines in between, owned
    it."""
    writer.tell(1, gets("a", 0))
    writer.lose()
    writer.tell(4, gets("b", 0))
    writer.tell(5, gives("a", 0))
    writer.lose()
    writer.tell(7, joins("c"))
    writer.tell(8, gives("b", 0))


def the_beginning_of_another_gateway_is_missing(writer: EventWriter) -> None:
    """The group moved to another gateway, which counts as missing lines."""
    writer.tell(1, gets("a", 0))
    writer.tell(2, gives("a", 0))
    writer.gateway_id = "another"
    writer.lose()
    writer.tell(5, gives("b", 0))


def a_deleted_topic(writer: EventWriter) -> None:
    """Nothing is missing then. A recreated topic is another topic, and the old one's owners have no
    further events."""
    writer.tell(1, gets("a", 0))
    writer.beside(2, TopicsGone(topics=("t",)))
    writer.tell(3, gets("b", 0))


def a_recreated_topic_of_a_classic_member(writer: EventWriter) -> None:
    """Its assignment names topics, so it gets the new one's partitions without an event."""
    writer.tell(1, gets("a", 0))
    writer.beside(2, TopicsGone(topics=("t",)))
    writer.beside(4, gives("b", 0))


def said_and_left_out(writer: EventWriter) -> None:
    """The claim lasts from the first statement to the last. A statement without the partition ends
    it."""
    writer.beside(1, says("a", 0, 1))
    writer.beside(6, commits("a", 2, 5, 0))
    writer.beside(7, says("a", 1))
    writer.beside(9, says("a", 0, 1), says("b", 0))


def said_by_two(writer: EventWriter) -> None:
    """A commit in between is a statement as well, but not one without a member."""
    writer.beside(1, says("a", 0))
    writer.beside(3, says("b", 0))
    writer.beside(6, commits("a", 5, 6, 0), commits("", 5, 6, 0))


def back_and_forth_without_a_statement(writer: EventWriter) -> None:
    """Old clients state nothing. Each rebalance may remove the partitions that they commit."""
    writer.beside(1, commits("a", 1, 2, 0))
    writer.beside(3, rejoins())
    writer.beside(5, commits("b", 4, 5, 0))
    writer.beside(6, rejoins())
    writer.beside(8, commits("a", 7, 8, 0))


def a_clock_that_is_behind(writer: EventWriter) -> None:
    """By the clock of the gateway that took over, nothing was stored before it had the group."""
    writer.tell(1, gets("a", 0))
    writer.beside(102, commits("a", 98, 101, 0))
    writer.tell(103, gives("a", 0))
    writer.process_id = "another"
    writer.tell(43, gets("b", 0))
    writer.beside(50, commits("b", 45, 49, 0))
    writer.beside(104, commits("b", 99, 104, 0))


CASES: Mapping[WriteHistory, Sequence[Interval]] = {
    a_partition_moves: [
        (0, "granted", "owner", "a", None, 1, 3),
        (0, "granted", "gap", None, None, 3, 4.5),
        (0, "granted", "owner", "b", None, 4.5, None),
    ],
    two_owners_for_an_instant: [
        (0, "granted", "owner", "a", None, 1, 2),
        (0, "granted", "overlap", "b", "a", 2, 2),
        (0, "granted", "owner", "b", None, 2, None),
        (1, "granted", "owner", "a", None, 1, 2),
        (1, "granted", "owner", "b", None, 2, None),
    ],
    two_owners_until_one_ends: [
        (0, "granted", "owner", "a", None, 1, None),
        (0, "granted", "overlap", "b", "a", 2, 3),
        (0, "granted", "owner", "b", None, 2, 3),
        (0, "granted", "overlap", "c", "a", 4, None),
        (0, "granted", "owner", "c", None, 4, None),
    ],
    given_again: [(0, "granted", "owner", "a", None, 1, None)],
    a_replacement_that_a_restart_may_have_forgotten: [
        (0, "granted", "owner", "a", None, 1, 3),
        (0, "granted", "owner", "b", None, 3, None),
        (0, "granted", "unsure", "e", "b", 6, 6),
        (0, "granted", "owner", "e", None, 6, 9),
        (0, "granted", "owner", "f", None, 9, None),
        (1, "granted", "owner", "a", None, 1, 3),
        (1, "granted", "owner", "b", None, 3, 8),
        (1, "granted", "owner", "e", None, 8, None),
    ],
    a_late_start: [
        (0, "granted", "owner", "a", None, None, 2),
        (0, "granted", "gap", None, None, 2, None),
        (1, "granted", "owner", "a", None, None, 2),
        (1, "granted", "overlap", "b", "a", 1, 2),
        (1, "granted", "owner", "b", None, 1, None),
    ],
    a_grant_is_missing: [
        (0, "granted", "owner", "a", None, 1, 2),
        (0, "granted", "gap", None, None, 2, 3),
        (0, "granted", "owner", "b", None, 3, 5),
        (0, "granted", "gap", None, None, 5, None),
    ],
    a_release_is_missing: [
        (0, "granted", "owner", "a", None, 1, 2),
        (0, "granted", "owner", "b", None, 4, 5),
        (0, "granted", "gap", None, None, 5, None),
        (0, "stated", "owner", "a", None, 2, 2),
        (1, "granted", "owner", "a", None, 1, None),
        (1, "stated", "owner", "a", None, 2, 2),
    ],
    a_release_and_a_grant_are_missing: [
        (0, "granted", "owner", "a", None, 1, 1),
        (0, "granted", "owner", "b", None, 1, 4),
        (0, "granted", "owner", "a", None, 4, 6),
        (0, "granted", "owner", "a", None, 6, 8),
        (0, "granted", "gap", None, None, 8, None),
    ],
    a_release_beside_the_sequence_is_missing: [
        (0, "granted", "owner", "a", None, 1, 2),
        (0, "granted", "gap", None, None, 2, 4),
        (0, "granted", "owner", "b", None, 4, None),
        (1, "granted", "owner", "c", None, 1, 5),
        (1, "granted", "gap", None, None, 5, 6),
        (1, "granted", "owner", "d", None, 6, None),
    ],
    given_again_after_a_hole: [
        (0, "granted", "owner", "a", None, 1, 2),
        (0, "granted", "owner", "b", None, 4, 5),
        (0, "granted", "gap", None, None, 5, 6),
        (0, "granted", "owner", "a", None, 6, 8),
        (0, "granted", "gap", None, None, 8, None),
    ],
    two_owners_beside_a_hole: [
        (0, "granted", "owner", "a", None, 1, 5),
        (0, "granted", "overlap", "b", "a", 4, 5),
        (0, "granted", "owner", "b", None, 4, 8),
        (0, "granted", "gap", None, None, 8, None),
    ],
    the_beginning_of_another_gateway_is_missing: [
        (0, "granted", "owner", "a", None, 1, 2),
        (0, "granted", "owner", "b", None, 2, 5),
        (0, "granted", "gap", None, None, 5, None),
    ],
    a_replacement_that_a_restart_forgot: [
        (0, "granted", "owner", "a", None, 1, 3),
        (0, "granted", "owner", "b", None, 3, 4),
        (0, "granted", "gap", None, None, 4, 6),
        (0, "granted", "owner", "e", None, 6, None),
    ],
    a_replacement_that_begins_a_rebalance_before_a_restart: [
        (0, "granted", "owner", "a", None, 1, 3),
        (0, "granted", "owner", "b", None, 3, 4),
        (0, "granted", "gap", None, None, 4, 6),
        (0, "granted", "owner", "e", None, 6, None),
    ],
    perhaps_forgotten_until_the_group_is_empty: [
        (0, "granted", "owner", "a", None, 1, 3),
        (0, "granted", "owner", "b", None, 3, 7),
        (0, "granted", "unsure", "e", "b", 6, 7),
        (0, "granted", "owner", "e", None, 6, 7),
        (0, "granted", "gap", None, None, 7, 9),
        (0, "granted", "owner", "f", None, 9, None),
    ],
    perhaps_forgotten_before_a_replacement_began_a_generation: [
        (0, "granted", "owner", "a", None, 0, 2),
        (0, "granted", "owner", "b", None, 2, None),
        (0, "granted", "unsure", "d", "b", 5, 5),
        (0, "granted", "owner", "d", None, 5, None),
    ],
    perhaps_forgotten_by_a_process_without_a_line: [
        (0, "granted", "owner", "a", None, 0, 2),
        (0, "granted", "owner", "b", None, 2, None),
        (0, "granted", "unsure", "d", "b", 5, 5),
        (0, "granted", "owner", "d", None, 5, None),
    ],
    an_overlap_without_any_process: [
        (0, "granted", "owner", "a", None, 0, None),
        (0, "granted", "owner", "b", None, 1, None),
        (0, "granted", "overlap", "b", "a", 1, None),
    ],
    an_instance_with_another_member: [
        (0, "granted", "owner", "a", None, 1, 2),
        (0, "granted", "gap", None, None, 2, 3),
        (0, "granted", "owner", "b", None, 3, None),
    ],
    a_forgotten_instance_that_comes_with_a_conversion: [
        (0, "granted", "owner", "a", None, 1, 2),
        (0, "granted", "owner", "b", None, 2, None),
    ],
    perhaps_forgotten_before_a_conversion: [
        (0, "granted", "owner", "a", None, 1, None),
        (0, "granted", "unsure", "b", "a", 2, 2),
        (0, "granted", "owner", "b", None, 2, None),
    ],
    perhaps_forgotten_although_its_process_went_on: [
        (0, "granted", "owner", "a", None, 1, None),
        (0, "granted", "unsure", "b", "a", 2, 2),
        (0, "granted", "owner", "b", None, 2, None),
    ],
    perhaps_forgotten_after_it_joined_the_old_process: [
        (0, "granted", "owner", "a", None, 1, None),
        (0, "granted", "unsure", "b", "a", 2, 2),
        (0, "granted", "owner", "b", None, 2, None),
    ],
    a_forgotten_instance_that_joins_after_a_generation: [
        (0, "granted", "owner", "a", None, 1, 2),
        (0, "granted", "gap", None, None, 2, 5),
        (0, "granted", "owner", "c", None, 5, None),
    ],
    an_instance_in_a_rebalance_that_began_with_the_process: [
        (0, "granted", "owner", "a", None, 2, 4),
        (0, "granted", "gap", None, None, 4, 5),
        (0, "granted", "owner", "b", None, 5, None),
        (1, "granted", "owner", "c", None, 0, 1),
        (1, "granted", "gap", None, None, 1, None),
    ],
    perhaps_forgotten_in_a_rebalance_that_began_with_the_process: [
        (0, "granted", "owner", "x", None, 0, 2),
        (0, "granted", "owner", "a", None, 2, None),
        (0, "granted", "unsure", "b", "a", 5, 5),
        (0, "granted", "owner", "b", None, 5, None),
        (1, "granted", "owner", "c", None, 0, 1),
        (1, "granted", "gap", None, None, 1, None),
    ],
    perhaps_forgotten_before_a_conversion_of_a_group_at_rest: [
        (0, "granted", "owner", "x", None, 0, 2),
        (0, "granted", "owner", "a", None, 2, None),
        (0, "granted", "unsure", "b", "a", 4, 4),
        (0, "granted", "owner", "b", None, 4, None),
    ],
    perhaps_forgotten_after_a_downgrade_at_rest: [
        (0, "granted", "owner", "x", None, 0, 2),
        (0, "granted", "owner", "a", None, 2, None),
        (0, "granted", "unsure", "b", "a", 5, 5),
        (0, "granted", "owner", "b", None, 5, None),
    ],
    an_overlap_in_a_conversion_by_the_same_process: [
        (0, "granted", "owner", "x", None, 0, 2),
        (0, "granted", "owner", "a", None, 2, None),
        (0, "granted", "overlap", "b", "a", 4, None),
        (0, "granted", "owner", "b", None, 4, None),
    ],
    an_overlap_in_a_conversion_during_a_told_rebalance: [
        (0, "granted", "owner", "x", None, 0, 2),
        (0, "granted", "owner", "a", None, 2, None),
        (0, "granted", "overlap", "b", "a", 4, None),
        (0, "granted", "owner", "b", None, 4, None),
    ],
    an_overlap_in_a_conversion_after_an_adoption: [
        (0, "granted", "owner", "a", None, 1, None),
        (0, "granted", "overlap", "b", "a", 4, None),
        (0, "granted", "owner", "b", None, 4, None),
    ],
    an_overlap_soon_after_an_adoption: [
        (0, "granted", "owner", "a", None, 1, None),
        (0, "granted", "overlap", "b", "a", 4, None),
        (0, "granted", "owner", "b", None, 4, None),
    ],
    an_overlap_in_a_rebalance_of_the_same_process: [
        (0, "granted", "owner", "a", None, 2, None),
        (0, "granted", "overlap", "b", "a", 5, None),
        (0, "granted", "owner", "b", None, 5, None),
    ],
    an_emptied_group: [
        (0, "granted", "owner", "a", None, 1, 2),
        (0, "granted", "gap", None, None, 2, 3),
        (0, "granted", "owner", "b", None, 3, None),
    ],
    adopted_twice: [
        (0, "granted", "owner", "a", None, None, 1),
        (0, "granted", "gap", None, None, 1, 2),
        (0, "granted", "owner", "b", None, 2, 4),
        (0, "granted", "gap", None, None, 4, None),
    ],
    a_recreated_topic_of_a_classic_member: [
        (0, "granted", "owner", "a", None, 1, 2),
        (0, "granted", "owner", "b", None, 2, 4),
        (0, "granted", "gap", None, None, 4, None),
    ],
    a_deleted_topic: [
        (0, "granted", "owner", "a", None, 1, 2),
        (0, "granted", "owner", "b", None, 3, None),
    ],
    a_clock_that_is_behind: [
        (0, "granted", "owner", "a", None, 1, 103),
        (0, "granted", "owner", "b", None, 103, None),
        (0, "stated", "owner", "a", None, 98, 101),
        (0, "stated", "owner", "b", None, 103, 104),
    ],
    said_and_left_out: [
        (0, "stated", "owner", "a", None, 1, 5),
        (0, "stated", "owner", "a", None, 9, 9),
        (0, "stated", "owner", "b", None, 9, 9),
        (1, "stated", "owner", "a", None, 1, 9),
    ],
    back_and_forth_without_a_statement: [
        (0, "stated", "owner", "a", None, 1, 2),
        (0, "stated", "owner", "b", None, 4, 5),
        (0, "stated", "owner", "a", None, 7, 8),
    ],
    said_by_two: [
        (0, "stated", "owner", "a", None, 1, 6),
        (0, "stated", "overlap", "b", "a", 3, 3),
        (0, "stated", "owner", "b", None, 3, 3),
    ],
}


def an_empty_group(writer: EventWriter) -> None:
    """No member needs its partitions, so five seconds of the gap count separately."""
    writer.tell(0, joins("a"), joins("b"))
    writer.tell(1, gets("a", 0))
    writer.tell(2, gives("a", 0), leaves("a"))
    writer.tell(4, leaves("b"))
    writer.tell(9, joins("c"))
    writer.tell(10, gets("c", 0))


def one_who_was_there_before(writer: EventWriter) -> None:
    """It neither joins nor leaves, so the group is empty when all others have left."""
    writer.lose(3)
    writer.beside(0, says("old", 1))
    writer.tell(1, joins("a"), gets("a", 0))
    writer.tell(2, gives("a", 0), leaves("a"))
    writer.tell(9, joins("c"))
    writer.tell(10, gets("c", 0))


def one_whom_a_restart_forgot(writer: EventWriter) -> None:
    """A member that joined a classic group, which was not complete when its gateway ended, is no
    longer in it. When all others have left, the group is empty."""
    writer.tell(0, GroupCreated(kind="classic"))
    writer.beside(0, joins("a"))
    writer.beside(1, goes(EMPTY, PREPARING), goes(PREPARING, COMPLETING))
    writer.tell(1, goes(COMPLETING, STABLE), gets("a", 0))
    writer.beside(2, joins("lost"), goes(STABLE, PREPARING))
    writer.process_id = "another"
    writer.beside(3, leaves("a"), goes(STABLE, PREPARING))
    writer.tell(4, goes(PREPARING, EMPTY), gives("a", 0))
    writer.beside(9, joins("b"), goes(EMPTY, PREPARING), goes(PREPARING, COMPLETING))
    writer.tell(10, goes(COMPLETING, STABLE), gets("b", 0))


EMPTY_MS: Mapping[WriteHistory, tuple[float, float, int]] = {
    an_empty_group: (2, 10, 5000),
    one_who_was_there_before: (2, 10, 0),
    one_whom_a_restart_forgot: (4, 10, 5000),
}
"""The start, the end and the empty time of the only gap."""


def written(steps: Sequence[SimulatedStep], writer: EventWriter) -> None:
    """A simulated run up to the first reload of its group."""
    for step in steps:
        if step.loaded is not None:
            return
        at_s = (step.at_ms - steps[0].at_ms) / 1000
        (writer.tell if step.is_durable else writer.beside)(at_s, *step.events)


def with_holes(dice: random.Random, steps: Sequence[SimulatedStep], writer: EventWriter) -> None:
    """The run without some lines of the group's sequence."""
    written(steps, writer)
    durable = [line for line in writer.lines if '"process_id":null' in line]
    count = dice.choice((1, 2, len(durable) // 9, len(durable) // 3))
    lost = dice.sample(durable, min(count, len(durable)))  # some runs end early
    writer.lines = [line for line in writer.lines if line not in lost]


@pytest.fixture(scope="module")
def rows() -> Mapping[str, Sequence[OwnershipRow]]:
    """The intervals of all histories by group."""
    told: dict[str, WriteHistory] = {case.__name__: case for case in (*CASES, *EMPTY_MS)}
    told |= {
        f"{seed} {n} with holes": partial(with_holes, random.Random(f"{seed} {n}"), simulated(seed))
        for seed in SEEDS
        for n in range(HOLES)
    }
    found: dict[str, list[OwnershipRow]] = {group_id: [] for group_id in told}
    for row in folded(*lines_of(told)).ownership:
        found[row.group_id].append(row)
    return found


def interval(row: OwnershipRow) -> Interval:
    return (
        row.partition,
        row.basis,
        row.kind,
        row.member_id,
        row.other_member_id,
        seconds(row.from_ms),
        seconds(row.to_ms),
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_hand_written_histories_have_the_expected_intervals(
    case: WriteHistory, rows: Mapping[str, Sequence[OwnershipRow]]
) -> None:
    """Each history is explained where it is defined."""
    found = [interval(row) for row in rows[case.__name__]]
    assert sorted(found, key=str) == sorted(CASES[case], key=str)


@pytest.mark.parametrize("case", EMPTY_MS, ids=lambda case: case.__name__)
def test_the_time_without_members_is_counted_separately(
    case: WriteHistory, rows: Mapping[str, Sequence[OwnershipRow]]
) -> None:
    """Each history is explained where it is defined."""
    gaps = [row for row in rows[case.__name__] if row.kind == "gap"]
    assert [(seconds(row.from_ms), seconds(row.to_ms), row.empty_ms) for row in gaps] == [
        EMPTY_MS[case]
    ]


def test_missing_lines_never_cause_two_owners(rows: Mapping[str, Sequence[OwnershipRow]]) -> None:
    """This holds for any missing lines of a history without two owners."""
    found = [row for name in rows for row in rows[name] if name.endswith("with holes")]
    granted = [row for row in found if row.basis == "granted"]
    assert [row for row in granted if row.kind == "owner"]
    assert [row for row in granted if row.kind == "overlap"] == []
