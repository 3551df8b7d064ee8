"""Lines that are no event, or none that this version of groupferry knows."""

from dataclasses import dataclass

from gateway.pipeline.parsing import TEXT_MAX, Line
from gateway.pipeline.tables.row import BaseRow


@dataclass(slots=True, kw_only=True)
class RejectedRow(BaseRow):
    """One line."""

    file: str
    """The file; for a topic `kafka:TOPIC/PARTITION`."""
    place: str | None
    """The line, byte or offset in it. In a file that Spark reads in several blocks, lines are
    counted from the beginning of the block, as in `line 3 after byte 4194304`."""
    problem: str
    line: str
    """The beginning of the line."""
    group_id: str | None
    """The group, if the line has a place in a sequence and is an event of the group with a known
    name: its contents are lost as if it were missing. Otherwise null."""

    @property
    def is_unread(self) -> bool:
        """Whether it is an event of a group."""
        return self.group_id is not None


def rejected(
    file: str, place: str | None, text: str, line: Line | None, problem: str
) -> RejectedRow:
    """The row of a line with a problem; `line` is null if it has no place in a sequence."""
    return RejectedRow(
        file=file,
        place=place,
        problem=problem,
        line=text[:TEXT_MAX],
        group_id=line.group_id if line and line.is_known else None,
    )
