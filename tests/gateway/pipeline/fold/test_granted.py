"""From the assignment of a partition to its release, with and without missing lines."""

import random
from collections.abc import Sequence
from functools import partial

import pytest

from gateway.events.group_events import GroupCreated, GroupDeleted, TopicsDeleted
from tests.support.event_writer import EventWriter, WriteHistory, lines_of
from tests.support.folded_lines import folded
from tests.support.group_events import (
    EMPTY,
    PREPARING,
    becomes,
    gets,
    gives,
    group_goes,
    joins,
    leaves,
    says,
)
from tests.support.ownership import Histories, claim, gap, overlap, owner
from tests.support.simulated_events import SimulatedStep, simulated

HISTORIES = Histories()
expects = HISTORIES.expects


SEEDS = range(6)
HOLES = 8
"""The number of runs per seed with missing lines."""


@expects(owner(0, "a", 1))
def given_again(writer: EventWriter) -> None:
    """A revocation was withdrawn."""
    writer.tell(1, gets("a", 0))
    writer.tell(2, gets("a", 0))


@expects(owner(0, "a", 1, 2), gap(0, 2, 3), owner(0, "b", 3))
def an_emptied_group(writer: EventWriter) -> None:
    """Its members own nothing, even if no event says how they left."""
    writer.tell(1, gets("a", 0))
    writer.tell(2, group_goes(PREPARING, EMPTY))
    writer.tell(3, gets("b", 0))


@expects(owner(0, "a", None, 1), gap(0, 1, 2), owner(0, "b", 2, 4), gap(0, 4))
def adopted_twice(writer: EventWriter) -> None:
    """No event grants an adopted member what it has. It had nothing here while the group was with
    the cluster again."""
    writer.tell(0, GroupCreated(kind="classic"))
    writer.tell(1, gives("a", 0))
    writer.tell(2, GroupDeleted())
    writer.tell(4, gives("b", 0))


@expects(
    owner(0, "a", None, 2),
    gap(0, 2),
    owner(1, "a", None, 2),
    overlap(1, "b", "a", 1, 2),
    owner(1, "b", 1),
)
def a_late_start(writer: EventWriter) -> None:
    """A member that releases a partition owned it. A member that got it before that is a second
    owner."""
    writer.lose(5)
    writer.tell(1, gets("b", 1))
    writer.tell(2, gives("a", 0, 1))


@expects(owner(0, "a", 1, 2), gap(0, 2, 3), owner(0, "b", 3, 5), gap(0, 5))
def a_grant_is_missing(writer: EventWriter) -> None:
    """A member that releases a partition got it within the missing lines, and not before the first
    event."""
    writer.tell(0, GroupCreated(kind="consumer"))
    writer.tell(1, gets("a", 0))
    writer.tell(2, gives("a", 0))
    writer.tell(3, joins("b"))
    writer.lose()
    writer.tell(5, gives("b", 0))


@expects(
    owner(0, "a", 1, 2),
    owner(0, "b", 4, 5),
    gap(0, 5),
    claim(0, "a", 2, 2),
    owner(1, "a", 1),
    claim(1, "a", 2, 2),
)
def a_release_is_missing(writer: EventWriter) -> None:
    """Another member got it after that, so the time of the change is unknown, and so is whether
    there was a gap."""
    writer.tell(1, gets("a", 0, 1))
    writer.beside(2, says("a", 0, 1))
    writer.lose()
    writer.tell(4, gets("b", 0))
    writer.tell(5, gives("b", 0))


@expects(
    owner(0, "a", 1, 1), owner(0, "b", 1, 4), owner(0, "a", 4, 6), owner(0, "a", 6, 8), gap(0, 8)
)
def a_release_and_a_grant_are_missing(writer: EventWriter) -> None:
    """Missing lines are in one place or in several. Each member's own events count."""
    writer.tell(1, gets("a", 0))
    writer.lose(2)
    writer.tell(4, gives("b", 0))
    writer.lose(2)
    writer.tell(6, gives("a", 0))
    writer.lose(4)
    writer.tell(8, gives("a", 0))


@expects(
    owner(0, "a", 1, 2),
    gap(0, 2, 4),
    owner(0, "b", 4),
    owner(1, "c", 1, 5),
    gap(1, 5, 6),
    owner(1, "d", 6),
)
def a_release_beside_the_sequence_is_missing(writer: EventWriter) -> None:
    """A classic member left. Its group's sequence is complete."""
    writer.tell(1, gets("a", 0), gets("c", 1))
    writer.lose_beside()
    writer.beside(2, leaves("a"))
    writer.tell(4, gets("b", 0))
    writer.beside(5, becomes("c", "d"))
    writer.tell(6, gets("d", 1))


@expects(owner(0, "a", 1, 2), owner(0, "b", 4, 5), gap(0, 5, 6), owner(0, "a", 6, 8), gap(0, 8))
def given_again_after_a_hole(writer: EventWriter) -> None:
    """It returned to its first owner."""
    writer.tell(1, gets("a", 0))
    writer.tell(2, joins("b"))
    writer.lose()
    writer.tell(4, gets("b", 0))
    writer.tell(5, gives("b", 0))
    writer.tell(6, gets("a", 0))
    writer.tell(8, gives("a", 0))


@expects(owner(0, "a", 1, 5), overlap(0, "b", "a", 4, 5), owner(0, "b", 4, 8), gap(0, 8))
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


@expects(owner(0, "a", 1, 2), owner(0, "b", 2, 5), gap(0, 5))
def the_beginning_of_another_gateway_is_missing(writer: EventWriter) -> None:
    """The group moved to another gateway, which counts as missing lines."""
    writer.tell(1, gets("a", 0))
    writer.tell(2, gives("a", 0))
    writer.gateway_id = "another"
    writer.lose()
    writer.tell(5, gives("b", 0))


@expects(owner(0, "a", 1, 2), owner(0, "b", 3))
def a_deleted_topic(writer: EventWriter) -> None:
    """Nothing is missing then. A recreated topic is another topic, and the old one's owners have no
    further events."""
    writer.tell(1, gets("a", 0))
    writer.beside(2, TopicsDeleted(topics=("t",)))
    writer.tell(3, gets("b", 0))


@expects(owner(0, "a", 1, 2), owner(0, "b", 2, 4), gap(0, 4))
def a_recreated_topic_of_a_classic_member(writer: EventWriter) -> None:
    """Its assignment names topics, so it gets the new one's partitions without an event."""
    writer.tell(1, gets("a", 0))
    writer.beside(2, TopicsDeleted(topics=("t",)))
    writer.beside(4, gives("b", 0))


@pytest.mark.parametrize("name", HISTORIES.expected)
def test_a_grant_lasts_until_its_release(name: str) -> None:
    """Each history states its own intervals."""
    assert HISTORIES.found(name) == HISTORIES.expected[name]


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


def test_missing_lines_never_cause_two_owners() -> None:
    """This holds for any missing lines of a history without two owners."""
    told: dict[str, WriteHistory] = {
        f"{seed} {n}": partial(with_holes, random.Random(f"{seed} {n}"), simulated(seed))
        for seed in SEEDS
        for n in range(HOLES)
    }
    found = [row for row in folded(*lines_of(told)).ownership if row.basis == "granted"]
    assert [row for row in found if row.kind == "owner"]
    assert [row for row in found if row.kind == "overlap"] == []
