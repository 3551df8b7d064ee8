"""Bugs that the other checks must notice: what clients believe, what the engine owes itself."""

from coordinator.classic.rebalance import release_join
from coordinator.consumer.group import ConsumerGroup
from coordinator.consumer.reconcile import Goal, reconcile_member
from coordinator.records import Assignment, Member
from coordinator.simulation.invariants import Invariant
from coordinator.state import GroupState
from coordinator.step_builder import StepBuilder
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.simulation.planted_bugs.bug import Patch, noticed_by

# -- what clients believe --------------------------------------------------------------------------


@noticed_by(Invariant.GRANTED)
def silence_is_proof(patch: Patch) -> None:
    """A native member that does not state what it owns counts as having given it up."""

    def still_owns(current: Assignment, goal: Goal) -> bool:
        return not (goal.owned or frozenset()).isdisjoint(current.pending_revocation)

    patch.setattr("coordinator.consumer.reconcile._still_owns", still_owns)


@noticed_by(Invariant.HEARD, Invariant.LIVENESS)
def an_assignment_is_told_once(patch: Patch) -> None:
    """An assignment that changes while its member's epoch stays is not repeated."""
    patch.setattr("coordinator.native.heartbeat._awaits_acknowledgement", lambda *_, **__: False)


@noticed_by(Invariant.STALE_COMMIT)
def the_fenced_may_commit(patch: Patch) -> None:
    """A consumer group lets every commit through, also of somebody who is no member any more."""
    patch.setattr("coordinator.offsets.check_consumer_commit", lambda *_: None)


@noticed_by(Invariant.GRANTED)
def rejoining_gives_everything_up(patch: Patch) -> None:
    """A classic member that rejoins counts as owning nothing, whatever it lists."""
    patch.setattr("coordinator.mixed.join.owned_by_sender", lambda *_: frozenset())


@noticed_by(Invariant.GRANTED)
def joining_gives_everything_up(patch: Patch) -> None:
    """A repeated first heartbeat gives up what its member has to revoke and still uses."""

    def reassign(step: StepBuilder, member: Member) -> None:
        reconcile_member(step, member, frozenset(), subscription_changed=False)

    patch.setattr("coordinator.native.heartbeat.reassign_member", reassign)


# -- what the engine owes itself -------------------------------------------------------------------


@noticed_by(Invariant.INDEXES, Invariant.NO_ERROR)
def a_removed_member_goes_on_holding(patch: Patch) -> None:
    """The index of holders keeps members that are gone: their partitions are never free."""
    real = ConsumerGroup._put_assignment

    def put_assignment(group: ConsumerGroup, member_id: str, value: Assignment | None) -> None:
        holders = dict(group.holders)
        real(group, member_id, value)
        if value is None:
            for partition, holder_id in holders.items():
                group.holders.put(partition, holder_id)

    patch.setattr(ConsumerGroup, "_put_assignment", put_assignment)


@noticed_by(Invariant.ANSWERS)
def a_second_join_hides_the_first(patch: Patch) -> None:
    """A JoinGroup that waits is never answered once its member sent another (KAFKA-20938)."""

    def release(step: StepBuilder, member_id: str, error: ErrorCode, echo_id: str = "") -> None:
        is_hidden = member_id in step.classic.joins and error is ErrorCode.REBALANCE_IN_PROGRESS
        release_join(step, member_id, error, echo_id)
        if is_hidden:
            step.replies.pop()

    patch.setattr("coordinator.classic.rebalance.release_join", release)


@noticed_by(Invariant.PURE)
def deciding_writes_the_real_commits(patch: Patch) -> None:
    """A decision notes commits in the group itself, not in its copy."""
    real = GroupState.fork

    def fork(state: GroupState) -> GroupState:
        twin = real(state)
        twin.commits = state.commits
        return twin

    patch.setattr(GroupState, "fork", fork)
