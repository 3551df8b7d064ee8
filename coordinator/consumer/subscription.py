"""Stores a member's description, and decides whether it bumps the group epoch (rule 3.5)."""

from coordinator.consumer.group_epoch import bump_epoch_if_needed
from coordinator.consumer.regexes import (
    check_new_regex,
    forget_unused_regexes,
    start_resolution_if_due,
)
from coordinator.consumer.selection import preferred_assignor
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.records import EpochCause, Member, MemberMetadata
from coordinator.interface.volatile_records import NEVER_CHECKED, TopicsChecked


def put_member(
    step: StepBuilder, before: Member | None, after: Member, *, why_else: EpochCause | None = None
) -> None:
    """Store the member's description if it changed. Bump the epoch if the change matters, or if
    there is another reason for a new target.

    Timeouts, client id, host and protocol do not affect assignments and do not bump the epoch.
    Raises GroupError INVALID_REGULAR_EXPRESSION.
    """
    is_stored = before is not None and step.consumer.members.get(after.member_id) == after
    assignor_before = None if is_stored else _assignor(step)
    # A replacement is described by the member before it, and not stored yet.
    if before is not None and after.member_id not in step.consumer.members:
        # While it was away, its topics may have changed without any subscriber.
        step.emit(TopicsChecked(NEVER_CHECKED))
    if not is_stored:
        step.emit(MemberMetadata(member_id=after.member_id, value=after))
    if after.topic_regex and (before is None or before.topic_regex != after.topic_regex):
        check_new_regex(step, after.topic_regex)
    group = step.consumer
    if group.regex_subscribers:
        start_resolution_if_due(step)
    if group.regexes and after != before:
        forget_unused_regexes(step)
    cause = _cause(group, before, after)
    # DEV D66: a change of the assignor takes effect immediately, as in Kafka 4.4 (KAFKA-20434).
    if cause is None and assignor_before is not None and assignor_before != _assignor(step):
        cause = EpochCause.ASSIGNOR_CHANGED
    bump_epoch_if_needed(step, cause or why_else)


def has_changed(before: Member | None, after: Member) -> bool:
    """Whether the member's subscription changed."""
    return (
        before is None
        or before.topic_names != after.topic_names
        or before.topic_regex != after.topic_regex
    )


def _assignor(step: StepBuilder) -> str | None:
    """The preferred assignor of the group; None if the group does not exist."""
    group = step.state.group
    return preferred_assignor(group, step.config) if isinstance(group, ConsumerGroup) else None


def _cause(group: ConsumerGroup, before: Member | None, after: Member) -> EpochCause | None:
    """The cause of an epoch bump, or None. An unresolved regular expression bumps the epoch only
    when it is resolved.

    DEV D66: a change of the rack bumps the epoch, as in Kafka 4.4 (KAFKA-20909).
    """
    # Only native members could run them: the group turns classic with the shares it has.
    says_more = before is not None and before.client_assignors != after.client_assignors
    if says_more and group.native_count:
        return EpochCause.ASSIGNOR_CHANGED
    if not has_changed(before, after):
        has_moved = before is not None and before.rack_id != after.rack_id
        return EpochCause.RACK_CHANGED if has_moved else None
    is_resolved = after.topic_regex in group.regexes
    if before is None:
        return EpochCause.MEMBER_JOINED if after.topic_names or is_resolved else None
    regex_counts = before.topic_regex != after.topic_regex and (
        is_resolved or not after.topic_regex
    )
    if before.topic_names != after.topic_names or regex_counts:
        return EpochCause.SUBSCRIPTION_CHANGED
    return None
