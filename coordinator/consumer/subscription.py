"""A member's description of itself, and when it bumps the group epoch (rule 3.5)."""

from coordinator.consumer.epoch import bump_epoch_if_needed
from coordinator.consumer.group import ConsumerGroup
from coordinator.consumer.regexes import (
    check_new_regex,
    forget_unused_regexes,
    start_resolution_if_due,
)
from coordinator.consumer.target import preferred_assignor
from coordinator.records import EpochCause, Member, MemberMetadata
from coordinator.step_builder import StepBuilder


def put_member(
    step: StepBuilder, before: Member | None, after: Member, *, needs_target: bool = False
) -> None:
    """Persist what the member says of itself, if that is new, and bump the epoch if it counts, or
    if the group needs a new target for another reason.

    Timeouts, client id and host and protocol change no partition: they bump nothing. Raises
    GroupError INVALID_REGULAR_EXPRESSION.
    """
    assignor_before = _assignor(step)
    if after != before:
        step.emit(MemberMetadata(member_id=after.member_id, value=after))
    if before is None or before.topic_regex != after.topic_regex:
        check_new_regex(step, after.topic_regex)
    start_resolution_if_due(step)
    if after != before:
        forget_unused_regexes(step)
    cause = _cause(step.consumer, before, after)
    # DEV D66: another assignor counts at once, as in Kafka 4.4 (KAFKA-20434).
    if cause is None and assignor_before not in (None, _assignor(step)):
        cause = EpochCause.ASSIGNOR_CHANGED
    if cause is None and needs_target:
        cause = EpochCause.REBALANCE_INTERRUPTED
    bump_epoch_if_needed(step, cause)


def has_changed(before: Member | None, after: Member) -> bool:
    """Whether the member subscribes otherwise than before."""
    return (
        before is None
        or before.topic_names != after.topic_names
        or before.topic_regex != after.topic_regex
    )


def _assignor(step: StepBuilder) -> str | None:
    """The one in force, None as long as the group is not there."""
    group = step.state.group
    return preferred_assignor(group, step.config) if isinstance(group, ConsumerGroup) else None


def _cause(group: ConsumerGroup, before: Member | None, after: Member) -> EpochCause | None:
    """A regular expression that is not resolved yet bumps nothing now: its resolution will.

    DEV D66: another rack does, as in Kafka 4.4 (KAFKA-20909).
    """
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
