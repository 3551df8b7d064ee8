"""A line is parsed into its event, or rejected with a reason."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    GroupConverted,
    GroupCreated,
    GroupStateMoved,
    TopicsGone,
)
from gateway.events.member_events import PartitionsAssigned
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted
from gateway.pipeline.parsing import ENVELOPE, FIELDS
from gateway.pipeline.tables.granted import granted
from tests.support.scribe import GROUP, START_MS, Scribe, histories, parsed, without


def test_every_field_of_every_event_is_a_column() -> None:
    """No name occurs twice or in the envelope."""
    assert {"member_id", "partitions", "offsets", "starts", "direction"} <= set(FIELDS.names)
    assert not set(FIELDS.names) & set(ENVELOPE.names)


def test_an_event_is_parsed_with_its_fields(spark: SparkSession) -> None:
    """Objects are included, and the fields of other events are null."""
    scribe = Scribe()
    scribe.tell(1, GroupCreated(kind="classic"))
    assigned = PartitionsAssigned(member_id="m", member_epoch=3, partitions={"t": (0, 2)})
    scribe.tell(2, assigned)
    scribe.beside(3, COMMITTED)
    created, given, commit = parsed(spark, *scribe.lines).collect()
    assert [row.problem for row in (created, given, commit)] == [None] * 3
    assert (created.event, created.kind, created.partitions) == ("group_created", "classic", None)
    assert (given.group_id, given.sequence, given.process_id) == (GROUP, 2, None)
    assert (given.member_id, given.member_epoch, given.partitions) == ("m", 3, {"t": [0, 2]})
    assert given.at_ms == START_MS + 2000
    assert given.line is None, "the text is kept where it is needed only"
    assert (commit.process_id, commit.sequence, commit.after) == ("p", 1, 2)
    assert commit.offsets["t"][0].asDict() == COMMITTED.offsets["t"][0].model_dump()


def told(**changes: Any) -> str:
    scribe = Scribe()
    scribe.tell(1, PartitionsAssigned(member_id="m", member_epoch=3, partitions={"t": (0, 2)}))
    return json.dumps({**json.loads(scribe.lines[0]), **changes})


def of(event: GatewayEvent, **changes: Any) -> str:
    """The event's line with other fields."""
    scribe = Scribe()
    scribe.beside(1, event)
    line = json.loads(scribe.lines[0])
    return json.dumps({**line, "fields": {**line["fields"], **changes}})


CONVERTED = GroupConverted(direction="classic->consumer", is_live=True, members=1, cause="")
MOVED = GroupStateMoved(
    from_state=ClassicPhase.EMPTY, to_state=ClassicPhase.PREPARING_REBALANCE, generation=1
)
COMMITTED = OffsetsCommitted(
    member_id="m",
    is_transactional=False,
    from_ms=1,
    to_ms=2,
    offsets={"t": (CommittedOffsets(partition=1, commits=2, first=5, lowest=4, last=7),)},
)

BAD: Mapping[str, str] = {
    "": "it is not an event",
    "garbage": "it is not an event",
    "[]": "it is not an event",
    "5": "it is not an event",
    told()[:-20]: "it is not an event",
    told(at_ms="yesterday"): "it is not an event",
    told(fields={"member_id": "m", "member_epoch": 3, "partitions": [1]}): "it is not an event",
    told(sequence=1 << 70): "it is not an event",
    told(sequence=0): "its envelope is incomplete",
    without(told(), "gateway_id"): "its envelope is incomplete",
    without(told(), "group_id"): "its envelope is incomplete",
    told(event="partitions_vanished"): "this groupferry does not know partitions_vanished",
    told(schema_version=9): "partitions_assigned of schema version 9 is not known",
    without(told(), "member_epoch"): "partitions_assigned lacks a field",
    told(at_ms=-1): "its envelope is incomplete",
    told(at_ms=(1 << 63) - 1): "its envelope is incomplete",
    told().replace("[0, 2]", "null"): "partitions_assigned has an invalid value",
    told().replace("[0, 2]", "[0, null]"): "partitions_assigned has an invalid value",
    of(TopicsGone(topics=("t",)), topics=[None]): "topics_gone has an invalid value",
    of(CONVERTED, direction="sideways"): "group_converted has an invalid value",
    of(MOVED, to_state="Dreaming"): "group_state_moved has an invalid value",
    of(COMMITTED, offsets={"t": [None]}): "offsets_committed has an invalid value",
    of(COMMITTED, offsets={"t": [{"partition": 1}]}): "offsets_committed has an invalid value",
    of(COMMITTED, from_ms=1 << 60): "offsets_committed has an invalid value",
}


@pytest.mark.parametrize("line", BAD)
def test_an_invalid_line_has_a_reason(spark: SparkSession, line: str) -> None:
    """The valid line after it is read."""
    bad, good = parsed(spark, line, told()).collect()
    assert bad.problem == BAD[line]
    assert bad.line == line
    assert good.problem is None


def test_a_line_with_several_events_is_invalid(spark: SparkSession) -> None:
    """It may come from a file without a final line break, or from a crash of the machine. Reading
    only the first event would silently lose the second. White space around an event is allowed."""
    event, other = told(), told(sequence=2)
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
    *bad, good = parsed(spark, *lines, f" {event}\t\r").collect()
    assert [(row.problem, row.line, row.is_numbered) for row in bad] == [
        ("it is not an event", line, False) for line in lines
    ]
    assert (good.problem, good.sequence) == (None, 1)


def test_a_repeated_key_is_accepted(spark: SparkSession) -> None:
    """JSON allows it, and one of the values counts."""
    line = told().replace('"t": [0, 2]', '"t": [0, 2], "t": [1]')
    owned = granted(histories(spark, line)).collect()
    assert sorted(row.partition for row in owned) == [0, 1, 2]
