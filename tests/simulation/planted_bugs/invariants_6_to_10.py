"""Bugs that the invariants 6 to 10 must notice: fences, conversions, log, offsets."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from coordinator.consumer.offsets import check_fetch
from coordinator.consumer.reconcile import reconcile_member
from coordinator.conversion import downgrade, upgrade
from coordinator.conversion.fence import fence
from coordinator.engine import GroupEngine, Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.load import arm_after_load
from coordinator.group.state import GroupState, Record
from coordinator.group.step_builder import StepBuilder
from coordinator.handlers import offsets
from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.events import OffsetCommitReceived, OffsetFetchReceived
from coordinator.interface.records import (
    Assignment,
    ClassicGenerationBegun,
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
from coordinator.interface.volatile_records import (
    CommitInFlight,
    DeadlineKey,
    DeadlineKind,
    DeadlineSet,
    MemberPhase,
    VolatileRecord,
)
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs.bug import Patch, noticed_by

# -- 6: a silent member is removed in time, and no other is ----------------------------------------


@noticed_by(Invariant.SILENCE)
def an_expired_session_restarts(patch: Patch) -> None:
    """A member whose session expired gets another session instead of being fenced."""

    def forgive(step: StepBuilder, causes: Mapping[str, RemovalCause]) -> None:
        for member_id, cause in causes.items():
            if cause is RemovalCause.SESSION_EXPIRED:
                step.arm(DeadlineKind.SESSION, member_id, 1_000)
            else:
                fence(step, {member_id: cause})

    patch.setattr("coordinator.handlers.expired_deadlines.fence", forgive)


@noticed_by(Invariant.SILENCE)
def a_restart_forgets_session_lengths(patch: Patch) -> None:
    """After a restart every member has the session timeout of a native member."""

    def arm(state: GroupState, config: GroupConfig, *, now_ms: int) -> Iterator[VolatileRecord]:
        for record in arm_after_load(state, config, now_ms=now_ms):
            if isinstance(record, DeadlineSet) and record.key.kind is DeadlineKind.SESSION:
                yield DeadlineSet(record.key, now_ms + config.consumer_session_timeout_ms)
            else:
                yield record

    patch.setattr("coordinator.engine.arm_after_load", arm)


@noticed_by(Invariant.SILENCE)
def a_rejoin_extends_the_revocation(patch: Patch) -> None:
    """A classic member that must revoke partitions gets a new deadline with each rejoin."""

    def reconcile(step: StepBuilder, member: Member, *what: Any, **how: Any) -> None:
        reconcile_member(step, member, *what, **how)
        if step.is_armed(DeadlineKind.REVOCATION, member.member_id):
            step.arm(DeadlineKind.REVOCATION, member.member_id, member.rebalance_timeout_ms)

    patch.setattr("coordinator.mixed.join.reconcile_member", reconcile)


@noticed_by(Invariant.TIMERS)
def a_revocation_has_no_deadline(patch: Patch) -> None:
    """A member may take for ever to revoke partitions."""
    patch.setattr("coordinator.consumer.reconcile._keep_revocation_deadline", lambda *_: None)


# -- 7: an upgrade and a downgrade preserve the assignments of static members ----------------------


@noticed_by(Invariant.THERE_AND_BACK, Invariant.GRANTED)
def an_upgrade_drops_the_assignments(patch: Patch) -> None:
    """An upgrade leaves all classic members without partitions."""

    def nothing(group: ClassicGroup, *_: object) -> dict[str, Assignment]:
        epoch = group.core.generation
        return {id_: Assignment(member_epoch=epoch, previous_epoch=epoch) for id_ in group.members}

    patch.setattr(upgrade, "_current_assignments", nothing)


@noticed_by(Invariant.THERE_AND_BACK)
def a_downgrade_stores_no_assignments(patch: Patch) -> None:
    """A downgraded group has its members, but not their assignments."""
    real = downgrade._classic_group_member

    def classic_group_member(*what: Any) -> ClassicGroupMember:
        return replace(real(*what), assignment=b"")

    patch.setattr(downgrade, "_classic_group_member", classic_group_member)


# -- 8: the log restores the same group ------------------------------------------------------------


@noticed_by(Invariant.REPLAY)
def member_tombstones_are_not_logged(patch: Patch) -> None:
    """The removal of a member reaches only the memory."""
    _drop_from_batches(patch, lambda r: isinstance(r, MemberMetadata) and r.value is None)


@noticed_by(Invariant.REPLAY)
def a_restart_restores_removed_members(patch: Patch) -> None:
    """The log has no removals of classic members between two stored assignments."""
    patch.setattr("coordinator.engine.store_removals", lambda _draft, _group: None)


@noticed_by(Invariant.REPLAY)
def a_restart_begins_a_generation_again(patch: Patch) -> None:
    """The log has no generations of classic groups without assignments."""
    _drop_from_batches(patch, lambda r: isinstance(r, ClassicGenerationBegun))


@noticed_by(Invariant.REPLAY)
def targets_are_not_logged(patch: Patch) -> None:
    """The batch with a new target lacks the targets of the members."""
    _drop_from_batches(patch, lambda r: isinstance(r, TargetAssignmentMember))


@noticed_by(Invariant.REPLAY, Invariant.INDEXES)
def assignments_share_a_key(patch: Patch) -> None:
    """The key of a current assignment lacks the member id, so compaction keeps only one."""
    patch.setattr(CurrentAssignment, "key", "current_assignment")


@noticed_by(Invariant.REPLAY, Invariant.SINGLE_HOLDER)
def a_downgrade_leaves_targets_in_the_log(patch: Patch) -> None:
    """A downgrade writes no tombstones for targets, so compaction restores them."""
    real = downgrade.delete_consumer_group

    def delete(step: StepBuilder, *what: Any) -> None:
        real(step, *what)
        step.records[:] = [r for r in step.records if not isinstance(r, TargetAssignmentMember)]
        step.durable[:] = [r for r in step.durable if not isinstance(r, TargetAssignmentMember)]

    patch.setattr(downgrade, "delete_consumer_group", delete)


@noticed_by(Invariant.REPLAY)
def stored_assignments_depend_on_the_phase(patch: Patch) -> None:
    """The stored assignment of a classic member depends on its phase, which a restart forgets."""
    real = ConsumerGroup._put_assignment

    def put_assignment(group: ConsumerGroup, member_id: str, value: Assignment | None) -> None:
        if value is not None and group.phases.get(member_id) is MemberPhase.PREPARE_REBALANCE:
            value = replace(value, previous_epoch=value.member_epoch)
        real(group, member_id, value)

    patch.setattr(ConsumerGroup, "_put_assignment", put_assignment)


def _drop_from_batches(patch: Patch, is_lost: Callable[[DurableRecord], bool]) -> None:
    real = GroupEngine.handle

    def handle(engine: GroupEngine, *what: Any, **how: Any) -> Step:
        step = real(engine, *what, **how)
        return replace(step, durable=tuple(r for r in step.durable if not is_lost(r)))

    patch.setattr(GroupEngine, "handle", handle)


# -- 9: under the policy disabled, no group becomes mixed ------------------------------------------


@noticed_by(Invariant.POLICY)
def the_disabled_policy_admits_classic_members(patch: Patch) -> None:
    """JoinGroup on a consumer group ignores the policy."""
    patch.setattr("coordinator.mixed.join.MigrationPolicy", SimpleNamespace(DISABLED=None))


@noticed_by(Invariant.POLICY)
def every_policy_allows_an_upgrade(patch: Patch) -> None:
    """A native member converts a classic group under every policy."""
    patch.setattr(MigrationPolicy, "allows_upgrade", True)


# -- 10: committed offsets survive and never go back -----------------------------------------------


@noticed_by(Invariant.OFFSETS, Invariant.IN_FLIGHT)
def a_commit_in_flight_holds_nothing(patch: Patch) -> None:
    """A commit in flight does not keep its partitions from other members."""

    def in_flight(*, member_id: str, **_partitions: object) -> CommitInFlight:
        return CommitInFlight(member_id=member_id, partitions=frozenset(), held=frozenset())

    patch.setattr("coordinator.handlers.offsets.CommitInFlight", in_flight)


@noticed_by(Invariant.OLD_FETCH)
def every_older_epoch_may_fetch(patch: Patch) -> None:
    """A member may fetch with an older epoch what it got later, or has never held."""
    real = check_fetch

    def check(step: StepBuilder, event: OffsetFetchReceived) -> None:
        current = step.consumer.assignments.get(event.member_id or "")
        if current is not None and 0 < event.epoch < current.member_epoch:
            event = replace(event, epoch=current.member_epoch)
        real(step, event)

    patch.setattr("coordinator.handlers.offsets.check_consumer_fetch", check)


@noticed_by(Invariant.OLD_FETCH)
def no_older_epoch_may_fetch(patch: Patch) -> None:
    """A member that has not heard its epoch cannot fetch what it has held all along."""
    real = check_fetch
    patch.setattr(
        "coordinator.handlers.offsets.check_consumer_fetch",
        lambda step, event: real(step, replace(event, partitions=None)),
    )


@noticed_by(Invariant.IN_FLIGHT)
def a_reset_in_flight_blocks_no_member(patch: Patch) -> None:
    """Members begin to read while the reset of an empty group is still in flight."""
    real = offsets._in_flight

    def in_flight(step: StepBuilder, event: OffsetCommitReceived) -> CommitInFlight:
        commits = real(step, event)
        return commits if commits.member_id else replace(commits, partitions=frozenset())

    patch.setattr("coordinator.handlers.offsets._in_flight", in_flight)


@noticed_by(Invariant.OFFSETS)
def a_conversion_forgets_commits(patch: Patch) -> None:
    """A conversion forgets the commits in flight."""
    real = GroupState.apply

    def apply(state: GroupState, record: Record) -> None:
        real(state, record)
        if isinstance(record, ClassicGroupMetadata | GroupEpoch) and is_tombstone(record):
            for token in list(state.commits):
                state.commits.drop(token)
                state.deadlines.drop(DeadlineKey(DeadlineKind.LOST_COMMIT, str(token)))

    patch.setattr(GroupState, "apply", apply)


@noticed_by(Invariant.OFFSETS, Invariant.IN_FLIGHT)
def stray_commits_are_ignored(patch: Patch) -> None:
    """Partitions may be fetched and committed while the cluster may still store a stray commit."""
    patch.setattr("coordinator.handlers.offsets._check_no_stray_commit", lambda *_: None)
