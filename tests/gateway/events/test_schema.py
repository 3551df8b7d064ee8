"""What is documented is what is written."""

import inspect
import json

import pytest

from gateway.events import schema
from gateway.events.catalog import EVENTS
from gateway.events.envelope import Envelope

REWRITE = "run: python -m gateway.events.schema"


def test_the_documentation_is_that_of_the_models() -> None:
    """Whoever changes an event changes what its readers are told."""
    assert schema.PAGE.read_text() == schema.page(), REWRITE


def test_the_json_schema_is_that_of_the_models() -> None:
    """A change of it is seen in review, and asks for a schema version."""
    assert schema.SCHEMA.read_text() == schema.schema_text(), REWRITE


def test_the_json_schema_names_every_event() -> None:
    """And what each reference stands for."""
    found = json.loads(schema.SCHEMA.read_text())
    assert found["properties"]["event"]["enum"] == list(EVENTS)
    references = {part.split('"')[0] for part in schema.SCHEMA.read_text().split('"#/$defs/')[1:]}
    assert references <= found["$defs"].keys()
    assert set(EVENTS) <= references


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_every_event_says_what_it_means(event: type) -> None:
    """In words of its own, not in those of its base."""
    assert event.__doc__
    assert inspect.getdoc(event) != inspect.getdoc(event.__bases__[0])


@pytest.mark.parametrize("name", [name for name in Envelope.model_fields if name != "fields"])
def test_every_field_of_the_envelope_is_explained(name: str) -> None:
    """They are what lines of different events have in common."""
    assert name in {"group_id", "sequence"} or Envelope.model_fields[name].description
