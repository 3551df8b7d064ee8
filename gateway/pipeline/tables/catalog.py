"""All tables of groups, in the order in which they are made: each from the stories, and from those
before it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import BaseModel
from pyspark.sql import DataFrame

from gateway.pipeline.stories import Stories
from gateway.pipeline.tables.differences import DifferenceRow, differences
from gateway.pipeline.tables.ownership import OwnershipRow, ownership
from gateway.pipeline.tables.rejected import RejectedRow
from gateway.pipeline.tables.row import Row

Made = Mapping[str, DataFrame]


@dataclass(frozen=True, slots=True)
class Table:
    """A table and how it is made."""

    name: str
    row: type[Row]
    make: Callable[[Stories, Made], DataFrame]


TABLES = (
    Table("ownership", OwnershipRow, lambda stories, _made: ownership(stories)),
    Table("differences", DifferenceRow, lambda stories, _made: differences(stories)),
)

ALL_ROWS: Mapping[str, type[BaseModel]] = {
    **{table.name: table.row for table in TABLES},
    "rejected": RejectedRow,
}
"""The rows of every table, those that are not made group by group at the end."""
