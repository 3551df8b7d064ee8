"""What the rows of all tables have in common. Their classes are the source of the tables' schema
and documentation. They are plain dataclasses, because a fold makes several rows for each event.
"""

from dataclasses import dataclass, fields
from typing import ClassVar

from pydantic import ConfigDict


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
