"""Bumps the group epoch, at most once per request (rule 3.5)."""

from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import JOIN_EPOCH
from coordinator.interface.records import EpochCause, GroupEpoch, TargetAssignmentMetadata
from coordinator.interface.volatile_records import TopicsChecked


def bump_epoch_if_needed(step: StepBuilder, cause: EpochCause | None) -> None:
    """Bump the epoch once if there is a cause or a subscribed topic changed."""
    group, topics = step.consumer, step.topics
    if cause is None and topics.version == group.topics_checked:
        return
    metadata_hash = topics.metadata_hash(group.subscribers)
    if cause is None and metadata_hash != group.metadata_hash:
        cause = EpochCause.TOPICS_CHANGED
    if cause is not None:
        step.emit(GroupEpoch(epoch=group.epoch + 1, metadata_hash=metadata_hash, cause=cause))
    if topics.version != group.topics_checked:
        step.emit(TopicsChecked(topics.version))


def wait_for_target(step: StepBuilder) -> None:
    """Let the members continue until there is a new target.

    A group that was upgraded during its first classic rebalance has none yet. Its members cannot
    wait at epoch 0, which means to join, so the group begins as a new one does (rule 3.5).
    """
    group = step.consumer
    if group.assignment_epoch == JOIN_EPOCH:
        begun, interrupted = group.epoch, EpochCause.REBALANCE_INTERRUPTED
        step.emit(
            TargetAssignmentMetadata(epoch=begun),
            GroupEpoch(epoch=begun + 1, metadata_hash=group.metadata_hash, cause=interrupted),
        )


def notice_changed_topics(step: StepBuilder) -> None:
    """DEV D6: check the topics at the heartbeat of a classic member, if no native member does.

    In Kafka only native heartbeats and JoinGroups check. A group with classic members only does not
    notice a grown topic until one of them rejoins.
    """
    group = step.consumer
    if step.topics.version != group.topics_checked and group.is_left_to_classic_members:
        bump_epoch_if_needed(step, None)
