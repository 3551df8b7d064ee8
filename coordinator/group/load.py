"""Loads a group: selects the newest records of its log and restores sessions, deadlines and phases.

The log stores none of these. Sessions restart at full length or longer (rules 2.10, 3.12). A
classic member of a consumer group keeps its own session length, and has to rejoin if it is behind
the assignment epoch (DEV D7). A rebalance that was due when a classic group was stored starts
again.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.classic_phases import check_phase
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import STATIC_LEAVE_EPOCH
from coordinator.interface.records import (
    AdoptionRecord,
    ClassicGroupMetadata,
    ClassicGroupValue,
    DurableRecord,
    GroupConfigs,
    Member,
    MemberMetadata,
    MemberState,
    ReleaseRecord,
    ReleaseState,
    ServedBySetting,
)
from coordinator.interface.volatile_records import (
    UNKNOWN_CONNECTION,
    ClassicCoreMoved,
    ClassicPhase,
    DeadlineKey,
    DeadlineKind,
    DeadlineSet,
    Grant,
    GrantMoved,
    MemberDeparted,
    MemberPhase,
    MemberPhaseMoved,
    MemberSlot,
    MemberSlotMoved,
    Repetition,
    RepetitionMoved,
    VolatileRecord,
)


def newest(records: Iterable[DurableRecord]) -> Collection[DurableRecord]:
    """The last record of each key, in the order of writing.

    A log that is read during its compaction lacks some of the older records, and the others need
    not be consistent. The gateway's logs already return only the newest records; the simulator
    loads complete and partly compacted logs.
    """
    last: dict[Hashable, DurableRecord] = {}
    for record in records:
        last.pop(record.key, None)
        last[record.key] = record
    return last.values()


def has_group(records: Iterable[DurableRecord]) -> bool:
    """Whether a log contains a group, and not only configs or its release."""
    beside = GroupConfigs | ReleaseRecord | ServedBySetting
    return any(not isinstance(record, beside) for record in records)


def is_adopted(records: Iterable[DurableRecord]) -> bool:
    """Whether the group in a log is served here until an operator releases it. Its adoption may be
    under way."""
    return has_group(records) and not any(
        isinstance(record, ReleaseRecord | ServedBySetting) for record in records
    )


def overrides_in(records: Iterable[DurableRecord]) -> Mapping[str, int]:
    """The config overrides in a log, without loading the group."""
    for record in records:
        if isinstance(record, GroupConfigs):
            return record.overrides
    return {}


def has_adoption(records: Iterable[DurableRecord]) -> bool:
    """Whether the adoption of the group in a log is under way."""
    return any(isinstance(record, AdoptionRecord) and record.value for record in records)


def release_in(records: Iterable[DurableRecord]) -> ReleaseState | None:
    """The release of the group in a log, None if there was none."""
    return next((record.value for record in records if isinstance(record, ReleaseRecord)), None)


def has_members(records: Iterable[DurableRecord]) -> bool:
    """Whether the group in a log has members, without loading it."""
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
    """The volatile records that start a loaded group."""
    match state.group:
        case ClassicGroup() as group:
            yield from _arm_classic_group(group, config, now_ms)
        case ConsumerGroup() as group:
            for member in list(group.members.values()):
                yield from _arm_member(group, member, config, now_ms)
            for member_id in sorted(group.targets.keys() - group.members.keys()):
                yield MemberSlotMoved(member_id, MemberSlot(None))
                yield MemberDeparted(member_id)
                yield DeadlineSet(DeadlineKey(DeadlineKind.GRACE, member_id), now_ms)
        case None:
            pass


def _arm_classic_group(
    group: ClassicGroup, config: GroupConfig, now_ms: int
) -> Iterator[VolatileRecord]:
    for member in list(group.members.values()):
        key = DeadlineKey(DeadlineKind.SESSION, member.member_id)
        length_ms = _first_session_ms(member.session_timeout_ms, config)
        yield DeadlineSet(key, now_ms + length_ms)
    # No leader: a downgrade had started a rebalance. Too many members: the size limit was lowered.
    is_too_large = len(group.members) > config.classic_max_size
    # Begun: members wait for the assignments of a generation that is lost.
    is_due = group.core.leader is None or is_too_large or group.core.has_begun
    if (group.members and is_due) or group.removals:
        yield from _begin_rebalance(group, now_ms)


def _begin_rebalance(group: ClassicGroup, now_ms: int) -> Iterator[VolatileRecord]:
    timeouts_ms = (member.rebalance_timeout_ms for member in group.members.values())
    check_phase(group.phase, ClassicPhase.PREPARING_REBALANCE)
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
    is_away = current.member_epoch == STATIC_LEAVE_EPOCH
    if current.state is MemberState.UNREVOKED_PARTITIONS and not is_away:
        yield DeadlineSet(DeadlineKey(DeadlineKind.REVOCATION, member_id), rebalance_at_ms)
    if not member.is_classic:
        # The member may have missed its assignment, or acknowledged it before the load. It gets its
        # rebalance timeout from its first heartbeat on, which may come late in its session.
        repetition = Repetition(
            until_ms=rebalance_at_ms + length_ms,
            must_state_owned=bool(current.pending_revocation),
        )
        yield RepetitionMoved(member_id, repetition)
        grant = Grant(
            connection=UNKNOWN_CONNECTION,
            newest_connection=UNKNOWN_CONNECTION,
            member_epoch=current.member_epoch,
        )
        yield GrantMoved(member_id, grant)
    # DEV D79: otherwise its heartbeat starts the timer, if it tells the member to rejoin at all.
    is_behind = current.member_epoch < group.assignment_epoch
    if member.is_classic and is_behind and config.unaffected_members_rejoin:
        yield MemberPhaseMoved(member_id, MemberPhase.PREPARE_REBALANCE)
        yield DeadlineSet(DeadlineKey(DeadlineKind.JOIN, member_id), rebalance_at_ms)


def _first_session_ms(session_timeout_ms: int, config: GroupConfig) -> int:
    """DEV D41: at least as long as clients take to reconnect to a coordinator that was away."""
    return max(session_timeout_ms, config.reconnect_timeout_ms)
