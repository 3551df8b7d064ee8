"""What members claim to own, by their statements and their commits."""

import pytest

from gateway.events.event import GatewayEvent
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted
from tests.support.event_writer import START_MS, EventWriter
from tests.support.group_events import PREPARING, STABLE, gets, gives, group_goes, says
from tests.support.ownership import Histories, claim, claims_overlap, owner

HISTORIES = Histories()
expects = HISTORIES.expects


def commits(member_id: str, from_s: float, to_s: float, *numbers: int) -> GatewayEvent:
    offsets = [CommittedOffsets(partition=n, commits=2, first=1, lowest=1, last=2) for n in numbers]
    return OffsetsCommitted(
        member_id=member_id,
        is_transactional=False,
        from_ms=START_MS + round(from_s * 1000),
        to_ms=START_MS + round(to_s * 1000),
        offsets={"t": tuple(offsets)},
    )


@expects(claim(0, "a", 1, 5), claim(0, "a", 9, 9), claim(0, "b", 9, 9), claim(1, "a", 1, 9))
def said_and_left_out(writer: EventWriter) -> None:
    """The claim lasts from the first statement to the last. A statement without the partition ends
    it."""
    writer.beside(1, says("a", 0, 1))
    writer.beside(6, commits("a", 2, 5, 0))
    writer.beside(7, says("a", 1))
    writer.beside(9, says("a", 0, 1), says("b", 0))


@expects(claim(0, "a", 1, 6), claims_overlap(0, "b", "a", 3, 3), claim(0, "b", 3, 3))
def said_by_two(writer: EventWriter) -> None:
    """A commit in between is a statement as well, but not one without a member."""
    writer.beside(1, says("a", 0))
    writer.beside(3, says("b", 0))
    writer.beside(6, commits("a", 5, 6, 0), commits("", 5, 6, 0))


@expects(claim(0, "a", 1, 2), claim(0, "b", 4, 5), claim(0, "a", 7, 8))
def back_and_forth_without_a_statement(writer: EventWriter) -> None:
    """Old clients state nothing. Each rebalance may remove the partitions that they commit."""
    writer.beside(1, commits("a", 1, 2, 0))
    writer.beside(3, group_goes(STABLE, PREPARING))
    writer.beside(5, commits("b", 4, 5, 0))
    writer.beside(6, group_goes(STABLE, PREPARING))
    writer.beside(8, commits("a", 7, 8, 0))


@expects(owner(0, "a", 1, 103), owner(0, "b", 103), claim(0, "a", 98, 101), claim(0, "b", 103, 104))
def a_clock_that_is_behind(writer: EventWriter) -> None:
    """By the clock of the gateway that took over, nothing was stored before it had the group."""
    writer.tell(1, gets("a", 0))
    writer.beside(102, commits("a", 98, 101, 0))
    writer.tell(103, gives("a", 0))
    writer.process_id = "another"
    writer.tell(43, gets("b", 0))
    writer.beside(50, commits("b", 45, 49, 0))
    writer.beside(104, commits("b", 99, 104, 0))


@pytest.mark.parametrize("name", HISTORIES.expected)
def test_a_claim_lasts_from_the_first_statement_to_the_last(name: str) -> None:
    """Each history states its own intervals."""
    assert HISTORIES.found(name) == HISTORIES.expected[name]
