"""All tables, with the models of their rows."""

from collections.abc import Mapping

from pydantic import BaseModel

from gateway.pipeline.tables.changes import ChangeRow
from gateway.pipeline.tables.contradictions import ContradictionRow
from gateway.pipeline.tables.differences import DifferenceRow
from gateway.pipeline.tables.lost_commits import LostCommitRow
from gateway.pipeline.tables.migrations import MigrationRow
from gateway.pipeline.tables.offsets import OffsetRow
from gateway.pipeline.tables.ownership import OwnershipRow
from gateway.pipeline.tables.readiness import ReadinessRow
from gateway.pipeline.tables.rebalances import RebalanceRow
from gateway.pipeline.tables.rejected import RejectedRow
from gateway.pipeline.tables.sequences import SequenceRow
from gateway.pipeline.tables.timeline import TimelineRow

ALL_ROWS: Mapping[str, type[BaseModel]] = {
    "changes": ChangeRow,
    "ownership": OwnershipRow,
    "differences": DifferenceRow,
    "offsets": OffsetRow,
    "lost_commits": LostCommitRow,
    "timeline": TimelineRow,
    "rebalances": RebalanceRow,
    "migrations": MigrationRow,
    "readiness": ReadinessRow,
    "sequences": SequenceRow,
    "contradictions": ContradictionRow,
    "rejected": RejectedRow,
}
"""The row models of all tables."""
