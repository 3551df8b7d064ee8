"""The documentation matches the models."""

import inspect
import json

import pytest

from gateway.doc_pages import events
from gateway.events.catalog import EVENTS

REWRITE = "run: python -m gateway.doc_pages.events"


def test_the_documentation_matches_the_models() -> None:
    """A change of an event changes its documentation."""
    assert events.PAGE.read_text() == events.page(), REWRITE


def test_the_json_schema_matches_the_models() -> None:
    """A review sees the change, which may need a new schema version."""
    assert events.SCHEMA.read_text() == events.schema_text(), REWRITE


def test_the_json_schema_names_every_event() -> None:
    """The schema resolves each reference."""
    schema = json.loads(events.SCHEMA.read_text())
    assert schema["properties"]["event"]["enum"] == list(EVENTS)
    references = {part.split('"')[0] for part in events.SCHEMA.read_text().split('"#/$defs/')[1:]}
    assert references <= schema["$defs"].keys()
    assert set(EVENTS) <= references


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_every_event_has_its_own_docstring(event: type) -> None:
    """An event does not inherit the docstring of its base class."""
    assert event.__doc__
    assert inspect.getdoc(event) != inspect.getdoc(event.__bases__[0])


def test_every_field_has_a_meaning() -> None:
    """The fields are those of the envelope and of every event."""
    rows = [line for line in events.tables().splitlines() if line.startswith("| `")]
    assert rows
    assert [row for row in rows if row.endswith("|  |")] == []
