"""Subscriptions by regular expression: when to resolve them, and the consequences (rule 3.13).

All expressions of a group are resolved together, outside the engine, at the heartbeat or JoinGroup
of any member, and all members share the result. A Kafka broker keeps only topics that the principal
of that request may DESCRIBE. The engine knows no principals.
"""

from coordinator.consumer.group_epoch import bump_epoch_if_needed
from coordinator.consumer.topic_regex import compile_regex
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.config import RESOLUTIONS_APART_MS
from coordinator.interface.errors import GroupError
from coordinator.interface.events import RegexesResolved
from coordinator.interface.records import EpochCause, RegularExpression, ResolvedRegex
from coordinator.interface.volatile_records import RegexResolution, RegexResolutionMoved
from kafka_codecs.error_codes import ErrorCode

REGEXES_MAX = 100
"""The limit of different regular expressions per group; Kafka has none."""


def check_new_regex(step: StepBuilder, regex: str) -> None:
    """Raises GroupError INVALID_REGULAR_EXPRESSION."""
    compile_regex(regex)
    if len(step.consumer.regex_subscribers) > REGEXES_MAX:
        raise GroupError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the group already has {REGEXES_MAX} different regular expressions",
        )


def start_resolution_if_due(step: StepBuilder) -> None:
    """Request a resolution for the members that subscribe to regular expressions, unless one is
    running or the last one is recent.

    Call this before unused expressions are forgotten, because their records have the time of the
    last resolution.
    """
    group = step.consumer
    if step.state.resolution is None and _is_due(step, group):
        regexes = frozenset(group.regex_subscribers)
        step.resolution = RegexResolution(regexes=regexes, started_ms=step.now_ms)
        step.emit(RegexResolutionMoved(step.resolution))


def _is_due(step: StepBuilder, group: ConsumerGroup) -> bool:
    if not group.regexes:
        return True
    age_ms = step.now_ms - max(regex.timestamp_ms for regex in group.regexes.values())
    if 0 <= age_ms <= RESOLUTIONS_APART_MS:
        return False
    return (
        age_ms < 0  # stored while the clock was ahead
        or any(regex not in group.regexes for regex in group.regex_subscribers)
        or any(regex.version < step.topics.names_version for regex in group.regexes.values())
        or age_ms > step.config.consumer_regex_refresh_interval_ms
    )


def regexes_resolved(step: StepBuilder, event: RegexesResolved) -> None:
    """Store the result, and bump the epoch once if it changes any member's topics."""
    resolution, group = step.state.resolution, step.state.group
    if resolution is None:
        return
    if event.topics is not None and not resolution.regexes <= event.topics.keys():
        return  # A resolution from before a load, which started another one.
    step.emit(RegexResolutionMoved(None))
    if event.topics is None or not isinstance(group, ConsumerGroup):
        return
    is_change = False
    for regex in sorted(resolution.regexes & group.regex_subscribers.keys()):
        before = group.regexes.get(regex)
        after = ResolvedRegex(
            topics=event.topics[regex],
            version=event.version,
            timestamp_ms=resolution.started_ms,
        )
        step.emit(RegularExpression(regex=regex, value=after))
        if before is None and not after.topics:
            is_change |= _has_unsubscribed_targets(step, group, regex)
        else:
            is_change |= before is None or before.topics != after.topics
    is_change |= step.topics.metadata_hash(group.subscribers) != group.metadata_hash
    bump_epoch_if_needed(step, EpochCause.REGEX_RESOLVED if is_change else None)


def _has_unsubscribed_targets(step: StepBuilder, group: ConsumerGroup, regex: str) -> bool:
    """DEV D18: whether a subscriber's target has topics that it no longer subscribes to.

    After a member changes to an expression without matches, the partitions of its target need a new
    owner. A Kafka broker sees no change, and they stay idle.
    """
    return any(
        not step.topics.ids(group.topics_of(member)).issuperset(
            partition.topic_id for partition in group.target_of(member_id)
        )
        for member_id, member in group.members.items()
        if member.topic_regex == regex
    )


def forget_unused_regexes(step: StepBuilder) -> None:
    """Write tombstones for expressions without subscribers, before those of the group (rule
    8.3)."""
    group = step.consumer
    for regex in sorted(group.regexes.keys() - group.regex_subscribers.keys()):
        step.emit(RegularExpression(regex=regex, value=None))
