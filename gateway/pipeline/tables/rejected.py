"""Lines that are no event, or none that this version of groupferry knows."""

from pydantic import BaseModel, ConfigDict
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gateway.events.catalog import EVENTS
from gateway.pipeline.parsing import LINE, NUMBERED, PROBLEM, is_any


class RejectedRow(BaseModel):
    """One line."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    file: str
    """The file; for a topic `kafka:TOPIC/PARTITION`."""
    place: str | None
    """The line, byte or offset in it."""
    problem: str
    line: str
    """The beginning of the line."""
    group_id: str | None
    """The group, if the line has a place in a sequence and is an event of the group with a known
    name: its contents are lost as if it were missing. Otherwise null."""


def rejected(lines: DataFrame) -> DataFrame:
    """The parsed lines with a `problem`."""
    bad = lines.where(F.col(PROBLEM).isNotNull())
    is_lost = F.col(NUMBERED) & is_any(*EVENTS.values())
    return bad.select(
        "file",
        "place",
        F.col(PROBLEM).alias("problem"),
        F.col(LINE).alias("line"),
        F.when(is_lost, F.col("group_id")).alias("group_id"),
    )
