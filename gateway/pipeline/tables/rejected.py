"""Lines that are no event, or none that this groupferry knows."""

from pydantic import BaseModel, ConfigDict
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from gateway.pipeline.parsing import LINE, PROBLEM


class RejectedRow(BaseModel):
    """One line."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    file: str
    """Or of a topic `kafka:TOPIC/PARTITION`."""
    place: str | None
    """Which line of it, or byte, or offset."""
    problem: str
    line: str
    """The first characters of it."""


def rejected(lines: DataFrame) -> DataFrame:
    """Of rows that have a `problem`, or none."""
    bad = lines.where(F.col(PROBLEM).isNotNull())
    return bad.select(
        "file",
        "place",
        F.col(PROBLEM).alias("problem"),
        F.col(LINE).alias("line"),
    )
