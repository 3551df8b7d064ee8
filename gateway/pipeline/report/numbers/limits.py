"""How much of what may have any number is shown, and how many more there are; and how much of a
name, which may have any length.
"""

from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from gateway.pipeline.spark_types import without_none

M = TypeVar("M", bound=BaseModel)

GROUPS_USUAL = 50
EACH_MIN = 10
NAME_MAX = 256
"""Characters."""
_END = 100
"""Characters that are shown of either end of a longer one: ids differ there."""


def first_of(
    rows: DataFrame, order: Sequence[str | Column], most: int
) -> tuple[Sequence[Row], int]:
    """In that order. Those that are left out are counted only if there are any."""
    found = rows.orderBy(*order).limit(most + 1).collect()
    if len(found) <= most:
        return found, 0
    return found[:most], rows.count() - most


def made(model: type[M], row: Row) -> M:
    """A part of the report from a row that has a column for each of its fields."""
    return model(**{name: row[name] for name in model.model_fields})


def of_each(most: int, groups: int) -> int:
    """How many each of so many groups may show: less than `most` if there are more groups than
    usual, so that a browser can open the page."""
    return most if groups <= GROUPS_USUAL else max(EACH_MIN, most * GROUPS_USUAL // groups)


def with_short_names(table: DataFrame, row: type[BaseModel]) -> DataFrame:
    """Of each text that is longer than NAME_MAX the two ends, and between them a digest of it, so
    that what are two names stay two."""
    fields = row.model_fields.items()
    names = [name for name, field in fields if without_none(field.annotation) is str]
    return table.withColumns({name: _short(F.col(name)) for name in names})


def _short(name: Column) -> Column:
    first, last = F.substring(name, 1, _END), F.substring(name, -_END, _END)
    short = F.concat_ws("…", first, F.md5(name.cast("binary")), last)
    return F.when(F.length(name) > NAME_MAX, short).otherwise(name)
