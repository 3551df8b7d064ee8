"""All tables, with the models of their rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args, get_type_hints

from gateway.pipeline.tables.changes import ChangeRow
from gateway.pipeline.tables.contradictions import ContradictionRow
from gateway.pipeline.tables.differences import DifferenceRow
from gateway.pipeline.tables.migrations import MigrationRow
from gateway.pipeline.tables.offsets import OffsetRow
from gateway.pipeline.tables.ownership import OwnershipRow
from gateway.pipeline.tables.readiness import ReadinessRow
from gateway.pipeline.tables.rebalances import RebalanceRow
from gateway.pipeline.tables.rejected import RejectedRow
from gateway.pipeline.tables.row import BaseRow
from gateway.pipeline.tables.sequences import SequenceRow
from gateway.pipeline.tables.timeline import TimelineRow
from gateway.pipeline.tables.wrong_starts import WrongStartRow


@dataclass(slots=True, kw_only=True)
class Tables:
    """Rows of all tables; the fields are the tables' names."""

    changes: list[ChangeRow] = field(default_factory=list)
    ownership: list[OwnershipRow] = field(default_factory=list)
    differences: list[DifferenceRow] = field(default_factory=list)
    offsets: list[OffsetRow] = field(default_factory=list)
    wrong_starts: list[WrongStartRow] = field(default_factory=list)
    timeline: list[TimelineRow] = field(default_factory=list)
    rebalances: list[RebalanceRow] = field(default_factory=list)
    migrations: list[MigrationRow] = field(default_factory=list)
    readiness: list[ReadinessRow] = field(default_factory=list)
    sequences: list[SequenceRow] = field(default_factory=list)
    contradictions: list[ContradictionRow] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)


ALL_ROWS: Mapping[str, type[BaseRow]] = {
    name: get_args(rows)[0] for name, rows in get_type_hints(Tables).items()
}
"""The row models of all tables."""
