"""What the rows of all tables have in common. Their classes are the source of the tables' schema
and documentation. They are plain dataclasses, because a fold makes several rows for each event.
"""

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter


@dataclass(slots=True)
class BaseRow:
    """One row. Times are milliseconds since 1970 (UTC), null if unknown."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", use_attribute_docstrings=True
    )


@dataclass(slots=True)
class Row(BaseRow):
    """A row about a group."""

    cluster_id: str
    """The cluster's own id, empty if no gateway has named it."""
    group_id: str


def columns(row: type[BaseRow]) -> tuple[str, ...]:
    """The names of the columns."""
    return tuple(each.name for each in fields(row))


def json_schema(row: type[BaseRow]) -> dict[str, Any]:
    """The columns with their types and meanings, as a JSON schema."""
    schema = TypeAdapter(row).json_schema()
    for base in row.__mro__[1:]:
        if is_dataclass(base):  # pydantic reads the docstrings of one class
            for name, column in TypeAdapter(base).json_schema().get("properties", {}).items():
                if "description" in column:
                    schema["properties"][name].setdefault("description", column["description"])
    return schema
