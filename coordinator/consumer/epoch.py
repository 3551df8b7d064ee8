"""The group epoch grows, once per request, for a cause or because a subscribed topic
changed (rule 3.5)."""

from coordinator.draft import Draft
from coordinator.records import EpochCause, GroupEpoch
from coordinator.volatile import TopicsChecked


def bump_epoch_if_needed(draft: Draft, cause: EpochCause | None) -> None:
    """One bump per request: for `cause`, or because a subscribed topic changed."""
    group, topics = draft.consumer, draft.topics
    if cause is None and topics.version == group.topics_checked:
        return
    metadata_hash = topics.metadata_hash(group.subscribers)
    if cause is None and metadata_hash != group.metadata_hash:
        cause = EpochCause.TOPICS_CHANGED
    if cause is not None:
        draft.emit(GroupEpoch(epoch=group.epoch + 1, metadata_hash=metadata_hash, cause=cause))
    if topics.version != group.topics_checked:
        draft.emit(TopicsChecked(topics.version))


def notice_changed_topics(draft: Draft) -> None:
    """DEV D6: on the heartbeat of a classic member, if nobody else would look.

    In Kafka only native heartbeats and JoinGroups do, and a group that has classic members only
    does not see that a topic grew before one of them joins again.
    """
    group = draft.consumer
    if draft.topics.version != group.topics_checked and group.is_left_to_classic_members:
        bump_epoch_if_needed(draft, None)
