"""The envelope of an event: one JSON line."""

import json

import pytest
from pydantic import ValidationError

from coordinator.interface.records import RemovalCause
from gateway.events.envelope import Envelope
from gateway.events.event import GatewayEvent
from gateway.events.gateway_events import GatewayEnded
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


def test_an_envelope_is_one_line() -> None:
    """Line breaks in fields are escaped, because readers split files at line ends."""
    line = envelope().line
    assert "\n" not in line
    assert json.loads(line) == {
        "event": "member_left",
        "schema_version": MemberLeft.schema_version,
        "gateway_id": "g",
        "group_id": "orders",
        "process_id": None,
        "sequence": 1,
        "began_ms": None,
        "after": None,
        "at_ms": 1_800_000_000_000,
        "fields": json.loads(LEFT.model_dump_json()),
    }


def test_the_fields_match_the_name_of_the_event() -> None:
    """They also match the schema version. A reader finds the model by both."""
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
