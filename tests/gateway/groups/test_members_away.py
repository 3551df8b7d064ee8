"""Native members that are away for a moment have their place in a hold."""

from typing import Any

import pytest

from coordinator.interface.records import RemovalCause
from coordinator.interface.roll_policy import RollMode
from gateway.events.event import GatewayEvent
from gateway.events.member_events import MemberFenced, MemberLeft
from gateway.groups import members_away
from gateway.groups.members_away import AWAY_MAX_MS, MembersAway
from kafka_codecs.error_codes import ErrorCode
from tests.support.event_lines import envelope_of
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript

GONE_MS = 1_000


def member_fenced(member_id: str) -> MemberFenced:
    """A member was silent for too long."""
    return MemberFenced(member_id=member_id, cause=RemovalCause.SESSION_EXPIRED)


class Watched:
    """A group whose members leave after the event that reports it."""

    def __init__(self) -> None:
        self.group = GroupScript()
        self.group.given_consumer_group(given_native("n1"), given_native("n2"), given_classic("c1"))
        self.away = MembersAway(lambda _group_id: self.group.engine.state)

    def emit(self, event: GatewayEvent) -> None:
        """Let an event happen."""
        self.away.observe(envelope_of(event, group_id="g", at_ms=GONE_MS))

    def count(self, after_ms: int = 0) -> int:
        """The members that are away so much later."""
        return self.away.count("g", GONE_MS + after_ms)


def test_a_native_member_that_was_removed_recently_counts() -> None:
    """The member counts for some minutes. Others of the same client show that it is back."""
    watched = Watched()
    watched.emit(member_fenced("n1"))
    assert watched.count() == 0  # n2 has its client id and host
    watched.group = GroupScript()
    assert watched.count(AWAY_MAX_MS) == 1
    assert watched.away.count("another", GONE_MS) == 0
    assert watched.count(AWAY_MAX_MS + 1) == 0


def test_another_process_continues_with_those_that_are_away() -> None:
    """The other process waits for as long as this one would have, and then forgets them."""
    watched, next_one = Watched(), Watched()
    watched.emit(member_fenced("n1"))
    next_one.group = watched.group = GroupScript()
    assert watched.away.hand_over(lambda group_id: group_id == "another") is None
    handed_over = watched.away.hand_over(lambda group_id: group_id == "g")
    assert handed_over is not None
    next_one.away.take_over(handed_over)
    assert (watched.count(), next_one.count(AWAY_MAX_MS)) == (0, 1)
    assert next_one.count(AWAY_MAX_MS + 1) == 0
    with pytest.raises(ValueError, match="JSON"):
        next_one.away.take_over(b"{")


def test_one_that_left_counts_too_and_a_classic_one_does_not() -> None:
    """A restart is under way, perhaps."""
    watched = Watched()
    watched.emit(MemberLeft(member_id="n2", cause=RemovalCause.LEFT))
    watched.emit(member_fenced("c1"))
    watched.emit(member_fenced("unknown"))
    watched.group = GroupScript()
    assert watched.count() == 1


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members_away, "DEPARTURES_MAX", 1)
    watched = Watched()
    watched.emit(member_fenced("n1"))
    watched.emit(member_fenced("n2"))
    watched.group = GroupScript()
    assert watched.count() == 1


class CountingLookups(dict[str, Any]):
    """Counts how often a group is looked up."""

    lookups = 0

    def __getitem__(self, group_id: str) -> Any:
        """The departures of a group."""
        self.lookups += 1
        return super().__getitem__(group_id)


def test_a_departure_costs_the_same_however_many_groups_there_are() -> None:
    """Groups without a recent departure are forgotten; the one that changed last stays."""
    watched = Watched()
    departures = watched.away._departures = CountingLookups()

    def tell(group_id: str, member_id: str, at_ms: int) -> None:
        watched.away.observe(envelope_of(member_fenced(member_id), group_id=group_id, at_ms=at_ms))

    for number in range(100):
        tell(f"g{number}", "n1", number)
    departures.lookups = 0
    tell("g0", "n2", 100)
    assert departures.lookups == 1
    tell("g0", "n1", AWAY_MAX_MS + 99)
    assert list(departures) == ["g99", "g0"]


def test_a_hold_ends_nobody_who_was_merely_away() -> None:
    """The only native member was frozen when the operator held the group."""
    group = GroupScript()
    group.given_consumer_group(given_native("n1"), given_classic("c1"))
    group.native("n1", -1)
    group.set_policy(RollMode.HOLD, native_away=1)
    assert group.native("n1").error == ErrorCode.NONE
    assert group.native("n2").error == ErrorCode.GROUP_ID_NOT_FOUND
