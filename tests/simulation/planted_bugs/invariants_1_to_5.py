"""Bugs that the invariants 1 to 5 must notice: holders, epochs, answers, liveness."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from coordinator.assignors import ASSIGNORS, Assignor, GroupSpec
from coordinator.consumer import admission
from coordinator.consumer.group_epoch import bump_epoch_if_needed
from coordinator.consumer.reconcile import reconcile_member
from coordinator.conversion import downgrade, upgrade
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import write_assignment
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    JoinGroupReceived,
    SyncGroupReceived,
)
from coordinator.interface.records import (
    EpochCause,
    GroupEpoch,
    Member,
    MemberState,
)
from coordinator.interface.topics import Partition
from coordinator.mixed import heartbeat as mixed_heartbeat
from coordinator.mixed.join import join as mixed_join
from coordinator.mixed.sync import sync as mixed_sync
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs.bug import Patch, noticed_by

# -- 1: no two members hold the same partition -----------------------------------------------------


@noticed_by(Invariant.SINGLE_HOLDER)
def held_partitions_are_granted(patch: Patch) -> None:
    """Every partition counts as free, and the engine's own guard is off."""
    patch.setattr(StepBuilder, "is_free_for", lambda *_: True)
    patch.setattr(StepBuilder, "_guard_single_owner", lambda *_: None)


@noticed_by(Invariant.NO_ERROR)
def only_the_guard_protects_held_partitions(patch: Patch) -> None:
    """Every partition counts as free, but the engine's own guard still refuses the grant."""
    patch.setattr(StepBuilder, "is_free_for", lambda *_: True)


@noticed_by(Invariant.SINGLE_HOLDER)
def an_assignor_assigns_partitions_twice(patch: Patch) -> None:
    """Every member whose target changes gets the new targets of all such members."""

    def twice(assignor: Assignor) -> Assignor:
        def assign(spec: GroupSpec) -> Mapping[str, frozenset[Partition]]:
            changed = assignor(spec)
            return dict.fromkeys(changed, frozenset[Partition]().union(*changed.values()))

        return assign

    for name, assignor in ASSIGNORS.items():
        patch.setitem(ASSIGNORS, name, twice(assignor))


# -- 2: epochs are ordered and never decrease ------------------------------------------------------


@noticed_by(Invariant.EPOCHS)
def a_downgrade_resets_the_generation(patch: Patch) -> None:
    """A downgraded group begins at generation 0."""
    real = downgrade._become_classic

    def become_classic(step: StepBuilder, _epoch: int, *rest: Any, without_rebalance: bool) -> None:
        real(step, 0, *rest, without_rebalance=without_rebalance)

    patch.setattr(downgrade, "_become_classic", become_classic)


@noticed_by(Invariant.EPOCHS)
def an_upgrade_resets_the_epoch(patch: Patch) -> None:
    """An upgraded group begins at epoch 1."""
    real = upgrade._write_consumer_group

    def write_consumer_group(step: StepBuilder, _generation: int, *rest: Any) -> None:
        real(step, 1, *rest)

    patch.setattr(upgrade, "_write_consumer_group", write_consumer_group)


@noticed_by(Invariant.EPOCHS)
def a_member_overtakes_its_target(patch: Patch) -> None:
    """A member advances to the group epoch although the target has an older epoch."""

    def supersede(step: StepBuilder, *what: Any, subscription_changed: bool) -> None:
        group = step.consumer
        of_the_target, group.assignment_epoch = group.assignment_epoch, group.epoch
        reconcile_member(step, *what, subscription_changed=subscription_changed)
        group.assignment_epoch = of_the_target

    patch.setattr("coordinator.native.heartbeat.reconcile_member", supersede)
    patch.setattr("coordinator.mixed.join.reconcile_member", supersede)


# -- 3: answers match the member's epoch and assignment --------------------------------------------


@noticed_by(Invariant.CLASSIC_REPLIES)
def a_sync_returns_the_target(patch: Patch) -> None:
    """SyncGroup returns a classic member's whole target, granted or not."""

    def sync(step: StepBuilder, event: SyncGroupReceived) -> None:
        mixed_sync(step, event)
        target = step.consumer.target_of(event.member_id)
        _change_reply(step, assignment=write_assignment(target, 1, step.topics))

    patch.setattr("coordinator.handlers.classic_requests.mixed_sync", sync)


@noticed_by(Invariant.CLASSIC_REPLIES)
def a_join_returns_the_group_epoch(patch: Patch) -> None:
    """JoinGroup returns the group epoch, which the classic member may not have reached."""

    def join(step: StepBuilder, event: JoinGroupReceived) -> None:
        mixed_join(step, event)
        if isinstance(step.state.group, ConsumerGroup):
            _change_reply(step, generation=step.consumer.epoch)

    patch.setattr("coordinator.handlers.classic_requests.mixed_join", join)


@noticed_by(Invariant.CLASSIC_REPLIES)
def a_member_that_left_returns_at_its_leave_epoch(patch: Patch) -> None:
    """A member that left with -2 stays at that epoch if it returns with a new instance id."""
    real = admission._admit_joiner

    def admit_joiner(
        step: StepBuilder, group: ConsumerGroup, event: ConsumerHeartbeatReceived, member_id: str
    ) -> Member | None:
        if event.instance_id in group.instances:
            return real(step, group, event, member_id)
        return group.members.get(member_id)

    patch.setattr(admission, "_admit_joiner", admit_joiner)


def _change_reply(step: StepBuilder, **changes: Any) -> None:
    """Change the last answer, unless it is an error."""
    token, reply = step.replies[-1]
    if not reply.error:
        step.replies[-1] = token, replace(reply, **changes)


# -- 4: after a heartbeat with NONE, a rejoin would change nothing ---------------------------------


@noticed_by(Invariant.QUIET_REJOIN)
def a_heartbeat_hides_a_new_target(patch: Patch) -> None:
    """Heartbeat answers NONE to a classic member that is behind the assignment epoch."""
    real = mixed_heartbeat._must_rejoin

    def must_rejoin(step: StepBuilder, member_id: str) -> bool:
        group = step.consumer
        is_behind = group.assignments[member_id].member_epoch < group.assignment_epoch
        return not is_behind and real(step, member_id)

    patch.setattr(mixed_heartbeat, "_must_rejoin", must_rejoin)


@noticed_by(Invariant.QUIET_REJOIN)
def a_heartbeat_hides_a_revocation(patch: Patch) -> None:
    """Heartbeat answers NONE to a classic member that must revoke partitions."""
    real = mixed_heartbeat._must_rejoin

    def must_rejoin(step: StepBuilder, member_id: str) -> bool:
        state = step.consumer.assignments[member_id].state
        return state is not MemberState.UNREVOKED_PARTITIONS and real(step, member_id)

    patch.setattr(mixed_heartbeat, "_must_rejoin", must_rejoin)


# -- 5: without faults, every member gets its share and every heartbeat succeeds -------------------


@noticed_by(Invariant.LIVENESS, Invariant.DISTURBED)
def a_heartbeat_always_asks_to_rejoin(patch: Patch) -> None:
    """Heartbeat always answers REBALANCE_IN_PROGRESS to classic members of a consumer group."""
    patch.setattr(mixed_heartbeat, "_must_rejoin", lambda *_: True)


@noticed_by(Invariant.LIVENESS)
def a_heartbeat_hides_free_partitions(patch: Patch) -> None:
    """Heartbeat answers NONE to a classic member whose awaited partitions are all free."""
    patch.setattr(mixed_heartbeat, "are_lacking_partitions_free", lambda *_: False)


@noticed_by(Invariant.TARGETS)
def a_fence_does_not_bump_the_epoch(patch: Patch) -> None:
    """Removing a member leaves the group epoch unchanged, so no member inherits its partitions."""

    def same_epoch(*, epoch: int, metadata_hash: int, cause: EpochCause) -> GroupEpoch:
        return GroupEpoch(epoch=epoch - 1, metadata_hash=metadata_hash, cause=cause)

    patch.setattr("coordinator.conversion.fence.GroupEpoch", same_epoch)


@noticed_by(Invariant.LIVENESS)
def topic_changes_go_unnoticed(patch: Patch) -> None:
    """A consumer group does not notice that a topic appeared, grew or vanished."""

    def bump(step: StepBuilder, cause: EpochCause | None) -> None:
        if cause is not None:
            bump_epoch_if_needed(step, cause)

    patch.setattr("coordinator.consumer.subscription.bump_epoch_if_needed", bump)
    patch.setattr("coordinator.consumer.group_epoch.bump_epoch_if_needed", bump)


@noticed_by(Invariant.LIVENESS)
def a_classic_only_group_computes_no_target(patch: Patch) -> None:
    """A consumer group with only classic members computes no target after a member left."""
    patch.setattr("coordinator.engine.classic_only.schedule", lambda _draft: None)


@noticed_by(Invariant.LIVENESS)
def a_downgraded_group_does_not_watch_topics(patch: Patch) -> None:
    """After a downgrade without a rebalance, topic changes go unnoticed."""
    patch.setattr("coordinator.classic.heartbeat.notice_unwatched_change", lambda _draft: False)
