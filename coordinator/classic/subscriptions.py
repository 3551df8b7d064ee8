"""The topics of a classic group, as far as its members tell: the group itself needs none of them.

Its leader watches them. DEV D11: after a quiet downgrade the leader does not know that it leads,
and neither does a static leader that restarts with JoinGroup v8 or older: a topic that grows would
stay unnoticed until the next rebalance. So the group watches by itself, from heartbeat to
heartbeat, until a join phase makes a leader that knows.
"""

from dataclasses import replace

from coordinator.classic.group import ClassicGroup
from coordinator.records import ClassicGroupMember
from coordinator.step_builder import StepBuilder
from coordinator.volatile import ClassicCoreMoved
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE, decode_subscription


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """What the members subscribe to by the selected protocol; None if that cannot be known: there
    is no protocol yet, it is not the consumer's, or bytes cannot be read (rule 2.9)."""
    if group.core.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    names: set[str] = set()
    for member in group.members.values():
        topics = _topics_of(member, group)
        if topics is None:
            return None
        names |= topics
    return frozenset(names)


def subscribes_alike(
    group: ClassicGroup, before: ClassicGroupMember, after: ClassicGroupMember
) -> bool:
    """Whether a member wants the topics that it wanted before, as far as that can be known."""
    if group.core.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return True
    wanted = _topics_of(before, group), _topics_of(after, group)
    return None in wanted or wanted[0] == wanted[1]


def _topics_of(member: ClassicGroupMember, group: ClassicGroup) -> frozenset[str] | None:
    try:
        _version, subscription = decode_subscription(member.metadata_for(group.core.protocol))
    except WireError:
        return None
    return frozenset(subscription.topics)


def topics_in_force(group: ClassicGroup) -> frozenset[str] | None:
    """The topics of the generation: members that join with others do not count before the next one
    begins. Of a group that was just loaded or downgraded, the topics of its members."""
    return subscribed_topics(group) if group.core.topics is None else group.core.topics


def have_topics_changed(step: StepBuilder) -> bool:
    """Whether a topic changed since this generation began, as far as that is remembered. A leader
    that was away has not seen it."""
    core = step.classic.core
    if core.topics is None or core.topics_hash is None:
        return False
    return step.topics.metadata_hash(core.topics) != core.topics_hash


def watch_topics(step: StepBuilder) -> None:
    """From now on the group notices changes by itself, compared with the topics of this moment."""
    group = step.classic
    topics_hash = step.topics.metadata_hash(subscribed_topics(group) or ())
    step.emit(ClassicCoreMoved(replace(group.core, unwatched_hash=topics_hash)))


def notice_unwatched_change(step: StepBuilder) -> bool:
    """Whether a topic changed and no leader looks out for that; looks once per change of the
    topics' image."""
    group = step.classic
    core = group.core
    if core.unwatched_hash is None or core.topics_checked == step.topics.version:
        return False
    step.emit(ClassicCoreMoved(replace(core, topics_checked=step.topics.version)))
    names = subscribed_topics(group) or frozenset()
    return step.topics.metadata_hash(names) != core.unwatched_hash
