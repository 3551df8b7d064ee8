"""The properties of all events."""

import pytest
from pydantic import ValidationError

from coordinator.interface.records import RemovalCause
from gateway.events.event import GatewayEvent
from gateway.events.group_events import GroupConverted
from gateway.events.member_events import MemberLeft


def test_an_event_has_the_name_of_its_class() -> None:
    """A search for either finds the other."""

    class MemberDidSomething(GatewayEvent):
        pass

    assert MemberDidSomething.name == "member_did_something"


def test_an_event_is_immutable_with_fixed_fields() -> None:
    """Readers rely on a fixed set of fields."""
    event = MemberLeft(member_id="m", cause=RemovalCause.LEFT)
    with pytest.raises(ValidationError, match="frozen"):
        event.member_id = "n"
    with pytest.raises(ValidationError, match="surplus"):
        MemberLeft(member_id="m", cause=RemovalCause.LEFT, surplus=1)  # type: ignore[call-arg]


def test_missing_fields_are_omitted() -> None:
    """A conversion has an epoch in one direction and a generation in the other. A field set to None
    is shown as null."""
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
