"""Makes the JSON schemas of dataclasses, which are documented by them."""

from dataclasses import is_dataclass
from typing import Any

from pydantic import TypeAdapter


def json_schema(of: type[Any], **how: Any) -> dict[str, Any]:
    """The fields with their types and meanings, inherited ones included; `how` as in pydantic."""
    schema = TypeAdapter(of).json_schema(**how)
    for base in of.__mro__[1:]:
        if is_dataclass(base):  # pydantic reads the docstrings of one class
            for name, field in TypeAdapter(base).json_schema().get("properties", {}).items():
                if "description" in field:
                    schema["properties"][name].setdefault("description", field["description"])
    return schema
