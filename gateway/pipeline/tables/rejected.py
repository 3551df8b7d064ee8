"""Lines that are no event, or none that this groupferry knows."""

from pydantic import BaseModel, ConfigDict
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gateway.events.catalog import EVENTS
from gateway.pipeline.parsing import LINE, NUMBERED, PROBLEM, is_any


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
    group_id: str | None
    """If it has its place in a sequence, and is an event of this group that this groupferry knows:
    what it tells is lost as if it were missing. Otherwise null."""


def rejected(lines: DataFrame) -> DataFrame:
    """Of parsed lines those that have a `problem`."""
    bad = lines.where(F.col(PROBLEM).isNotNull())
    is_lost = F.col(NUMBERED) & is_any(*EVENTS.values())
    return bad.select(
        "file",
        "place",
        F.col(PROBLEM).alias("problem"),
        F.col(LINE).alias("line"),
        F.when(is_lost, F.col("group_id")).alias("group_id"),
    )
