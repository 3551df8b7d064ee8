"""Limits on the report: on how many rows it shows of anything, and on the length of names."""

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
"""The longest name in characters that is shown in full."""
_END = 100
"""Characters shown of either end of a longer name, because ids differ there."""


def first_of(
    rows: DataFrame, order: Sequence[str | Column], most: int
) -> tuple[Sequence[Row], int]:
    """The first rows in this order, and the number of others, counted only if there are any."""
    found = rows.orderBy(*order).limit(most + 1).collect()
    if len(found) <= most:
        return found, 0
    return found[:most], rows.count() - most


def made(model: type[M], row: Row) -> M:
    """A part of the report, from a row with a column for each of its fields."""
    return model(**{name: row[name] for name in model.model_fields})


def of_each(most: int, groups: int) -> int:
    """How many items each group may show: less than `most` if there are more groups than usual, so
    that a browser can open the page."""
    return most if groups <= GROUPS_USUAL else max(EACH_MIN, most * GROUPS_USUAL // groups)


def with_short_names(table: DataFrame, row: type[BaseModel]) -> DataFrame:
    """Shorten texts longer than NAME_MAX to their two ends and a digest, so that different names
    stay different."""
    fields = row.model_fields.items()
    names = [name for name, field in fields if without_none(field.annotation) is str]
    return table.withColumns({name: _short(F.col(name)) for name in names})


def _short(name: Column) -> Column:
    first, last = F.substring(name, 1, _END), F.substring(name, -_END, _END)
    short = F.concat_ws("…", first, F.md5(name.cast("binary")), last)
    return F.when(F.length(name) > NAME_MAX, short).otherwise(name)
