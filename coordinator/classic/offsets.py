"""Offset commits of a classic group: membership and generation checks (rule 2.9)."""

from coordinator.classic.guards import check_generation, is_at_older_epoch, known_member
from coordinator.classic.rebalance import is_join_phase_over, restart_session
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.events import OffsetCommitReceived
from coordinator.interface.volatile_records import ClassicPhase
from kafka_codecs.error_codes import ErrorCode


def check_commit(step: StepBuilder, event: OffsetCommitReceived) -> None:
    """Check that the sender may commit.

    Raises GroupError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS, COORDINATOR_LOAD_IN_PROGRESS.
    """
    group = step.classic
    if event.epoch < 0 and group.phase is ClassicPhase.EMPTY:
        # A consumer that uses assign() may send an instance id too.
        return
    if event.epoch < 0 and not event.member_id and event.instance_id is None:
        if event.is_transactional:
            return
        raise GroupError(
            ErrorCode.UNKNOWN_MEMBER_ID, "the group has members, and the commit names none"
        )
    member = known_member(group, event.member_id, event.instance_id)
    if not is_at_older_epoch(group, event.member_id, event.epoch):
        check_generation(group, event.epoch)
    if group.phase is ClassicPhase.COMPLETING_REBALANCE and not event.is_transactional:
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, "the generation is not complete")
    if is_join_phase_over(step):
        # DEV D34: the generation waits only for commits already in flight. Otherwise one member
        # could delay it for ever.
        raise GroupError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the next generation is about to begin"
        )
    if not event.is_transactional:
        restart_session(step, member)
