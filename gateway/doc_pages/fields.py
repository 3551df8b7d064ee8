"""Renders a model's fields as a Markdown table of name, type and meaning, from its JSON schema."""

from collections.abc import Iterator
from typing import Any


def field_table(schema: dict[str, Any], *, without: str = "") -> Iterator[str]:
    """The lines of the table, without one of the fields if requested."""
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
                f"`{name}`: {_type_of(schema, definitions)}" for name, schema in properties.items()
            )
            return f"object ({names})"
        case {"type": str(name)}:
            return name
        case _:
            return "anything"
