"""How much of what may have any number is shown, and how many more there are."""

from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel
from pyspark.sql import Column, DataFrame, Row

M = TypeVar("M", bound=BaseModel)

GROUPS_USUAL = 50
EACH_MIN = 10


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
