"""The first rows of a table that may have any number, and how many more there are."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Row


def first_of(
    rows: DataFrame, order: Sequence[str | Column], most: int
) -> tuple[Sequence[Row], int]:
    """In that order. Those that are left out are counted only if there are any."""
    found = rows.orderBy(*order).limit(most + 1).collect()
    if len(found) <= most:
        return found, 0
    return found[:most], rows.count() - most
