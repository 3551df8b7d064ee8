"""A JSON line is parsed into its event, or refused with a reason."""

import json
from typing import Any

import pytest

from coordinator.interface.records import RemovalCause
from gateway.events.catalog import EVENTS, BadLine, read_line
from gateway.events.gateway_events import UpstreamLost
from gateway.events.member_events import MemberLeft, PartitionsAssigned
from tests.support.event_lines import envelope_of

LEFT = MemberLeft(member_id="m", cause=RemovalCause.LEFT)


def test_every_event_has_its_past_tense_name_in_the_catalog() -> None:
    """The name is that of its class. Base classes are not in the catalog."""
    assert EVENTS["member_left"] is MemberLeft
    assert EVENTS["upstream_lost"] is UpstreamLost
    assert not [name for name in EVENTS if name.startswith("_")]
    assert len(EVENTS) == len(set(EVENTS.values()))


def test_an_event_survives_its_line() -> None:
    """All fields are preserved, including tuples and causes."""
    partitions = PartitionsAssigned(member_id="ü", member_epoch=3, partitions={"foo": (0, 2)})
    for event in (
        envelope_of(LEFT),
        envelope_of(partitions, group_id='"\n'),
    ):
        assert read_line(event.line) == event
        assert "\n" not in event.line


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "Expecting value"),
        (b"[]", "it is not an event"),
        (b"{}", "it is not an event"),
        (b'{"event": "\xff"}', "codec can't decode"),
        (b"[" * 100_000, "recursion"),
        ({"event": "member_vanished"}, "does not know 'member_vanished'"),
        ({"schema_version": 2}, "of schema version 2"),
        ({"event": ["member_left"]}, "does not know"),
        ({"sequence": 0}, "sequence: "),
        ({"sequence": "many"}, "sequence: "),
        ({"surplus": 1}, "surplus: "),
        ({"fields": {"member_id": "m"}}, "cause: Field required"),
        ({"fields": {"member_id": "m", "cause": "left", "surplus": 1}}, "surplus: "),
        ({"fields": {"member_id": "m", "cause": "boredom"}}, "cause: "),
    ],
    ids=str,
)
def test_an_invalid_line_is_refused_with_a_reason(
    line: bytes | dict[str, Any], reason: str
) -> None:
    """An invalid line is damaged, of a later groupferry, or foreign. There is no traceback."""
    if isinstance(line, dict):
        line = json.dumps({**json.loads(envelope_of(LEFT).line), **line}).encode()
    with pytest.raises(BadLine, match=reason):
        read_line(line)


def test_an_envelope_has_the_name_of_its_event() -> None:
    """With another name, a reader would take its fields for those of another event."""
    with pytest.raises(ValueError, match="member_left"):
        envelope_of(LEFT, event="member_fenced")
