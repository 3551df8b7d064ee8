"""All tables, in the order in which they are made: each from the histories and from earlier
tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import BaseModel
from pyspark.sql import DataFrame

from gateway.pipeline.group_histories import GroupHistories
from gateway.pipeline.tables.changes import ChangeRow, changes
from gateway.pipeline.tables.contradictions import ContradictionRow, contradictions
from gateway.pipeline.tables.differences import DifferenceRow, differences
from gateway.pipeline.tables.lost_commits import LostCommitRow, lost_commits
from gateway.pipeline.tables.migrations import MigrationRow, migrations
from gateway.pipeline.tables.offsets import OffsetRow, offsets
from gateway.pipeline.tables.ownership import OwnershipRow, ownership
from gateway.pipeline.tables.readiness import ReadinessRow, readiness
from gateway.pipeline.tables.rebalances import RebalanceRow, rebalances
from gateway.pipeline.tables.rejected import RejectedRow, rejected
from gateway.pipeline.tables.row import Row
from gateway.pipeline.tables.sequences import SequenceRow, sequences
from gateway.pipeline.tables.timeline import TimelineRow, timeline

Made = Mapping[str, DataFrame]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of groups, and the function that makes it."""

    name: str
    row: type[Row]
    make: Callable[[GroupHistories, Made], DataFrame]


TABLES = (
    Table("changes", ChangeRow, lambda histories, _made: changes(histories)),
    Table("ownership", OwnershipRow, lambda histories, made: ownership(histories, made["changes"])),
    Table(
        "differences",
        DifferenceRow,
        lambda histories, made: differences(histories, made["ownership"]),
    ),
    Table("offsets", OffsetRow, lambda histories, _made: offsets(histories)),
    Table("lost_commits", LostCommitRow, lambda histories, _made: lost_commits(histories)),
    Table("timeline", TimelineRow, lambda _stories, made: timeline(made["changes"])),
    Table("rebalances", RebalanceRow, lambda _stories, made: rebalances(made["changes"])),
    Table(
        "migrations",
        MigrationRow,
        lambda _stories, made: migrations(made["changes"], made["ownership"], made["rebalances"]),
    ),
    Table("readiness", ReadinessRow, lambda histories, _made: readiness(histories)),
)


@dataclass(frozen=True, slots=True)
class WholeTable:
    """A table that is made from all stored lines instead of group by group."""

    name: str
    row: type[BaseModel]
    make: Callable[[DataFrame], DataFrame]


WHOLE_TABLES = (
    WholeTable("sequences", SequenceRow, sequences),
    WholeTable("contradictions", ContradictionRow, contradictions),
    WholeTable("rejected", RejectedRow, rejected),
)

ALL_ROWS: Mapping[str, type[BaseModel]] = {
    table.name: table.row for table in (*TABLES, *WHOLE_TABLES)
}
"""The row models of all tables."""
