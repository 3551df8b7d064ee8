"""Bugs that the checks of clients and of the engine itself must notice."""

from dataclasses import replace

from coordinator.classic.rebalance import release_join
from coordinator.consumer.admission import admit
from coordinator.consumer.reconcile import Goal, reconcile_member
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import ConsumerHeartbeatReceived
from coordinator.interface.records import Assignment, Member
from coordinator.interface.topics import Partition
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs.bug import Patch, noticed_by

# -- clients ---------------------------------------------------------------------------------------


@noticed_by(Invariant.INSTANCES)
def every_static_member_can_be_replaced(patch: Patch) -> None:
    """A native joiner takes the instance id of a live native member."""

    def admit_all(
        step: StepBuilder, event: ConsumerHeartbeatReceived, member_id: str
    ) -> Member | None:
        group = step.state.group
        everybody = frozenset(group.members if group is not None else ())
        return admit(step, replace(event, disconnected=everybody), member_id)

    patch.setattr("coordinator.native.heartbeat.admit", admit_all)


@noticed_by(Invariant.GRANTED)
def an_omitted_list_proves_a_revocation(patch: Patch) -> None:
    """A native heartbeat without owned partitions counts as proof of a revocation."""

    def still_owns(current: Assignment, goal: Goal) -> bool:
        return not (goal.owned or frozenset()).isdisjoint(current.pending_revocation)

    patch.setattr("coordinator.consumer.reconcile._still_owns", still_owns)


@noticed_by(Invariant.HEARD, Invariant.LIVENESS)
def an_assignment_is_sent_only_once(patch: Patch) -> None:
    """An assignment that changes without the member epoch is not repeated."""
    patch.setattr("coordinator.native.heartbeat._awaits_acknowledgement", lambda *_, **__: False)


@noticed_by(Invariant.STALE_COMMIT)
def fenced_members_may_commit(patch: Patch) -> None:
    """A consumer group accepts every commit, even from a removed member."""
    patch.setattr("coordinator.handlers.offsets.check_consumer_commit", lambda *_: None)


@noticed_by(Invariant.GRANTED)
def a_rejoin_revokes_everything(patch: Patch) -> None:
    """A classic member that rejoins counts as owning nothing, whatever it lists."""
    patch.setattr("coordinator.mixed.join.owned_by_sender", lambda *_: frozenset())


@noticed_by(Invariant.GRANTED)
def a_repeated_join_revokes_everything(patch: Patch) -> None:
    """A repeated first heartbeat frees partitions that its member must revoke and still uses."""

    def reassign(step: StepBuilder, member: Member) -> None:
        reconcile_member(step, member, frozenset(), subscription_changed=False)

    patch.setattr("coordinator.native.heartbeat.reassign_member", reassign)


@noticed_by(Invariant.GRANTED, Invariant.SINGLE_OWNER, Invariant.MOVES)
def a_statement_releases_what_nobody_was_told_to_give_up(patch: Patch) -> None:
    """A native heartbeat frees partitions that its client has been granted and not taken yet."""

    def owned_by_sender(
        _group: ConsumerGroup, event: ConsumerHeartbeatReceived, _member_id: str
    ) -> frozenset[Partition] | None:
        return event.owned

    patch.setattr("coordinator.native.heartbeat.owned_by_sender", owned_by_sender)


@noticed_by(Invariant.GRANTED, Invariant.SINGLE_OWNER)
def a_statement_counts_on_every_connection(patch: Patch) -> None:
    """A native heartbeat counts as proof although the answers before it may have been lost."""
    patch.setattr("coordinator.native.statements._has_heard", lambda *_: True)


# -- the engine itself -----------------------------------------------------------------------------


@noticed_by(Invariant.INDEXES, Invariant.NO_ERROR)
def a_removed_member_remains_a_holder(patch: Patch) -> None:
    """The index of holders keeps removed members, so their partitions never become free."""
    real = ConsumerGroup._put_assignment

    def put_assignment(group: ConsumerGroup, member_id: str, value: Assignment | None) -> None:
        holders = dict(group.holders)
        real(group, member_id, value)
        if value is None:
            for partition, holder_id in holders.items():
                group.holders.put(partition, holder_id)

    patch.setattr(ConsumerGroup, "_put_assignment", put_assignment)


@noticed_by(Invariant.ANSWERS)
def a_second_join_drops_the_first(patch: Patch) -> None:
    """A parked JoinGroup is never answered once its member sends another (KAFKA-20938)."""

    def release(step: StepBuilder, member_id: str, error: ErrorCode, echo_id: str = "") -> None:
        is_hidden = member_id in step.classic.joins and error is ErrorCode.REBALANCE_IN_PROGRESS
        release_join(step, member_id, error, echo_id)
        if is_hidden:
            step.replies.pop()

    patch.setattr("coordinator.classic.rebalance.release_join", release)


@noticed_by(Invariant.PURE)
def a_decision_changes_the_commits(patch: Patch) -> None:
    """A decision adds commits to the group itself instead of its fork."""
    real = GroupState.fork

    def fork(state: GroupState) -> GroupState:
        twin = real(state)
        twin.commits, twin.committing = state.commits, state.committing
        return twin

    patch.setattr(GroupState, "fork", fork)
