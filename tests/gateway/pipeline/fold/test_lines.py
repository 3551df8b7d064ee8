"""A line is parsed into its event, or rejected with a reason."""

import json
import pickle
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec import to_builtins
from pydantic import TypeAdapter, ValidationError

from coordinator.interface.records import RemovalCause
from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.catalog import EVENTS
from gateway.events.event import GatewayEvent
from gateway.events.gateway_events import GatewayEnded
from gateway.events.group_events import (
    GroupConverted,
    GroupCreated,
    GroupStateChanged,
    TopicsDeleted,
)
from gateway.events.member_events import ClientSeen, MemberLeft, PartitionsAssigned
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted
from gateway.pipeline.fold import lines
from gateway.pipeline.fold.lines import Line, parse
from tests.support.event_writer import GROUP, START_MS, EventWriter, without


def test_an_event_is_parsed_with_its_fields() -> None:
    """Objects are included."""
    writer = EventWriter()
    writer.emit(1, GroupCreated(kind="classic"))
    assigned = PartitionsAssigned(member_id="m", member_epoch=3, partitions={"t": (0, 2)})
    writer.emit(2, assigned)
    writer.beside(3, COMMITTED)
    (created, _), (given, _), (commit, problem) = map(parse, writer.lines)
    assert created is not None
    assert given is not None
    assert commit is not None
    assert problem is None
    assert event_of(created) == GroupCreated(kind="classic")
    assert (given.group_id, given.sequence, given.process_id) == (GROUP, 2, None)
    assert event_of(given) == assigned
    assert given.at_ms == START_MS + 2000
    assert (commit.process_id, commit.sequence, commit.after) == ("p", 1, 2)
    assert event_of(commit) == COMMITTED


def event_of(line: Line) -> GatewayEvent | None:
    """The event with the fields of a line."""
    return None if line.fields is None else EVENTS[line.event](**to_builtins(line.fields))


def test_a_line_is_the_same_however_it_is_written() -> None:
    """A gateway's own lines are read in one step. Other JSON, as from a tool that passes lines on,
    is read part by part."""
    writer = EventWriter()
    writer.emit(1, PartitionsAssigned(member_id="m", member_epoch=3, partitions={"t": (0, 2)}))
    writer.beside(2, COMMITTED, SEEN, LEFT, CONVERTED, MOVED)
    for text in writer.lines:
        (line, problem), (other, _) = parse(text, 0), parse(json.dumps(json.loads(text)))
        assert line is not None
        assert other is not None
        other.content = 0
        assert problem is None
        assert line == other
        assert pickle.loads(pickle.dumps(line)) == line


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"version":2', '"version":3', "lines of version 3 are not known"),
        ("}}}", '}},"event":"version"}', "this groupferry does not know version"),
        ('"fields"', '"field"', "offsets_committed lacks a field"),
        ('"last":7', f'"last":{1 << 63}', "offsets_committed has an invalid value"),
        ('"orders","process_id":"p"', 'null,"process_id":null', "its envelope is incomplete"),
    ],
)
def test_what_is_odd_in_a_line_of_a_gateway_is_seen(old: str, new: str, problem: str) -> None:
    writer = EventWriter()
    writer.beside(1, COMMITTED)
    (text,) = writer.lines
    assert old in text
    assert parse(text.replace(old, new))[1] == problem


def assignment_line(**changes: Any) -> str:
    writer = EventWriter()
    writer.emit(1, PartitionsAssigned(member_id="m", member_epoch=3, partitions={"t": (0, 2)}))
    return json.dumps({**json.loads(writer.lines[0]), **changes})


def of(event: GatewayEvent, **changes: Any) -> str:
    """The event's line with other fields."""
    writer = EventWriter()
    writer.beside(1, event)
    line = json.loads(writer.lines[0])
    return json.dumps({**line, "fields": {**line["fields"], **changes}})


CONVERTED = GroupConverted(direction="classic->consumer", is_live=True, members=1, cause="")
MOVED = GroupStateChanged(
    from_state=ClassicPhase.EMPTY, to_state=ClassicPhase.PREPARING_REBALANCE, generation=1
)
COMMITTED = OffsetsCommitted(
    member_id="m",
    is_transactional=False,
    from_ms=1,
    to_ms=2,
    offsets={"t": (CommittedOffsets(partition=1, commits=2, first=5, lowest=4, last=7),)},
)

LEFT = MemberLeft(member_id="m", cause=RemovalCause.LEFT)
SEEN = ClientSeen(
    member_id="m",
    client_id="c",
    client_host="/h",
    instance_id=None,
    software_name=None,
    software_version="4.3.1",
    protocol="consumer",
    protocol_type="consumer",
    embedded_version=3,
    assignors=("range",),
)

BAD: Mapping[str, str] = {
    "": "it is not an event",
    "garbage": "it is not an event",
    "[]": "it is not an event",
    "5": "it is not an event",
    assignment_line()[:-20]: "it is not an event",
    assignment_line(at_ms="yesterday"): "its envelope is incomplete",
    assignment_line(
        fields={"member_id": "m", "member_epoch": 3, "partitions": [1]}
    ): "partitions_assigned has an invalid value",
    of(TopicsDeleted(topics=("t",)), topics=["x" * 40_000]): "topics_deleted has an invalid value",
    assignment_line(
        fields={"member_id": "m", "member_epoch": 1 << 63, "partitions": {}}
    ): "partitions_assigned has an invalid value",
    assignment_line(sequence=1 << 70): "its envelope is incomplete",
    assignment_line(schema_version=1 << 70): "its envelope is incomplete",
    assignment_line(gateway_id="x" * 40_000): "its envelope is incomplete",
    assignment_line(sequence=0): "its envelope is incomplete",
    without(assignment_line(), "gateway_id"): "its envelope is incomplete",
    without(assignment_line(), "group_id"): "its envelope is incomplete",
    assignment_line(
        event="partitions_vanished"
    ): "this groupferry does not know partitions_vanished",
    assignment_line(schema_version=9): "partitions_assigned of schema version 9 is not known",
    without(assignment_line(), "member_epoch"): "partitions_assigned lacks a field",
    assignment_line(at_ms=-1): "its envelope is incomplete",
    assignment_line(at_ms=(1 << 63) - 1): "its envelope is incomplete",
    assignment_line().replace("[0, 2]", "null"): "partitions_assigned has an invalid value",
    assignment_line().replace("[0, 2]", "[0, null]"): "partitions_assigned has an invalid value",
    of(TopicsDeleted(topics=("t",)), topics=[None]): "topics_deleted has an invalid value",
    of(CONVERTED, direction="sideways"): "group_converted has an invalid value",
    of(MOVED, to_state="Dreaming"): "group_state_changed has an invalid value",
    of(COMMITTED, offsets={"t": [None]}): "offsets_committed has an invalid value",
    of(COMMITTED, offsets={"t": [{"partition": 1}]}): "offsets_committed has an invalid value",
    of(COMMITTED, from_ms=1 << 60): "offsets_committed has an invalid value",
}


@pytest.mark.parametrize("line", BAD)
def test_an_invalid_line_has_a_reason(line: str) -> None:
    """The first one counts."""
    assert parse(line)[1] == BAD[line]


ODD: Sequence[Any] = (
    *(None, True, 0, -1, 1, 1.0, 1.5, "", "m", [], {}, [1], ["m"], {"t": 1}, {"t": [1]}),
    *(1 << 62, 253_402_300_800_000, "classic", "consumer", "left", "Stable"),
)


@pytest.mark.parametrize(
    "event", [COMMITTED, CONVERTED, MOVED, LEFT, SEEN], ids=lambda event: event.name
)
def test_pydantic_reads_the_same_fields_from_a_line(event: GatewayEvent) -> None:
    """Pydantic validates the events that the gateway writes, and msgspec decodes them here."""
    dice = random.Random(event.name)
    model = TypeAdapter(type(event))
    for _ in range(2_000):
        fields = json.loads(json.dumps(event.fields))
        place: Any = fields
        key = dice.choice(list(fields))
        while isinstance(place[key], dict | list) and place[key] and dice.random() < 0.7:
            place = place[key]
            key = dice.choice(list(place) if isinstance(place, dict) else range(len(place)))
        place[key] = dice.choice(ODD)
        if dice.random() < 0.2:
            del place[key]
        line, _problem = parse(
            assignment_line(event=event.name, schema_version=event.schema_version, fields=fields)
        )
        assert line is not None
        try:
            expected = model.validate_json(json.dumps(fields), strict=True, extra="ignore")
        except ValidationError:
            expected = None
        assert event_of(line) == expected, fields


def test_a_line_with_several_events_is_invalid() -> None:
    """Such a line may come from a file without a final line break, or from a crash of the machine.
    Reading only the first event would silently lose the second. White space around an event is
    allowed."""
    event, other = assignment_line(), assignment_line(sequence=2)
    lines = [
        event + other,
        f"{event} {other[:-20]}",
        event + other[20:],
        f"{event},{other}",
        f"{event} garbage",
        f"{event}\0",
        f'{event}, "after": 3',
        f"{event}]",
        f"{event}]}} {other}",
        f"{event}}} {other}",
        f"[{event}]",
        f'"{event}',
    ]
    assert [parse(line) for line in lines] == [(None, "it is not an event")] * len(lines)
    good, problem = parse(f" {event}\t\r")
    assert good is not None
    assert (problem, good.sequence) == (None, 1)


def test_a_line_that_spark_would_cut_is_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick verdict therefore agrees with a report about it."""
    writer = EventWriter()
    writer.emit(1, GroupCreated(kind="classic"))
    (text,) = writer.lines
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", len(text))
    assert parse(text)[1] is None
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", len(text) - 1)
    assert parse(text) == (None, lines.NOT_AN_EVENT)


def test_a_repeated_key_is_accepted() -> None:
    """JSON allows it, and the last value counts."""
    line, problem = parse(assignment_line().replace('"t": [0, 2]', '"t": [0, 2], "t": [1]'))
    assert problem is None
    assert line is not None
    assert line.fields is not None
    assert line.fields.partitions == {"t": (1,)}


def test_unknown_fields_are_ignored() -> None:
    """A later groupferry may write more fields."""
    line, problem = parse(of(GroupCreated(kind="classic"), more=[1]))
    assert problem is None
    assert line is not None
    assert event_of(line) == GroupCreated(kind="classic")


def test_a_line_with_an_unreadable_event_keeps_its_place() -> None:
    """Its number is not missing."""
    for text in (
        assignment_line(schema_version=9),
        assignment_line(event="partitions_vanished"),
        of(MOVED, to_state=5),
    ):
        line, problem = parse(text)
        assert problem is not None
        assert line is not None
        assert (line.sequence, line.fields) == (1, None)


def content(text: str) -> int:
    line, _problem = parse(text)
    assert line is not None
    return line.content


def test_lines_that_are_equal_have_the_same_content() -> None:
    """Others do not."""
    assert content(assignment_line()) == content(assignment_line())
    assert content(assignment_line()) != content(assignment_line(sequence=2))


def test_a_copy_with_other_line_ends_is_the_same_line() -> None:
    """A file may have been copied to another system."""
    writer = EventWriter()
    writer.gateway(0, GatewayEnded())
    (text,) = writer.lines
    line, copy = parse(text)[0], parse(f"{text}\r")[0]
    assert line == copy
