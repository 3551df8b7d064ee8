"""What counts of a group's log, and what a group needs after it was read: sessions, deadlines,
phases.

None of these is stored. Sessions restart at full length at least (rules 2.10, 3.12); a classic
member of a consumer group keeps its own session length, and one that is behind the assignment
epoch has to rejoin (DEV D7). A rebalance that was due when a classic group was stored
begins anew.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace

from coordinator.classic.group import ClassicGroup
from coordinator.config import GroupConfig
from coordinator.consumer.group import ConsumerGroup
from coordinator.records import (
    ClassicGroupMetadata,
    ClassicGroupValue,
    DurableRecord,
    GroupConfigs,
    Member,
    MemberMetadata,
)
from coordinator.state import GroupState
from coordinator.volatile import (
    ClassicCoreMoved,
    ClassicPhase,
    DeadlineKey,
    DeadlineKind,
    DeadlineSet,
    MemberPhase,
    MemberPhaseMoved,
    Repetition,
    RepetitionMoved,
    VolatileRecord,
)


def newest(records: Iterable[DurableRecord]) -> Collection[DurableRecord]:
    """Of each key the last record, in the order of writing. A log that is read during its
    compaction has lost some of the older ones but not all: what is left need not fit together.

    The gateway's logs hand out nothing else; that a group is its newest records is for the engine
    to know all the same, whose simulation loads logs that are whole or compacted in part."""
    last: dict[Hashable, DurableRecord] = {}
    for record in records:
        last.pop(record.key, None)
        last[record.key] = record
    return last.values()


def has_group(records: Iterable[DurableRecord]) -> bool:
    """Whether a log is about a group, or only about the configs that one would have."""
    return any(not isinstance(record, GroupConfigs) for record in records)


def overrides_in(records: Iterable[DurableRecord]) -> Mapping[str, int]:
    """The configs that a log overrides, told without loading it."""
    for record in records:
        if isinstance(record, GroupConfigs):
            return record.overrides
    return {}


def has_members(records: Iterable[DurableRecord]) -> bool:
    """Whether somebody is in the group of a log, told without loading it."""
    for record in records:
        match record:
            case MemberMetadata(value=Member()):
                return True
            case ClassicGroupMetadata(value=ClassicGroupValue(members=members)) if members:
                return True
            case _:
                pass
    return False


def arm_after_load(
    state: GroupState, config: GroupConfig, *, now_ms: int
) -> Iterator[VolatileRecord]:
    """The volatile records that bring a loaded group to life."""
    match state.group:
        case ClassicGroup() as group:
            yield from _arm_classic_group(group, config, now_ms)
        case ConsumerGroup() as group:
            for member in list(group.members.values()):
                yield from _arm_member(group, member, config, now_ms)
        case None:
            pass


def _arm_classic_group(
    group: ClassicGroup, config: GroupConfig, now_ms: int
) -> Iterator[VolatileRecord]:
    for member in list(group.members.values()):
        key = DeadlineKey(DeadlineKind.SESSION, member.member_id)
        length_ms = _first_session_ms(member.session_timeout_ms, config)
        yield DeadlineSet(key, now_ms + length_ms)
    # Without a leader a downgrade had begun a rebalance; too large, the group no longer fits.
    is_too_large = len(group.members) > config.classic_max_size
    is_due = group.members and (group.core.leader is None or is_too_large)
    if is_due or group.removals:
        yield from _begin_rebalance(group, now_ms)


def _begin_rebalance(group: ClassicGroup, now_ms: int) -> Iterator[VolatileRecord]:
    timeouts_ms = (member.rebalance_timeout_ms for member in group.members.values())
    yield ClassicCoreMoved(replace(group.core, phase=ClassicPhase.PREPARING_REBALANCE))
    yield DeadlineSet(DeadlineKey(DeadlineKind.JOIN_PHASE), now_ms + max(timeouts_ms, default=0))


def _arm_member(
    group: ConsumerGroup, member: Member, config: GroupConfig, now_ms: int
) -> Iterator[VolatileRecord]:
    member_id, rebalance_at_ms = member.member_id, now_ms + member.rebalance_timeout_ms
    length_ms = _first_session_ms(
        member.classic.session_timeout_ms if member.classic else config.consumer_session_timeout_ms,
        config,
    )
    yield DeadlineSet(DeadlineKey(DeadlineKind.SESSION, member_id), now_ms + length_ms)
    current = group.assignments.get(member_id)
    if current is None:
        return
    if current.pending_revocation:
        yield DeadlineSet(DeadlineKey(DeadlineKind.REVOCATION, member_id), rebalance_at_ms)
    if not member.is_classic:
        # It may not have heard of its assignment; if it has, it acknowledged before the load. From
        # its first heartbeat on, wherever in its session that is, it has its rebalance timeout.
        repetition = Repetition(
            until_ms=rebalance_at_ms + length_ms,
            must_state_owned=bool(current.pending_revocation),
        )
        yield RepetitionMoved(member_id, repetition)
    if member.is_classic and current.member_epoch < group.assignment_epoch:
        yield MemberPhaseMoved(member_id, MemberPhase.PREPARE_REBALANCE)
        yield DeadlineSet(DeadlineKey(DeadlineKind.JOIN, member_id), rebalance_at_ms)


def _first_session_ms(session_timeout_ms: int, config: GroupConfig) -> int:
    """DEV D41: no shorter than clients take to come back to a coordinator that was away."""
    return max(session_timeout_ms, config.reconnect_timeout_ms)
