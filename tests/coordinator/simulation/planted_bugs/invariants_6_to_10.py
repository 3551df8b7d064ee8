"""Bugs that the invariants 6 to 10 must notice: fences, conversions, log, offsets."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from coordinator import offsets
from coordinator.classic.group import ClassicGroup
from coordinator.config import GroupConfig, MigrationPolicy
from coordinator.consumer.group import ConsumerGroup
from coordinator.consumer.reconcile import reconcile_member
from coordinator.conversion import downgrade, upgrade
from coordinator.conversion.fence import fence
from coordinator.engine import Step
from coordinator.events import OffsetCommitReceived
from coordinator.load import arm_after_load
from coordinator.records import (
    Assignment,
    ClassicGroupMember,
    ClassicGroupMetadata,
    CurrentAssignment,
    DurableRecord,
    GroupEpoch,
    Member,
    MemberMetadata,
    RemovalCause,
    TargetAssignmentMember,
    is_tombstone,
)
from coordinator.simulation.invariants import Invariant
from coordinator.state import GroupState, Record
from coordinator.step_builder import StepBuilder
from coordinator.volatile import (
    CommitInFlight,
    DeadlineKey,
    DeadlineKind,
    DeadlineSet,
    MemberPhase,
    VolatileRecord,
)
from tests.coordinator.simulation.planted_bugs.bug import Patch, noticed_by

# -- 6: who is silent goes in time, and only who is silent -----------------------------------------


@noticed_by(Invariant.SILENCE)
def the_silent_get_another_session(patch: Patch) -> None:
    """Who missed its session gets another one, and another one, instead of being fenced."""

    def forgive(step: StepBuilder, causes: Mapping[str, RemovalCause]) -> None:
        for member_id, cause in causes.items():
            if cause is RemovalCause.SESSION_EXPIRED:
                step.arm(DeadlineKind.SESSION, member_id, 1_000)
            else:
                fence(step, {member_id: cause})

    patch.setattr("coordinator.timers.fence", forgive)


@noticed_by(Invariant.SILENCE)
def a_restart_forgets_session_lengths(patch: Patch) -> None:
    """After a restart every member has a session as long as that of a native one."""

    def arm(state: GroupState, config: GroupConfig, *, now_ms: int) -> Iterator[VolatileRecord]:
        for record in arm_after_load(state, config, now_ms=now_ms):
            if isinstance(record, DeadlineSet) and record.key.kind is DeadlineKind.SESSION:
                yield DeadlineSet(record.key, now_ms + config.consumer_session_timeout_ms)
            else:
                yield record

    patch.setattr("coordinator.engine.arm_after_load", arm)


@noticed_by(Invariant.SILENCE)
def rejoining_buys_time(patch: Patch) -> None:
    """A classic member that has to revoke gets a new deadline each time it rejoins."""

    def reconcile(step: StepBuilder, member: Member, *what: Any, **how: Any) -> None:
        reconcile_member(step, member, *what, **how)
        if step.is_armed(DeadlineKind.REVOCATION, member.member_id):
            step.arm(DeadlineKind.REVOCATION, member.member_id, member.rebalance_timeout_ms)

    patch.setattr("coordinator.mixed.join.reconcile_member", reconcile)


@noticed_by(Invariant.TIMERS)
def a_revocation_has_no_deadline(patch: Patch) -> None:
    """A member that has to give something up may take for ever."""
    patch.setattr("coordinator.consumer.reconcile._keep_revocation_deadline", lambda *_: None)


# -- 7: an upgrade and a downgrade leave every static member its partitions ------------------------


@noticed_by(Invariant.THERE_AND_BACK, Invariant.GRANTED)
def an_upgrade_believes_no_assignment(patch: Patch) -> None:
    """An upgrade leaves every classic member with nothing."""

    def nothing(group: ClassicGroup, *_: object) -> dict[str, Assignment]:
        epoch = group.core.generation
        return {id_: Assignment(member_epoch=epoch, previous_epoch=epoch) for id_ in group.members}

    patch.setattr(upgrade, "_current_assignments", nothing)


@noticed_by(Invariant.THERE_AND_BACK)
def a_downgrade_writes_nothing_held(patch: Patch) -> None:
    """The classic group that a downgrade leaves knows the members, not what they hold."""
    real = downgrade._classic_group_member

    def classic_group_member(*what: Any) -> ClassicGroupMember:
        return replace(real(*what), assignment=b"")

    patch.setattr(downgrade, "_classic_group_member", classic_group_member)


# -- 8: the log brings the same group back ---------------------------------------------------------


@noticed_by(Invariant.REPLAY)
def tombstones_of_members_are_not_logged(patch: Patch) -> None:
    """A member that goes is removed from memory only."""
    _drop_from_batches(patch, lambda r: isinstance(r, MemberMetadata) and r.value is None)


@noticed_by(Invariant.REPLAY)
def a_restart_brings_back_who_left(patch: Patch) -> None:
    """A classic group is stored with its assignments only: removals in between are forgotten."""
    patch.setattr("coordinator.engine.store_removals", lambda _draft, _group: None)


@noticed_by(Invariant.REPLAY)
def targets_are_not_logged(patch: Patch) -> None:
    """The batch with a new target lacks what is in it."""
    _drop_from_batches(patch, lambda r: isinstance(r, TargetAssignmentMember))


@noticed_by(Invariant.REPLAY, Invariant.INDEXES)
def members_share_a_key(patch: Patch) -> None:
    """The key of a current assignment does not name the member: compaction keeps one for all."""
    patch.setattr(CurrentAssignment, "key", "current_assignment")


@noticed_by(Invariant.REPLAY)
def a_downgrade_leaves_targets_in_the_log(patch: Patch) -> None:
    """A downgrade writes no tombstones of targets: compaction brings them back later."""
    real = downgrade._delete_consumer_group

    def delete(step: StepBuilder, *what: Any) -> None:
        real(step, *what)
        step.records[:] = [r for r in step.records if not isinstance(r, TargetAssignmentMember)]

    patch.setattr(downgrade, "_delete_consumer_group", delete)


@noticed_by(Invariant.REPLAY)
def a_reload_depends_on_a_phase(patch: Patch) -> None:
    """What is stored of a classic member depends on its phase, which a restart forgets."""
    real = ConsumerGroup._put_assignment

    def put_assignment(group: ConsumerGroup, member_id: str, value: Assignment | None) -> None:
        if value is not None and group.phases.get(member_id) is MemberPhase.PREPARE_REBALANCE:
            value = replace(value, previous_epoch=value.member_epoch)
        real(group, member_id, value)

    patch.setattr(ConsumerGroup, "_put_assignment", put_assignment)


def _drop_from_batches(patch: Patch, is_lost: Callable[[DurableRecord], bool]) -> None:
    real: Callable[[Step], tuple[DurableRecord, ...]] = vars(Step)["durable"].fget
    patch.setattr(
        Step, "durable", property(lambda step: tuple(r for r in real(step) if not is_lost(r)))
    )


# -- 9: with policy disabled no group becomes a mixed one ------------------------------------------


@noticed_by(Invariant.POLICY)
def disabled_is_no_obstacle_to_classic_members(patch: Patch) -> None:
    """JoinGroup on a consumer group does not ask for the policy."""
    patch.setattr("coordinator.mixed.join.MigrationPolicy", SimpleNamespace(DISABLED=None))


@noticed_by(Invariant.POLICY)
def disabled_is_no_obstacle_to_an_upgrade(patch: Patch) -> None:
    """A native member converts a group of classic ones under every policy."""
    patch.setattr(MigrationPolicy, "allows_upgrade", True)


# -- 10: committed offsets survive, and never go back ----------------------------------------------


@noticed_by(Invariant.OFFSETS)
def a_commit_in_flight_holds_nothing(patch: Patch) -> None:
    """A commit on its way to the cluster keeps nobody from its partitions."""

    def in_flight(*, member_id: str, **_partitions: object) -> CommitInFlight:
        return CommitInFlight(member_id=member_id, partitions=frozenset(), held=frozenset())

    patch.setattr("coordinator.offsets.CommitInFlight", in_flight)


@noticed_by(Invariant.OFFSETS)
def a_reset_in_flight_hinders_nobody(patch: Patch) -> None:
    """Members begin though the reset of an empty group is still on its way to the cluster."""
    real = offsets._in_flight

    def in_flight(step: StepBuilder, event: OffsetCommitReceived) -> CommitInFlight:
        found = real(step, event)
        return found if found.member_id else replace(found, partitions=frozenset())

    patch.setattr("coordinator.offsets._in_flight", in_flight)


@noticed_by(Invariant.OFFSETS)
def a_conversion_forgets_commits(patch: Patch) -> None:
    """Commits on their way to the cluster are forgotten with the group that is converted."""
    real = GroupState.apply

    def apply(state: GroupState, record: Record) -> None:
        real(state, record)
        if isinstance(record, ClassicGroupMetadata | GroupEpoch) and is_tombstone(record):
            for token in list(state.commits):
                state.commits.drop(token)
                state.deadlines.drop(DeadlineKey(DeadlineKind.LOST_COMMIT, str(token)))

    patch.setattr(GroupState, "apply", apply)


@noticed_by(Invariant.OFFSETS)
def stray_commits_are_no_danger(patch: Patch) -> None:
    """Partitions may be fetched and committed while the cluster may still store an older commit."""
    patch.setattr("coordinator.offsets._check_no_stray_commit", lambda *_: None)
