"""All tables, with the models of their rows."""

from collections.abc import Mapping

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

ALL_ROWS: Mapping[str, type[BaseRow]] = {
    "changes": ChangeRow,
    "ownership": OwnershipRow,
    "differences": DifferenceRow,
    "offsets": OffsetRow,
    "wrong_starts": WrongStartRow,
    "timeline": TimelineRow,
    "rebalances": RebalanceRow,
    "migrations": MigrationRow,
    "readiness": ReadinessRow,
    "sequences": SequenceRow,
    "contradictions": ContradictionRow,
    "rejected": RejectedRow,
}
"""The row models of all tables."""
