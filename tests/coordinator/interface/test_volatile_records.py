"""The volatile records."""

from typing import get_args

from coordinator.group.state import DURABLE_TYPES
from coordinator.interface.records import DurableRecord
from coordinator.interface.volatile_records import (
    ClassicPhase,
    DeadlineKey,
    DeadlineKind,
    VolatileRecord,
)


def test_no_record_is_both_durable_and_volatile() -> None:
    """Only durable records are logged."""
    assert set(get_args(VolatileRecord)).isdisjoint(DURABLE_TYPES)
    assert set(get_args(DurableRecord)) == set(DURABLE_TYPES)


def test_a_deadline_is_named_by_kind_and_owner() -> None:
    """The group's own deadlines have no owner."""
    assert DeadlineKey(DeadlineKind.JOIN_PHASE) == DeadlineKey(DeadlineKind.JOIN_PHASE, "")
    assert DeadlineKey(DeadlineKind.SESSION, "a") != DeadlineKey(DeadlineKind.SESSION, "b")
    assert DeadlineKey(DeadlineKind.SESSION, "a") != DeadlineKey(DeadlineKind.JOIN, "a")


def test_phases_have_the_names_of_kafkas_views() -> None:
    """Dashboards compare these strings (rule 2.1)."""
    names = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]
    assert [str(phase) for phase in ClassicPhase] == names
