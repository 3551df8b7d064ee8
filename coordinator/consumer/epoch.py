"""The group epoch grows, once per request, for a cause or because a subscribed topic changed."""

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
