"""What every event has in common."""

import pytest
from pydantic import ValidationError

from coordinator.records import RemovalCause
from gateway.events.event import GatewayEvent
from gateway.events.group_events import GroupConverted
from gateway.events.member_events import MemberLeft


def test_an_events_name_is_that_of_its_class() -> None:
    """So that nobody can look for the one and not find the other."""

    class MemberDidSomething(GatewayEvent):
        pass

    assert MemberDidSomething.name == "member_did_something"


def test_an_event_does_not_change_and_has_no_surprises() -> None:
    """Its readers rely on a fixed set of fields."""
    event = MemberLeft(member_id="m", cause=RemovalCause.LEFT)
    with pytest.raises(ValidationError, match="frozen"):
        event.member_id = "n"
    with pytest.raises(ValidationError, match="surplus"):
        MemberLeft(member_id="m", cause=RemovalCause.LEFT, surplus=1)  # type: ignore[call-arg]


def test_fields_that_were_not_given_are_not_shown() -> None:
    """A conversion has an epoch in one direction and a generation in the other; one that was given
    as none is shown as none."""
    event = GroupConverted(
        direction="classic->consumer", is_live=True, group_epoch=3, members=1, cause="n joined"
    )
    assert event.fields == {
        "direction": "classic->consumer",
        "is_live": True,
        "group_epoch": 3,
        "members": 1,
        "cause": "n joined",
    }
