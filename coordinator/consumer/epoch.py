"""The group epoch grows, once per request, for a cause or because a subscribed topic
changed (rule 3.5)."""

from coordinator.records import EpochCause, GroupEpoch
from coordinator.step_builder import StepBuilder
from coordinator.volatile import TopicsChecked


def bump_epoch_if_needed(step: StepBuilder, cause: EpochCause | None) -> None:
    """One bump per request: for `cause`, or because a subscribed topic changed."""
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


def notice_changed_topics(step: StepBuilder) -> None:
    """DEV D6: on the heartbeat of a classic member, if nobody else would look.

    In Kafka only native heartbeats and JoinGroups do, and a group that has classic members only
    does not see that a topic grew before one of them joins again.
    """
    group = step.consumer
    if step.topics.version != group.topics_checked and group.is_left_to_classic_members:
        bump_epoch_if_needed(step, None)
