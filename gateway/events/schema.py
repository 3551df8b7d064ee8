"""The events as documentation and as a JSON schema, both made from the models.

    python -m gateway.events.schema

writes them anew; a test fails as long as they are not what the models say.
"""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gateway.events.catalog import EVENTS, SUBJECTS
from gateway.events.envelope import Envelope
from gateway.events.event import GatewayEvent

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "events.md"
SCHEMA = DOCS / "events.schema.json"

MARK = "<!-- From here on generated: python -m gateway.events.schema -->\n"


def json_schema() -> dict[str, Any]:
    """Of one line: the envelope, and for each event name its fields."""
    definitions: dict[str, Any] = {}
    for name, event in EVENTS.items():
        schema = event.model_json_schema(ref_template="#/$defs/{model}")
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
    """Every event with its fields, in Markdown."""
    lines = ["", "## The envelope", ""]
    lines += _table(Envelope.model_json_schema(), without="fields")
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
    if event.model_fields:
        yield ""
        yield from _table(event.model_json_schema())


def _table(schema: dict[str, Any], *, without: str = "") -> Iterator[str]:
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    for name, field in schema["properties"].items():
        if name != without:
            meaning = " ".join(field.get("description", "").split())
            yield f"| `{name}` | {_type_of(field, schema.get('$defs', {}))} | {meaning} |"


def _type_of(field: dict[str, Any], definitions: dict[str, Any]) -> str:
    match field:
        case {"$ref": str(reference)}:
            return _type_of(definitions[reference.rpartition("/")[2]], definitions)
        case {"anyOf": list(choices)}:
            return " or ".join(_type_of(choice, definitions) for choice in choices)
        case {"enum": list(values)}:
            return ", ".join(f"`{value}`" for value in values)
        case {"const": value}:
            return f"`{value}`"
        case {"type": "array", "items": items}:
            return f"array of {_type_of(items, definitions)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"object of {_type_of(values, definitions)}"
        case {"type": "object", "properties": dict(properties)}:
            names = ", ".join(
                f"`{name}`: {_type_of(each, definitions)}" for name, each in properties.items()
            )
            return f"object ({names})"
        case {"type": str(name)}:
            return name
        case _:
            return "anything"


def page() -> str:
    """The documentation as it should be: its own words, and the tables behind them."""
    words, mark, _tables = PAGE.read_text().partition(MARK)
    return words + mark + tables()


def schema_text() -> str:
    """The JSON schema's file as it should be."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    SCHEMA.write_text(schema_text())
