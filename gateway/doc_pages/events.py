"""Generates the events' documentation and JSON schema from the models.

    python -m gateway.doc_pages.events

writes both. A test fails if they do not match the models.
"""

import inspect
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from gateway.doc_pages.fields import field_table
from gateway.events.catalog import EVENTS, SUBJECTS
from gateway.events.event import Envelope, GatewayEvent

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "events.md"
SCHEMA = DOCS / "events.schema.json"

MARK = "<!-- From here on generated: python -m gateway.doc_pages.events -->\n"


def json_schema() -> dict[str, Any]:
    """The schema of one line: the envelope, and the fields of each event."""
    definitions: dict[str, Any] = {}
    for name, event in EVENTS.items():
        schema = TypeAdapter(event).json_schema(ref_template="#/$defs/{model}")
        definitions |= schema.pop("$defs", {})
        definitions[name] = schema
    envelope = Envelope.model_json_schema()
    envelope.pop("$defs", None)
    envelope["properties"]["fields"] = {"type": "object"}
    envelope["properties"]["event"]["enum"] = list(EVENTS)
    envelope["allOf"] = [
        {
            "if": {"properties": {"event": {"const": name}}},
            "then": {
                "properties": {
                    "schema_version": {"const": event.schema_version},
                    "fields": {"$ref": f"#/$defs/{name}"},
                }
            },
        }
        for name, event in EVENTS.items()
    ]
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, **envelope, "$defs": definitions}


def tables() -> str:
    """The Markdown tables of all events with their fields."""
    lines = ["", "## The envelope", ""]
    lines += field_table(Envelope.model_json_schema(), without="fields")
    for subject, module in SUBJECTS.items():
        lines += ["", f"## {subject}", "", inspect.getdoc(module) or ""]
        for event in EVENTS.values():
            if event.__module__ == module.__name__:
                lines += ["", *_section(event)]
    return "\n".join(lines) + "\n"


def _section(event: type[GatewayEvent]) -> Iterator[str]:
    yield f"### `{event.name}`"
    yield ""
    meaning = " ".join((inspect.getdoc(event) or "").split())
    yield f"{meaning} Schema version {event.schema_version}."
    if fields(event):
        yield ""
        yield from field_table(TypeAdapter(event).json_schema())


def page() -> str:
    """The expected page: the handwritten text, then the tables."""
    words, mark, _tables = PAGE.read_text().partition(MARK)
    return words + mark + tables()


def schema_text() -> str:
    """The expected content of the JSON schema file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    SCHEMA.write_text(schema_text())
