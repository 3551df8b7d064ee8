"""Checks that a log restores its group, also after compaction (invariant 8, rule 8.4)."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from coordinator.copy_on_write.table import Forkable, Table
from coordinator.engine import GroupEngine
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig
from coordinator.interface.records import ClassicGroupValue, DurableRecord, is_tombstone
from coordinator.interface.volatile_records import ClassicPhase
from tests.simulation.invariants import Invariant, check_group, require


def snapshot(value: object) -> object:
    """A copy of a complete state, including its volatile parts and the order of rows. It equals
    another as long as neither the state nor a row has changed. Rows are immutable: a copy shares
    them, so that comparing costs little."""
    match value:
        case Table():
            return [*value], [snapshot(row) for row in value.values()]
        case Forkable():
            fields = ((name, getattr(value, name)) for name in type(value).__slots__)
            kind = type(value).Fork  # the same for the original
            return kind, [(name, snapshot(field)) for name, field in fields]
        case set():  # what a fork has written so far
            return None
        case _:
            return value


def copy_state(part: Any) -> object:
    """A state, or a part of one, as it is now. Tables are copied, but not the values in them, which
    nobody can change."""
    match part:
        case Forkable():
            return [copy_state(getattr(part, name)) for name in type(part).__slots__]
        case dict() if isinstance(next(iter(part.values()), None), dict):
            return {key: copy_state(row) for key, row in part.items()}
        case dict():
            return part.copy()
        case set():
            return part.copy()
        case _:
            return part


_DURABLE_FIELDS = (
    *("epoch", "assignment_epoch", "target_timestamp_ms", "metadata_hash", "assignor"),
    *("members", "targets", "assignments", "holders", "instances", "subscribers"),
    *("regexes", "regex_subscribers"),
)
"""The fields of a consumer group."""
_durable_fields = attrgetter(*_DURABLE_FIELDS)


@dataclass(frozen=True, slots=True)
class DurableState:
    """The state that a log must restore. Of a rebalance in progress a log contains only the
    generation, and who left."""

    overrides: Mapping[str, int]
    group: object
    is_rebalancing: bool


def durable_state(state: GroupState) -> DurableState:
    """The part of a state that is in its log."""
    group = state.group
    return DurableState(
        overrides=dict(state.config_overrides),
        group=_durable_group(group),
        is_rebalancing=isinstance(group, ClassicGroup)
        and group.phase not in (ClassicPhase.EMPTY, ClassicPhase.STABLE),
    )


def _durable_group(group: ClassicGroup | ConsumerGroup | None) -> object:
    match group:
        case None:
            return None
        case ClassicGroup():
            return group.stored_value()
        case ConsumerGroup():
            values = zip(_DURABLE_FIELDS, _durable_fields(group), strict=True)
            return {
                name: value.copy() if isinstance(value, Table) else value for name, value in values
            }


def check_restored(current: GroupState, state: GroupState) -> None:
    """`check_same` for a state that exists now, so that equal groups need not be copied."""
    match current.group, state.group:
        case ConsumerGroup() as restored, ConsumerGroup() as group:
            if (
                _durable_fields(restored) == _durable_fields(group)
                and current.config_overrides == state.config_overrides
            ):
                return
        case _:
            pass
    check_same(current, durable_state(state))


def check_same(state: GroupState, expected: DurableState) -> None:
    """Require that a log restored the durable part of a state."""
    durable = durable_state(state)
    is_same = durable.overrides == expected.overrides and (
        _restores_rebalance(durable.group, expected.group)
        if expected.is_rebalancing
        else durable.group == expected.group
    )
    require(is_same, Invariant.REPLAY, "the log has", durable, "the engine", expected)


def _restores_rebalance(restored: object, expected: object) -> bool:
    """Whether both are classic groups in the same generation, and the first has no member that the
    second lacks."""
    if not isinstance(restored, ClassicGroupValue) or not isinstance(expected, ClassicGroupValue):
        return False
    if restored.generation != expected.generation:
        return False
    still_there = {member.member_id for member in expected.members}
    return all(member.member_id in still_there for member in restored.members)


def check_replay(
    log: list[DurableRecord], expected: DurableState, *, config: GroupConfig, now_ms: int
) -> None:
    """Require that the log and its compaction restore the group."""
    for records in (log, compact_log(log)):
        engine = GroupEngine("orders", config)
        engine.load(records, now_ms=now_ms)
        check_same(engine.state, expected)
        check_group(engine.state)


def compact_log(log: Iterable[DurableRecord]) -> list[DurableRecord]:
    """The newest record of each key without tombstones, in the order of writing."""
    newest: dict[Hashable, DurableRecord] = {}
    for record in log:
        supersede(newest, record)
    return list(newest.values())


def supersede(newest: dict[Hashable, DurableRecord], record: DurableRecord) -> None:
    """Put a record in the place of the earlier one with its key, at the end."""
    key = record.key
    newest.pop(key, None)
    if not is_tombstone(record):
        newest[key] = record


def parked_tokens(state: GroupState) -> set[int]:
    """The tokens of parked requests."""
    if not isinstance(state.group, ClassicGroup):
        return set()
    return {join.token for join in state.group.joins.values()} | set(state.group.syncs.values())
