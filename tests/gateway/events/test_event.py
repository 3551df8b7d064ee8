"""The properties of all events, and of their envelope: one JSON line."""

import json
from dataclasses import FrozenInstanceError

import pytest
from pydantic import ValidationError

from coordinator.interface.records import RemovalCause
from gateway.events.event import Envelope, GatewayEvent
from gateway.events.gateway_events import GatewayEnded
from gateway.events.group_events import GroupConverted
from gateway.events.member_events import MemberLeft

LEFT = MemberLeft(member_id="m\n\u202e", cause=RemovalCause.LEFT)


def envelope(fields: GatewayEvent = LEFT, **changed: object) -> Envelope:
    """An envelope with a group's event."""
    given = {
        "event": fields.name,
        "schema_version": fields.schema_version,
        "gateway_id": "g",
        "group_id": "orders",
        "process_id": None,
        "sequence": 1,
        "after": None,
        "at_ms": 1_800_000_000_000,
        "fields": fields,
    }
    return Envelope.model_validate({**given, **changed})


def test_an_event_has_the_name_of_its_class() -> None:
    """A search for either finds the other."""

    class MemberDidSomething(GatewayEvent):
        pass

    assert MemberDidSomething.name == "member_did_something"


def test_an_event_is_immutable_with_fixed_fields() -> None:
    """Readers rely on a fixed set of fields."""
    event = MemberLeft(member_id="m", cause=RemovalCause.LEFT)
    with pytest.raises(FrozenInstanceError):
        event.member_id = "n"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="unexpected_keyword"):
        MemberLeft(member_id="m", cause=RemovalCause.LEFT, surplus=1)  # type: ignore[call-arg]


def test_missing_fields_are_omitted() -> None:
    """A conversion has an epoch in one direction and a generation in the other."""
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


def test_an_envelope_is_one_line() -> None:
    """Line breaks in fields are escaped, because readers split files at line ends."""
    line = envelope().line
    assert "\n" not in line
    assert json.loads(line) == {
        "version": 2,
        "event": "member_left",
        "schema_version": MemberLeft.schema_version,
        "gateway_id": "g",
        "cluster_id": None,
        "run": None,
        "hosting": None,
        "group_id": "orders",
        "process_id": None,
        "sequence": 1,
        "began_ms": None,
        "after": None,
        "at_ms": 1_800_000_000_000,
        "fields": LEFT.fields,
    }


def test_the_fields_match_the_name_of_the_event() -> None:
    """The fields also match the schema version. A reader finds the model by both."""
    with pytest.raises(ValidationError, match="the fields are those of gateway_ended"):
        envelope(GatewayEnded(), event="member_left")
    with pytest.raises(ValidationError, match="the fields are those of member_left"):
        envelope(schema_version=MemberLeft.schema_version + 1)


@pytest.mark.parametrize(
    "changed", [{"sequence": 0}, {"at_ms": -1}, {"at_ms": 253_402_300_800_000}, {"surplus": 1}]
)
def test_invalid_envelopes_are_never_written(changed: dict[str, object]) -> None:
    """Sequences begin with 1, years end with 9999, and there are no further fields."""
    with pytest.raises(ValidationError):
        envelope(LEFT, **changed)
