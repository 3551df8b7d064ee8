"""Lines of version 1 get the names of version 2, and nothing that they did not state."""

import json

import pytest

from gateway.events.catalog import EVENTS
from gateway.events.version_1 import RENAMED, upgrade
from gateway.pipeline.fold.lines import parse

LINE = {
    "event": "partitions_released",
    "schema_version": 1,
    "gateway_id": "g",
    "group_id": "orders",
    "process_id": None,
    "sequence": 3,
    "began_ms": 1,
    "after": None,
    "at_ms": 2,
    "fields": {"member_id": "a", "member_epoch": 4, "partitions": {"t": [0]}},
}


def test_a_line_keeps_its_version_and_its_place() -> None:
    """The cluster, the run and the hosting are not known."""
    line, problem = parse(json.dumps(LINE))
    assert problem is None
    assert line is not None
    assert (line.version, line.event, line.sequence) == (1, "grant_ended", 3)
    assert (line.cluster_id, line.run, line.hosting) == (None, None, None)


def test_every_renamed_event_is_known() -> None:
    """The lines of an unknown event could not be read."""
    assert set(RENAMED.values()) <= set(EVENTS)
    assert not set(RENAMED) & set(EVENTS)


@pytest.mark.parametrize("line", [None, [], 5, {}, {"event": 1}, {"event": "x", "fields": []}])
def test_what_is_no_line_stays_as_it_is(line: object) -> None:
    assert upgrade(line) == line
