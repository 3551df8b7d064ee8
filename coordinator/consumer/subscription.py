"""A member's description of itself, and when it bumps the group epoch (spec 3.5)."""

from coordinator.draft import Draft
from coordinator.records import EpochCause, GroupEpoch, Member, MemberMetadata
from coordinator.volatile import TopicsChecked


def put_member(
    draft: Draft, before: Member | None, after: Member, *, needs_target: bool = False
) -> None:
    """Persist what the member says of itself, if that is new, and bump the epoch if it counts, or
    if the group needs a new target for another reason.

    Rack, timeouts, client id and host, assignor and protocol change no partition: they bump
    nothing.
    """
    if after != before:
        draft.emit(MemberMetadata(member_id=after.member_id, value=after))
    cause = _cause(before, after)
    if cause is None and needs_target:
        cause = EpochCause.REBALANCE_INTERRUPTED
    bump_epoch_if_needed(draft, cause)


def _cause(before: Member | None, after: Member) -> EpochCause | None:
    if before is None:
        return EpochCause.MEMBER_JOINED if after.topic_names else None
    if before.topic_names != after.topic_names or (before.topic_regex and not after.topic_regex):
        return EpochCause.SUBSCRIPTION_CHANGED
    return None


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
